"""A result beside an earlier one: what counts as changed, what explains it, what is remembered."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.gate.baseline.compare import Earlier, compare
from onnx_gate.gate.numbers.history import history_contradictions
from onnx_gate.gate.selection import make_scope
from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import ConvertInfo
from onnx_gate.records.history.change import STEADIER, THRESHOLDS, Change
from onnx_gate.records.history.past import MOST_RUNS, Past, PastRun
from onnx_gate.records.ran import Latency, Placement, Timing
from onnx_gate.records.result import Check, GateResult, ModelResult, Part
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.reports import json
from onnx_gate.vocabulary import Cause, ChangeKind, Status
from tests.contract.sources import REPOSITORY
from tests.golden.families import FAMILIES
from tests.golden.history import history
from tests.golden.records import error, floats, gate, labels, model, skip, strength_of

ALLOWED = 1e-5 + 1e-3 * 0.1
"""What the tolerance of these records allows at their reference."""


def against(old: GateResult, new: GateResult, **about: Any) -> GateResult:
    """The new one, with what changed; both can be written and read."""
    made = compare(new, Earlier(result=old, source="before/results.json", **about))
    assert list(history_contradictions(made)) == []
    # As text: a NaN is not equal to itself.
    assert json.render(json.parse_strictly(json.render(made).encode())) == json.render(made)
    return made


def changed(old: ModelResult, new: ModelResult) -> list[ChangeKind]:
    """What is said of a model."""
    (found,) = against(gate(old), gate(new)).models
    return [change.kind for change in found.changes or ()]


def used(share: float, **given: Any) -> Check:
    """A comparison whose worst difference takes that share of what is allowed."""
    wrong = {"mismatched": 3} if share > 1 else {}
    return floats("batch=7", "y", share * ALLOWED, **wrong, **given)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("other", ["passed", "errors", "history", "merged"])
def test_a_baseline_changes_no_verdict(name: str, other: str) -> None:
    """Whatever is in it: everything but what it adds is as it was."""
    result = FAMILIES[name]()
    made = compare(result, Earlier(result=FAMILIES[other](), source="x"))
    bare = replace(made, baseline=None, models=tuple(replace(m, changes=None, past=None) for m in made.models))
    plain = replace(result, baseline=None, models=tuple(replace(m, changes=None, past=None) for m in result.models))
    assert bare == plain


# ── Thresholds ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("was", "now", "drifts"),
    [
        (0.1, 0.199, False),
        (0.1, 0.201, True),
        (0.001, 0.009, False),
        (0.0, 0.005, False),
        (0.0, 0.02, True),
        (0.2, 0.1, False),
        (0.9, 5.0, False),
        (5.0, 50.0, True),
    ],
)
def test_drift_begins_at_twice_the_share_of_what_is_allowed(was: float, now: float, drifts: bool) -> None:
    """Where that is anything to speak of, and no other verdict says more."""
    assert (ChangeKind.DRIFTED in changed(model("m", used(was)), model("m", used(now)))) is drifts


def test_drift_names_the_comparison() -> None:
    """The worst of those that drifted."""
    old = model("m", used(0.1), used(0.1, provider="cuda"))
    new = model("m", used(0.3), used(0.8, provider="cuda"))
    (found,) = against(gate(old), gate(new)).models
    (change,) = found.changes or ()
    assert (change.provider, change.case, change.output) == ("cuda", "batch=7", "y")
    assert change.now == pytest.approx(0.8)


def test_another_tolerance_is_no_drift() -> None:
    """What is allowed was changed, not the model."""
    tight = Tolerance(rtol=1e-4, atol=1e-6)
    new = floats("batch=7", "y", 0.1 * ALLOWED, tolerance=tight)
    assert new.used == pytest.approx(1.0)
    assert changed(model("m", used(0.1)), model("m", new)) == []


def test_another_case_is_no_drift() -> None:
    """What was not fed before can't have drifted."""
    assert changed(model("m", used(0.1)), model("m", floats("batch=9", "y", 0.9 * ALLOWED))) == []


def test_a_difference_that_is_no_number_drifts_once() -> None:
    """And is the same afterwards."""
    odd = floats("batch=7", "y", math.nan, mismatched=3, nonfinite_mismatched=3)
    assert changed(model("m", used(7.0)), model("m", odd)) == [ChangeKind.DRIFTED]
    assert changed(model("m", odd), model("m", odd)) == []


def timed(actual: float, source: float | None = None, spread: float = 1.05) -> ModelResult:
    """A model that takes so long."""
    side = Timing(median=source, p95=1.2 * source) if source else None
    return model(
        "m",
        used(0.1),
        latency=(
            Latency(
                provider="cpu",
                case="batch=7",
                batch=7,
                source=side,
                actual=Timing(median=actual, p95=spread * actual),
                speedup=source / actual if source else None,
                repeats=50,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "slower"),
    [
        (timed(1e-3), timed(1.49e-3), False),
        (timed(1e-3), timed(1.51e-3), True),
        (timed(1e-5), timed(9e-5), False),
        (timed(1e-3, spread=2.0), timed(1.9e-3), False),
        (timed(1e-3, spread=2.0), timed(2.1e-3), True),
        (timed(1e-3, source=2e-3), timed(3e-3, source=6e-3), False),
        (timed(1e-3, source=2e-3), timed(3e-3, source=2e-3), True),
        (timed(3e-3), timed(1e-3), False),
    ],
    ids=["little", "enough", "too short to say", "noisy", "beyond its noise", "busy machine", "alone", "faster"],
)
def test_slower_is_beyond_noise(old: ModelResult, new: ModelResult, slower: bool) -> None:
    """That of the clock, of the baseline itself, and of a machine with other work."""
    assert (changed(old, new) == [ChangeKind.SLOWER]) is slower


def test_times_of_another_machine_are_not_compared() -> None:
    """And the report says so, instead of blaming the model."""
    old = gate(timed(1e-3))
    old = replace(old, environment=replace(old.environment, cpu="Intel Xeon"))
    made = against(old, gate(timed(9e-3)))
    assert made.models[0].changes == ()
    assert made.baseline and not made.baseline.times_comparable
    assert [each.what for each in made.baseline.differences] == ["CPU"]


def test_parts_on_several_machines_are_not_timed() -> None:
    """Nobody knows which of them took so long."""
    result = gate(timed(1e-3))
    part = Part(shard="1/2", providers=(), started_at=result.started_at, seconds=1.0, environment=result.environment)
    other = replace(part, shard="2/2", environment=replace(part.environment, cpu="Intel Xeon"))
    old = replace(result, parts=(part, other))
    assert against(old, replace(gate(timed(9e-3)), parts=(part, other))).models[0].changes == ()


def file(size: int, opset: int = 18) -> ModelResult:
    """A model with such a file."""
    made = ConvertInfo(opset=opset, ir_version=10, nodes=42, size_bytes=size, seconds=1.1, shipped=False)
    return model("m", used(0.1), convert=made)


@pytest.mark.parametrize(
    ("was", "now", "larger"),
    [(100_000, 109_000, False), (100_000, 111_000, True), (1_000, 4_000, False), (100_000, 50_000, False)],
)
def test_larger_is_a_tenth_and_more_than_a_few_bytes(was: int, now: int, larger: bool) -> None:
    """Names and metadata come and go."""
    assert (changed(file(was), file(now)) == [ChangeKind.LARGER]) is larger


def test_another_opset_is_said_in_both_directions() -> None:
    """It is neither better nor worse."""
    assert changed(file(1000, 18), file(1000, 21)) == [ChangeKind.OPSET] == changed(file(1000, 21), file(1000, 18))


def strong(caught: int, **given: Any) -> ModelResult:
    """A model whose inputs catch so many of 50."""
    return model("m", used(0.1), strength=strength_of((("negated", 50, 50, caught, caught),), **given))


@pytest.mark.parametrize(("was", "now", "weaker"), [(50, 48, False), (50, 47, True), (40, 50, False)])
def test_weaker_is_five_points(was: int, now: int, weaker: bool) -> None:
    """A mutant or two say nothing."""
    assert (changed(strong(was), strong(now)) == [ChangeKind.WEAKER]) is weaker


def test_a_strength_that_was_not_finished_is_not_compared() -> None:
    """The time ran out, not the inputs."""
    assert changed(strong(50), strong(10, planned=100, incomplete="the time ran out")) == []


def placed(there: int) -> ModelResult:
    """A model of ten nodes."""
    return model("m", used(0.1), placement={"cpu": Placement(nodes=10, on_provider=there)})


def test_another_placement_is_said() -> None:
    """By the number of nodes elsewhere."""
    assert changed(placed(10), placed(7)) == [ChangeKind.PLACEMENT] == changed(placed(7), placed(10))
    assert changed(placed(10), placed(10)) == []


def test_the_docs_have_the_thresholds() -> None:
    """The table that people read is the one that is used."""
    page = (REPOSITORY / "docs/baseline.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([a-z ,]+) \| (.+) \|$", page, re.MULTILINE))
    said = {kind: rows[words] for kind, words in _ROWS.items()}
    drift, slow = THRESHOLDS[ChangeKind.DRIFTED], THRESHOLDS[ChangeKind.SLOWER]
    assert f"at least {drift.times:g} times" in said[ChangeKind.DRIFTED]
    assert f"at least {drift.least:.0%}".replace("%", " %") in said[ChangeKind.DRIFTED]
    assert f"at least {slow.times:g} times" in said[ChangeKind.SLOWER]
    assert f"{1e3 * slow.least:g} ms" in said[ChangeKind.SLOWER]
    assert f"fell by {STEADIER:g} times" in said[ChangeKind.SLOWER]
    assert f"at least {THRESHOLDS[ChangeKind.LARGER].times:g} times" in said[ChangeKind.LARGER]
    assert f"{THRESHOLDS[ChangeKind.LARGER].least / 1024:g} KiB" in said[ChangeKind.LARGER]
    assert f"{100 * THRESHOLDS[ChangeKind.WEAKER].least:g} points" in said[ChangeKind.WEAKER]


_ROWS = {
    ChangeKind.DRIFTED: "drifted",
    ChangeKind.SLOWER: "slower",
    ChangeKind.LARGER: "larger file",
    ChangeKind.WEAKER: "weaker inputs",
}


# ── Verdicts, and what was not compared ─────────────────────────────────────────────────────────────────

GOOD, BAD = model("m", used(0.1)), model("m", used(0.1), used(7.0, provider="cuda"))
BROKEN = model("m", error("", "convert", Cause.CONVERSION_FAILED, "no"))
SKIPPED = model("m", skip())
NOT_RUN = model("m", error("cpu", "run", Cause.INTERRUPTED, "the run was interrupted"))


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (GOOD, BAD, [ChangeKind.DIVERGED]),
        (GOOD, BROKEN, [ChangeKind.ERROR]),
        (BROKEN, BAD, [ChangeKind.DIVERGED]),
        (BAD, BROKEN, [ChangeKind.ERROR]),
        (BROKEN, GOOD, [ChangeKind.FIXED]),
        (GOOD, SKIPPED, [ChangeKind.SKIPPED]),
        (SKIPPED, GOOD, []),
        (GOOD, NOT_RUN, []),
        (NOT_RUN, GOOD, []),
        (NOT_RUN, BROKEN, []),
        (NOT_RUN, BAD, [ChangeKind.DIVERGED]),
        (SKIPPED, BAD, [ChangeKind.DIVERGED]),
        (SKIPPED, SKIPPED, []),
        (BROKEN, BROKEN, []),
        (GOOD, GOOD, []),
    ],
)
def test_verdicts_that_change(old: ModelResult, new: ModelResult, kinds: list[ChangeKind]) -> None:
    """From each to each."""
    assert changed(old, new) == kinds


def test_a_provider_that_is_no_longer_compared_is_said() -> None:
    """Though the model passes on the others."""
    old = model("m", used(0.1), used(0.1, provider="cuda"))
    (found,) = against(gate(old), gate(model("m", used(0.1), skip()))).models
    assert found.changes == (Change(kind=ChangeKind.SKIPPED, provider="cuda", verdict=Status.PASSED),)


def test_new_and_gone() -> None:
    """Only one of the two has it."""
    made = against(
        gate(model("a", used(0.1)), model("b", used(0.1))), gate(model("b", used(0.1)), model("c", used(0.1)))
    )
    assert made.baseline and made.baseline.gone == ("a",)
    assert [model.changes for model in made.models] == [(), (Change(kind=ChangeKind.NEW),)]
    assert [model.past for model in made.models][1] == ()


def scoped(*models: ModelResult, without: str) -> GateResult:
    """A run whose manifest has one more model, which the call leaves out."""
    asked = [AskedModel(id=m.id, line=3, framework="torch", providers={"cpu": False}, shard=1) for m in models]
    left = replace(asked[0], id=without, shard=0)
    return gate(*models, scope=make_scope("0" * 64, 1, [*asked, left], ()))


def test_what_a_call_leaves_out_is_neither_new_nor_gone() -> None:
    """`--only` says nothing of the manifest."""
    one, both = model("a", used(0.1)), (model("a", used(0.1)), model("b", used(0.1)))
    shorter = against(gate(*both), scoped(one, without="b"))
    assert shorter.baseline and shorter.baseline.gone == ()
    longer = against(scoped(one, without="b"), gate(*both))
    assert [model.changes for model in longer.models] == [(), ()]


# ── What else may explain it ────────────────────────────────────────────────────────────────────────────


def test_what_differs_beside_the_models_is_listed() -> None:
    """Runtime, packages, the machine, the manifest."""
    old, new = gate(GOOD), gate(GOOD)
    machine = replace(old.environment, onnxruntime="1.30", versions={"onnx": "1.19.0", "numpy": "2.0.0", "keras": "3"})
    made = against(replace(old, environment=machine, manifest="other.yml"), new)
    assert made.baseline
    found = {each.what: (each.was, each.now) for each in made.baseline.differences}
    assert found == {
        "manifest": ("other.yml", "onnx-gate.yml"),
        "onnxruntime": ("1.30", "1.23.0 (onnxruntime-gpu)"),
        "numpy": ("2.0.0", "2.3.1"),
        "keras": ("3", ""),
        "torch": ("", "2.9.0+cpu"),
    }


def test_a_manifest_that_asks_for_the_same_is_no_other_one() -> None:
    """Its text differs in a comment or in `allow_failure`; without that knowledge the text counts."""
    here = [AskedModel(id="m", line=3, framework="torch", providers={"cpu": False}, shard=1)]

    def run(text: str, judged: str) -> GateResult:
        return gate(GOOD, scope=replace(make_scope(text * 64, 1, here, ()), judged_sha256=judged))

    for old, new, expected in (
        (run("0", "same"), run("1", "same"), ()),
        (run("0", "was"), run("1", "now"), ("manifest",)),
        (run("0", ""), run("1", ""), ("manifest",)),
        (run("0", ""), run("0", "now"), ()),
    ):
        made = against(old, new).baseline
        assert made and tuple(each.what for each in made.differences) == expected


def test_the_same_machine_and_manifest_differ_in_nothing() -> None:
    """And the time of the day is no difference."""
    made = against(gate(GOOD, started_at="2026-01-01T00:00:00+00:00"), gate(GOOD))
    assert made.baseline and made.baseline.differences == ()


# ── The history ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_runs_are_remembered_and_no_more() -> None:
    """The oldest goes; what is left names the right runs."""
    result = gate(GOOD)
    for number in range(MOST_RUNS + 5):
        newer = gate(model("m", used(0.1 + number / 100)), started_at=f"2026-01-01T00:00:{number:02}+00:00")
        result = against(result, newer, commit=f"{number:040x}")
    assert result.baseline
    assert len(result.baseline.runs) == MOST_RUNS
    assert result.baseline.runs[-1].commit == f"{MOST_RUNS + 4:040x}"
    past = result.models[0].past or ()
    assert [each.run for each in past] == list(range(MOST_RUNS))
    assert [each.used for each in past][-1] == pytest.approx(0.1 + (MOST_RUNS + 3) / 100)


def test_a_model_that_came_later_has_a_shorter_history() -> None:
    """Its runs are those that had it."""
    first = gate(model("a", used(0.1)))
    both = (model("a", used(0.1)), model("b", used(0.2)))
    third = against(against(first, gate(*both)), gate(*both))
    assert [[each.run for each in model.past or ()] for model in third.models] == [[0, 1], [1]]


def test_labels_and_skips_are_remembered_without_a_share() -> None:
    """There is none."""
    old = gate(model("labels", labels("data")), model("skipped", skip(), line=9))
    made = against(old, old)
    assert [(each.verdict, each.used) for m in made.models for each in m.past or ()] == [
        (Status.PASSED, None),
        (Status.SKIPPED, None),
    ]


# ── What can't be true ──────────────────────────────────────────────────────────────────────────────────


def lie(model_id: str, **values: Any) -> GateResult:
    """The golden history with one model that says something else."""
    honest = history()
    assert list(history_contradictions(honest)) == []
    models = tuple(replace(m, **values) if m.id == model_id else m for m in honest.models)
    assert models != honest.models
    return replace(honest, models=models)


def said(kind: ChangeKind, **given: Any) -> dict[str, Any]:
    """One change, and no other."""
    return {"changes": (Change(kind=kind, **given),)}


PLACE = {"provider": "cpu", "case": "batch=7", "output": "y"}


@pytest.mark.parametrize(
    ("model_id", "values"),
    [
        ("steady", said(ChangeKind.NEW)),
        ("brand-new", said(ChangeKind.FIXED, verdict=Status.DIVERGED)),
        ("brand-new", said(ChangeKind.OPSET, was=17.0, now=18.0)),
        ("steady", said(ChangeKind.FIXED, verdict=Status.DIVERGED)),
        ("steady", said(ChangeKind.DIVERGED, verdict=Status.PASSED)),
        ("steady", said(ChangeKind.ERROR, verdict=Status.PASSED)),
        ("steady", said(ChangeKind.SKIPPED, verdict=Status.PASSED)),
        ("steady", said(ChangeKind.SKIPPED, verdict=Status.PASSED, provider="cpu")),
        ("broke", said(ChangeKind.DIVERGED, verdict=Status.ERROR)),
        ("mended", said(ChangeKind.FIXED)),
        ("encoder", said(ChangeKind.DRIFTED, was=0.001, now=0.9, **PLACE)),
        ("encoder", said(ChangeKind.DRIFTED, was=math.nan, now=0.9, **PLACE)),
        ("encoder", said(ChangeKind.DRIFTED, **PLACE)),
        ("ranker", said(ChangeKind.SLOWER, was=1e-3, now=9e-3, provider="cpu", case="batch=32")),
        ("ranker", said(ChangeKind.SLOWER, was=2.3e-3, now=2.4e-3, provider="cpu", case="batch=32")),
        ("ranker", said(ChangeKind.LARGER, was=1000.0, now=400_000.0)),
        ("ranker", said(ChangeKind.LARGER, was=148_450.0, now=500_000.0)),
        ("trees", said(ChangeKind.WEAKER, was=0.99, now=0.62)),
        ("trees", said(ChangeKind.OPSET, was=15.0, now=22.0)),
        ("trees", said(ChangeKind.OPSET, was=21.0, now=21.0)),
        ("vision", said(ChangeKind.PLACEMENT, was=0.0, now=6.0, provider="cuda")),
        ("trees", {"changes": (Change(kind=ChangeKind.OPSET, was=15.0, now=21.0),) * 2}),
        ("steady", {"past": (Past(run=5, verdict=Status.PASSED),)}),
        ("steady", {"past": (Past(run=2, verdict=Status.PASSED), Past(run=1, verdict=Status.PASSED))}),
        ("steady", {"past": (Past(run=1, verdict=Status.PASSED),) * 2}),
        ("steady", {"past": (Past(run=1, verdict=Status.PASSED, used=math.nan),)}),
        ("broke", {"past": ()}),
    ],
)
def test_a_history_that_contradicts_the_result_is_seen(model_id: str, values: dict[str, Any]) -> None:
    """A change is about numbers that the model has."""
    assert list(history_contradictions(lie(model_id, **values)))


def test_a_history_without_a_baseline_is_seen() -> None:
    """And so is a baseline without a run, or one that has lost what is there."""
    honest = history()
    assert honest.baseline
    for baseline in (
        None,
        replace(honest.baseline, runs=()),
        replace(honest.baseline, gone=("steady",)),
        replace(honest.baseline, runs=(PastRun(started_at="x"),)),
        replace(honest.baseline, runs=(*honest.baseline.runs[:-1], replace(honest.baseline.runs[-1], commit="HEAD"))),
        replace(honest.baseline, times_comparable=False),
    ):
        assert list(history_contradictions(replace(honest, baseline=baseline)))
