"""A process that dies on a wrong model says nothing against the right one; any other end is the model's error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

EXCUSED = {
    "crashes": "the process crashed on a wrong model (the process was killed by SIGSEGV",
    "leaves": "the process crashed on a wrong model (the process ended with exit code 7 during 'strength'",
    "hangs": "the process ran out of its time on a wrong model (not finished after 6 s (timeout)",
    "needs_too_much": "the process ran out of memory on a wrong model (used ",
    "floods_the_log": "the process crashed on a wrong model (printed more than 16 MiB",
}
ERRORS = {
    "says_garbage": (Cause.CRASHED, "a reply that is no event"),
    "says_too_much": (Cause.CRASHED, "that one model may take"),
    "crashes_on_an_aimed_case": (Cause.CRASHED, "SIGSEGV (segmentation fault) during 'strength'"),
    "compares_no_aimed_case": (Cause.UNKNOWN, "this was expected and not compared"),
    "announces_less": (Cause.CRASHED, "it was to compare fewer cases on cpu than it announced first"),
    "announces_other_outputs": (Cause.CRASHED, "it was to compare other outputs on cpu than it announced first"),
    "has_two": (Cause.CRASHED, "it has two strengths"),
    "has_one_that_cannot_be": (Cause.CRASHED, "strength: 5 mutants are caught, and 1 aimed"),
    "judges_itself": (Cause.CRASHED, "it judged the strength of its own inputs"),
    "leaves_early": (Cause.CRASHED, "exit code 1 during 'strength'"),
    "promises_and_leaves": (Cause.UNKNOWN, "this was expected and not compared"),
    "is_never_done_with_a_provider": (Cause.CRASHED, "exit code 1 during 'strength'"),
}
STRONG = ("has_a_strength", "crashes_with_a_strength")


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one manifest; those that are excused once more with a limit."""
    folder = tmp_path_factory.mktemp("mutants")
    shutil.copy(Path(__file__).parent / "mutants.py", folder)
    limits = {"hangs": ", timeout: 6", "needs_too_much": ", memory: 300MiB"}
    models = [(name, name, limits.get(name, "")) for name in (*EXCUSED, *ERRORS, *STRONG)]
    models += [(f"{name}-limited", name, ", min_strength: 0.5") for name in ("crashes", *STRONG)]
    return run_manifest(
        folder,
        "version: 1\n"
        "defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}, batches: [1, 2]}\nmodels:\n"
        + "".join(f"  - {{id: {model}, source: 'mutants.py:{name}'{keys}}}\n" for model, name, keys in models),
        strength=True,
    )


@pytest.mark.parametrize("name", EXCUSED)
def test_a_wrong_model_may_crash(mutants: Run, name: str) -> None:
    """What was compared stands, nothing is run again, and a warning says why there is no strength."""
    model = mutants[name]
    assert model.verdict is Status.PASSED
    assert model.strength is None
    assert model.coverage
    told = [warning for warning in model.coverage.warnings if warning.startswith("strength was not computed")]
    assert len(told) == 1
    assert EXCUSED[name] in told[0]


@pytest.mark.parametrize("name", ERRORS)
def test_any_other_end_is_an_error(mutants: Run, name: str) -> None:
    """To say that wrong models are tried excuses nothing that was promised, and nothing that no wrong model does."""
    cause, words = ERRORS[name]
    model = mutants[name]
    assert (model.verdict, model.cause) == (Status.ERROR, cause)
    assert words in model.error
    assert model.strength is None


@pytest.mark.parametrize("name", STRONG)
def test_what_was_computed_before_stands(mutants: Run, name: str) -> None:
    """Also if the process dies after it."""
    model = mutants[name]
    assert model.verdict is Status.PASSED
    assert model.strength
    assert (model.strength.caught, model.strength.counted) == (1, 4)


def test_with_a_limit_no_strength_is_an_error(mutants: Run) -> None:
    """No news is a failure, and the error says what became of the process."""
    model = mutants["crashes-limited"]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.WEAK_INPUTS)
    assert "strength was not computed: the process crashed on a wrong model" in model.error


@pytest.mark.parametrize("name", STRONG)
def test_with_a_limit_the_share_counts(mutants: Run, name: str) -> None:
    """One of four is less than half."""
    model = mutants[f"{name}-limited"]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.WEAK_INPUTS)
    assert "the inputs catch 1 of 4 wrong models (25 %), `min_strength` asks for 50 %" in model.error


def test_the_run_ends_with_3(mutants: Run) -> None:
    """None diverged, some could not be judged."""
    assert mutants.result.exit_code == 3
