"""What a provider itself does to the answers, told in numbers. (No result of a GPU here: numbers as they may come.)"""

from __future__ import annotations

import pytest

from onnx_gate.records.ran import RunToRun
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.triage.causes import find_cause, first_guess
from onnx_gate.worker.triage.provider import Precise
from tests.triage.test_causes import diff, evidence

TF32 = {"use_tf32": ("1", "0")}
BEFORE = diff(provider="cuda", mismatched=8, max_abs=0.3)


def repeated(**after):
    """What the worker tells of a run with TF32 off."""
    return lambda given: Precise(options=TF32, before=given, after=diff(provider="cuda", **after))


def test_an_option_that_explains_it_is_the_cause():
    """With the numbers before and after, and what to paste."""
    found = find_cause(evidence(BEFORE, precise=repeated(wrong=False, mismatched=0, max_abs=2e-6)))
    assert found.cause is Cause.PROVIDER
    assert "Run again with `use_tf32: 0` instead of `use_tf32: 1`, `y` on cuda (batch=2) differs" in found.advice
    assert "0 of 10 elements (before: 8), by up to 2e-6 (before: 0.3)" in found.advice
    assert "`providers: {cuda: {options: {use_tf32: 0}}}`" in found.advice


def test_one_that_does_not_is_said_not_to():
    """The cause is looked for as ever, and the numbers are told all the same."""
    found = find_cause(evidence(BEFORE, precise=repeated(mismatched=7, max_abs=0.29)))
    assert found.cause is Cause.CONVERSION
    assert "7 of 10 elements (before: 8), by up to 0.29 (before: 0.3): that option is not the reason." in found.advice


def test_a_file_that_is_wrong_on_the_cpu_too_is_wrong():
    """Then full precision on the GPU proves nothing about the file."""
    found = find_cause(evidence(diff(), BEFORE, precise=repeated(wrong=False, mismatched=0, max_abs=0.0)))
    assert found.cause is Cause.CONVERSION


def test_the_first_guess_asks_nobody():
    """A session that may crash is not opened for it."""

    def crash(given):
        raise AssertionError(given)

    assert first_guess(evidence(BEFORE, precise=crash)).cause is Cause.CONVERSION


@pytest.mark.parametrize(
    ("noise", "cause"), [(0.2, Cause.NONDETERMINISTIC), (1e-7, Cause.CONVERSION), (None, Cause.NONDETERMINISTIC)]
)
def test_chance_is_blamed_only_for_what_it_explains(noise, cause):
    """Noise in the last digit doesn't make a large divergence random; labels that differ do."""
    chance = {"cuda": (RunToRun(output="y", differing=3, total=10, max_abs=noise),)}
    assert find_cause(evidence(BEFORE, run_to_run=chance)).cause is cause
    assert find_cause(evidence(BEFORE, run_to_run={"cpu": chance["cuda"]})).cause is Cause.CONVERSION
