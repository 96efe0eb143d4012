"""How a provider computed: options in force, and whether it repeats itself. Real operators that draw by chance."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from onnx import helper

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.trial.repeats.repeatability import Twice, case_to_repeat
from tests.conftest import Run, run_manifest
from tests.onnx_models import I32, doubler, save, value

MANIFEST = """
version: 1
models:
  - {id: steady, source: steady.onnx}
  - {id: noisy, source: noisy.onnx}
  - {id: random, source: random.onnx}
  - {id: drawn, source: drawn.onnx}
"""


def noise(path, size):
    """y = x + size·RandomNormal."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"]),
        helper.make_node("Mul", ["n", "size"], ["s"]),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    return save(path, nodes, [value("x")], [value("y")], {"size": np.float32(size)})


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("numerics")
    doubler(folder / "steady.onnx")
    noise(folder / "noisy.onnx", 1e-6)
    noise(folder / "random.onnx", 1.0)
    nodes = [helper.make_node("Multinomial", ["x"], ["y"], sample_size=64)]
    save(folder / "drawn.onnx", nodes, [value("x")], [value("y", I32, ["batch", 64])])
    return run_manifest(folder, MANIFEST)


def test_a_model_that_repeats_itself_says_so(judged):
    """One feed was run twice, and nothing differed."""
    numerics = judged["steady"].numerics["cpu"]
    assert (numerics.run_twice, numerics.run_to_run) == ("batch=7", ())
    assert not any("nondeterministic" in warning for warning in judged["steady"].coverage.warnings)


def test_noise_within_the_tolerance_is_a_warning_with_its_size(judged):
    """It passes, and the report says by how much it differs from run to run."""
    found = judged["noisy"]
    [noise] = found.numerics["cpu"].run_to_run
    assert found.verdict is Status.PASSED
    assert (noise.output, noise.total) == ("y", 21)
    assert 0 < noise.differing <= 21
    assert 0 < noise.max_abs < 1e-5
    [warning] = [warning for warning in found.coverage.warnings if "nondeterministic" in warning]
    assert "`y` in" in warning
    assert "by up to" in warning


@pytest.mark.parametrize("model", ["random", "drawn"])
def test_noise_beyond_it_is_the_cause(judged, model):
    """With the numbers of two runs on one feed, as a check of its own and in the advice."""
    found = judged[model]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.NONDETERMINISTIC)
    assert "On cpu two runs on the same feed give different answers: `y` differs in" in found.advice
    [check] = judged.checks(model, case="batch=7 (run twice)")
    assert check.status is Status.DIVERGED
    assert check.message.startswith("two runs on the same feed differ: ")
    assert check.total


def test_the_cpu_repeats_a_middling_case_and_others_the_largest():
    """Where sums run side by side, the largest feed is the likeliest to differ."""
    cases = [Case(name=f"batch={size}", calls=lambda: iter(()), sizes={"batch": size}) for size in (1, 2, 7, 32)]
    edge = Case(name="edge=large-batch", calls=lambda: iter(()), sizes={"batch": 257})
    assert case_to_repeat([*cases, edge], "cpu") == "batch=7"
    assert case_to_repeat([*cases, edge], "cuda") == "batch=32"
    assert case_to_repeat([edge], "cuda") == "edge=large-batch"


@pytest.mark.parametrize(
    ("second", "differs"),
    [
        (np.array([1.0, np.nan], np.float32), False),
        (np.array([1.0, 2.0], np.float32), True),
        (np.array([[1.0, np.nan]], np.float32), True),
        ([np.array([1.0, np.nan], np.float32)], True),
        (None, True),
    ],
)
def test_any_form_of_answer_is_told_from_its_repetition(second, differs):
    """NaN meets NaN; another shape, a sequence or nothing at all is another answer."""
    answers = iter([np.array([1.0, np.nan], np.float32), second])
    session = SimpleNamespace(run=lambda feed: {"y": Actual(value=next(answers))})
    rules = {"y": OutputRule(tolerance=Tolerance(rtol=0, atol=1e-6))}
    twice = Twice(session, "cpu", "batch=2", rules)
    twice.run({})
    assert bool(twice.found) is bool(twice.diffs) is differs
