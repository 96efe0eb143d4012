"""Latency beside correctness: what is measured, in which order, and what a limit on it does. No time is asserted."""

from __future__ import annotations

from dataclasses import replace

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from onnx_gate.errors import CannotJudge, ManifestError
from onnx_gate.records.asked import LatencySpec
from onnx_gate.records.found import OutputDiff
from onnx_gate.reports import markdown
from onnx_gate.vocabulary import BreachKind, Cause, Status
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.trial.latency import WARM_UP, cases_to_time, require_all_timed, take_turns
from tests.conftest import Run, run_manifest
from tests.golden.records import breaches_of
from tests.onnx_models import doubler

FAST, SLOW = "1e-9", "1e9"
MANIFEST = """
version: 1
defaults:
  inputs: {{X: {{dtype: float32, shape: [batch, 4]}}}}
  batches: [1, 7]
  edges: [zeros, large-batch]
  latency: {{repeats: 5, seconds: 0.001}}
models:
  - {{id: timed, source: m.joblib}}
  - {{id: untimed, source: m.joblib, latency: false}}
  - {{id: fast, source: m.joblib, min_speedup: {FAST}}}
  - {{id: slow, source: m.joblib, min_speedup: {SLOW}}}
  - {{id: by-provider, source: m.joblib, min_speedup: {SLOW}, providers: {{cpu: {{min_speedup: {FAST}}}}}}}
  - {{id: allowed, source: m.joblib, min_speedup: {SLOW}, allow_failure: true}}
  - {{id: ignored, source: m.joblib, min_speedup: {FAST}, outputs: {{label: ignore, probabilities: ignore}}}}
  - {{id: itself, source: double.onnx, inputs: {{x: {{dtype: float32, shape: [batch, 3]}}}}}}
"""


def fit(folder):
    """A model whose answers agree."""
    rows = np.random.default_rng(0).normal(size=(60, 4))
    joblib.dump(LogisticRegression().fit(rows, rows[:, 0] > 0), folder / "m.joblib")


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("latency")
    fit(folder)
    doubler(folder / "double.onnx")
    return run_manifest(folder, MANIFEST.format(FAST=FAST, SLOW=SLOW))


def test_both_sides_are_timed_at_every_batch_size(judged):
    """With what a reader needs to make sense of it; edges aren't timed."""
    found = judged["timed"].latency
    assert [(one.provider, one.case, one.batch, one.repeats) for one in found] == [
        ("cpu", "batch=1", 1, 5),
        ("cpu", "batch=7", 7, 5),
    ]
    for one in found:
        assert 0 < one.source.median <= one.source.p95
        assert 0 < one.actual.median <= one.actual.p95
        assert one.speedup == one.source.median / one.actual.median
    assert judged["untimed"].latency == ()
    assert judged.result.environment.cores >= 1


@pytest.mark.parametrize("model", ["timed", "untimed", "fast", "by-provider"])
def test_a_limit_that_holds_passes(judged, model):
    """The nearer limit wins; without one there is no check."""
    checks = judged.checks(model, case="latency")
    assert judged[model].verdict is Status.PASSED
    assert [(check.output, check.status) for check in checks] == [("speedup", Status.PASSED)] * (
        model not in ("timed", "untimed")
    )


def test_a_limit_that_is_missed_fails_the_model(judged):
    """With a sentence for each batch size, and a cause that doesn't accuse the file."""
    found = judged["slow"]
    [check] = judged.checks("slow", case="latency")
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.PROVIDER)
    assert check.status is Status.DIVERGED
    assert check.message.count("times as fast as the source (median ") == 2
    assert "min_speedup is 1e9" in check.message
    assert "The answers agree" in found.advice
    assert judged.result.exit_code == 1


def test_a_missed_limit_may_be_allowed(judged):
    """As any divergence may."""
    assert judged["allowed"].verdict is Status.DIVERGED
    assert judged["allowed"].allow_failure


def test_speed_alone_proves_nothing(judged):
    """A model whose outputs are all ignored was not compared, however fast it is."""
    assert judged["ignored"].verdict is Status.ERROR
    assert "every output is ignored" in judged["ignored"].error


def test_the_summary_tells_speed_ups_and_how_they_were_measured(judged):
    """A column where something was measured, and a table with the numbers in the fold."""
    page = markdown.render(judged.result)
    assert "| cpu | speed-up | framework | time |" in page
    assert "at one thread" in page
    assert "| provider | case | source | p95 | ONNX Runtime | p95 | speed-up | runs |" in page
    assert "The source is the same file, run on the CPU without optimisations." in page
    assert "- `speedup` (cpu, latency): at batch=1 cpu is" in page


@pytest.mark.parametrize(
    ("model", "place", "words"),
    [
        ("source: m.joblib, latency: false, min_speedup: 2", "min_speedup", "could not be judged"),
        ("source: double.onnx, min_speedup: 2", "min_speedup", "nothing is faster than itself"),
        ("source: double.onnx, providers: {cpu: {min_speedup: 2}}", "providers.cpu.min_speedup", "than itself"),
        ("source: m.joblib, min_speedup: 0", "min_speedup", "more than 0"),
        ("source: m.joblib, latency: often", "latency", "true, false, or a mapping"),
        ("source: m.joblib, latency: {repeats: 2}", "latency.repeats", "at least 5"),
    ],
)
def test_limits_that_make_no_sense_are_refused(tmp_path, model, place, words):
    """With the place and what is wrong there."""
    fit(tmp_path)
    doubler(tmp_path / "double.onnx")
    inputs = "" if "onnx" in model else ", inputs: {X: {dtype: float32, shape: [batch, 4]}}"
    with pytest.raises(ManifestError) as caught:
        run_manifest(tmp_path, f"version: 1\nmodels:\n  - {{id: m, {model}{inputs}}}\n")
    [problem] = caught.value.problems
    assert problem.path == f"models[0].{place}"
    assert words in str(problem)


def test_a_default_limit_passes_an_onnx_source_by(tmp_path):
    """It is meant for those that have a source to be faster than."""
    doubler(tmp_path / "double.onnx")
    defaults = "{min_speedup: 1e9, providers: {cpu: {min_speedup: 1e9}}}"
    run = run_manifest(tmp_path, f"version: 1\ndefaults: {defaults}\nmodels:\n  - {{id: m, source: double.onnx}}\n")
    assert run["m"].verdict is Status.PASSED
    assert run["m"].latency == ()


def test_sides_take_turns():
    """Source, provider, source, provider: what slows the machine slows all alike."""
    order = []
    times = take_turns([lambda: order.append("source"), lambda: order.append("cpu")], LatencySpec(repeats=6))
    assert order == ["source", "cpu"] * (WARM_UP + 6)
    assert [len(taken) for taken in times] == [6, 6]


def test_a_slow_side_still_gets_its_fewest_runs():
    """And no more than those once the time is spent."""
    times = take_turns([lambda: None], LatencySpec(repeats=1000, seconds=1e-12))
    assert len(times[0]) == 5


def test_one_case_of_each_batch_size_is_timed():
    """The largest of it, at most eight sizes, the largest among them."""
    cases = [
        Case(name=f"batch={b},seq={s}", calls=lambda: iter(()), sizes={"batch": b, "seq": s})
        for b in range(1, 21)
        for s in (8, 4)
    ]
    chosen = cases_to_time([*cases, Case(name="edge=zeros", calls=lambda: iter(()), sizes={"batch": 99})])
    assert len(chosen) <= 8
    assert chosen[-1].name == "batch=20,seq=8"
    assert all(case.sizes["seq"] == 8 for case in chosen)


def test_a_size_that_no_limit_was_held_against_is_an_error():
    """A limit holds at every batch size: one that was not timed must not look as if it had."""
    kept = OutputDiff(provider="cuda", case="latency", output="speedup")
    broken = replace(kept, breaches=breaches_of(BreachKind.SPEED, "too slow"))
    require_all_timed(["batch=32"], [])
    require_all_timed([], [kept])
    require_all_timed(["batch=32"], [kept, broken])
    with pytest.raises(CannotJudge, match=r"every batch size, and latency was not measured at batch=32") as caught:
        require_all_timed(["batch=32"], [kept])
    assert "raise `timeout`" in caught.value.fix
