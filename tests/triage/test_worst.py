"""One badness: the comparison that reports show as the worst is the one that triage looks at."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.records.badness import badness, worst_first
from onnx_gate.records.found import Breach, OutputDiff
from onnx_gate.records.ran import RunToRun
from onnx_gate.records.result import Check
from onnx_gate.reports import markdown
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.wording import verdicts
from onnx_gate.worker.triage.precision import Rounding
from tests.golden.records import floats, gate, labels, model
from tests.triage.test_causes import diff, triage

FAR = diff("batch=7", output="far", mismatched=1, max_abs=3.2e-5, snr_db=120.0)
MANY = diff("batch=7", output="many", mismatched=10, max_abs=1.1e-5, snr_db=120.0)


def check_of(one: OutputDiff) -> Check:
    assert one.max_abs is not None
    return floats(one.case, one.output, one.max_abs, mismatched=one.mismatched)


def shown(*diffs: OutputDiff) -> str:
    """The output that a report calls the worst: the first row of its table of numbers."""
    lines = iter(markdown.render(gate(model("m", *map(check_of, diffs)))).splitlines())
    # After the heading of that table and the line below it.
    next(line for line in lines if line.startswith("| output |"))
    next(lines)
    return next(lines).split("`")[1]


@pytest.mark.parametrize("diffs", [(FAR, MANY), (MANY, FAR)])
def test_a_tolerance_is_offered_for_the_output_that_the_report_shows(diffs):
    """One element that is far off, and an output that is a little off everywhere: both sides name the first."""
    found = triage(*diffs)
    assert found.cause is Cause.TOLERANCE
    assert f"outputs: {{{shown(*diffs)}: {{rtol: 0.001, atol: 7e-05}}}}" in found.advice


@pytest.mark.parametrize("diffs", [(FAR, MANY), (MANY, FAR)])
def test_so_it_is_where_rounding_explains_all_of_them(diffs):
    """The most mismatches, or floats before labels, are no reason to name another one."""
    noisy = [replace(one, snr_db=60.0) for one in diffs]
    found = triage(*noisy, rounding=Rounding(how="float64", mismatched=5))
    assert found.cause is Cause.PRECISION
    assert f"outputs: {{{shown(*noisy)}: {{rtol: 0.001, atol: 5e-05}}}}" in found.advice


def test_a_provider_is_named_where_the_report_shows_it_first():
    """Of two that are wrong where the CPU is right, advice is on the one that is farther off."""
    near, far = diff(provider="cuda", max_abs=0.1), diff(provider="webgpu", max_abs=0.9)
    found = triage(diff(wrong=False), near, far)
    assert found.cause is Cause.PROVIDER
    assert "The CPU agrees with the source, webgpu doesn't" in found.advice


def test_chance_in_another_output_does_not_explain_the_worst():
    """What is shown repeats itself: that another output doesn't is not why it is wrong."""
    chance = {"cpu": (RunToRun(output="noisy", differing=3, total=10, max_abs=0.01),)}
    noisy, shown_first = diff(output="noisy", max_abs=0.01), diff(output="wrong", max_abs=0.9)
    assert triage(noisy, run_to_run=chance).cause is Cause.NONDETERMINISTIC
    assert triage(noisy, shown_first, run_to_run=chance).cause is Cause.CONVERSION


def test_of_cases_that_are_equally_wrong_triage_asks_about_the_richest():
    """A single row doesn't show that classes were swapped."""
    asked = []
    wrong = [diff(f"batch={rows}", total=3 * rows, mismatched=3 * rows) for rows in (1, 7, 2)]
    triage(*wrong, order=lambda one: asked.append(one.case))
    assert asked == ["batch=7"]


def _noisy(rows: int, column_snr_db: float) -> OutputDiff:
    broken = (Breach(kind=BreachKind.LIMIT, text="column_snr_db is too low"),)
    limits = {"min_column_snr_db": 20.0}
    keys: dict[str, Any] = {
        "mismatched": 0,
        "snr_db": 50.0,
        "limits": limits,
        "breaches": broken,
        "shape": (rows, 5),
        "total": 5 * rows,
    }
    return diff(f"batch={rows}", column_snr_db=column_snr_db, **keys)


def test_a_case_that_says_nothing_of_its_columns_alone_is_not_the_worst():
    """Seven rows were held together with those before them; triage runs one case."""
    few, many = _noisy(7, -3.0), _noisy(32, -1.0)
    assert worst_first([few, many]) == [many, few]


def test_what_is_not_held_again_is_not_gone():
    """A case of few rows, run alone without optimisations, keeps every limit: that is no fault of an optimiser."""
    few = _noisy(7, -3.0)
    again = replace(few, column_snr_db=None, breaches=())
    assert triage(few, unoptimized=again).cause is not Cause.OPTIMIZER
    assert triage(few, unoptimized=replace(again, column_snr_db=50.0)).cause is Cause.OPTIMIZER


def test_nan_and_other_labels_are_worse_than_any_number() -> None:
    """They sort before the largest finite difference."""
    numbers = floats("batch=1", "y", 1e30, mismatched=1)
    not_a_number = floats("batch=1", "y", mismatched=1, max_abs=math.nan)
    other_label = labels("batch=1", confusion=((1, 2, 1),))
    same = labels("batch=1")
    assert badness(not_a_number) > badness(numbers)
    assert worst_first([same, numbers, other_label]) == [other_label, numbers, same]
    assert verdicts.worst_check(model("m", numbers, other_label)) is other_label
