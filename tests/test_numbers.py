"""Numbers that can't all be true are found; those of real comparisons always can."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from onnx_gate.compare.outputs import OutputComparison
from onnx_gate.numbers import contradictions
from onnx_gate.records import Actual, Answer, Check, OutputDiff, OutputRule, Status, Tolerance
from onnx_gate.records.shares import enough_agree


def compared(reference: Any, actual: Any, **limits: float) -> Check:
    """A real comparison of two arrays, as a check."""
    rule = OutputRule(tolerance=Tolerance(rtol=1e-3, atol=1e-5), limits=limits)
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=rule)
    comparison.add(Answer(value=reference, dtype=actual.dtype.name), Actual(value=actual))
    diff = comparison.finish()
    numbers = {each.name: getattr(diff, each.name) for each in fields(OutputDiff)}
    status = Status.DIVERGED if diff.breaches else Status.PASSED
    return Check(**numbers, status=status, message="; ".join(breach.text for breach in diff.breaches))


def known(check: Check) -> dict[str, Any]:
    return {each.name: getattr(check, each.name) for each in fields(Check)}


@pytest.mark.parametrize("seed", range(400))
def test_a_real_comparison_contradicts_nothing(seed: int) -> None:
    """Of any size, scale, noise and dtype; with and without NaN, infinities and further limits."""
    draw = np.random.default_rng(seed)
    dtype = draw.choice([np.float16, np.float32, np.float64])
    size = int(draw.choice([1, 3, 1000, 200_000], p=[0.3, 0.3, 0.37, 0.03]))
    scale = 10.0 ** draw.uniform(-6, 4)
    reference = (draw.normal(size=(size,)) * scale).astype(dtype)
    noise = draw.choice([0.0, 1e-8, 1e-3, 1e-3, 1.0]) * draw.choice([1.0, 0.999999, 1.000001])
    actual = (reference.astype(np.float64) * (1 + noise * draw.choice([-1, 0, 1], size))).astype(dtype)
    for spoilt in (reference, actual):
        if draw.random() < 0.2:
            spoilt[draw.integers(size)] = draw.choice([np.nan, np.inf, -np.inf, 0.0])
    if draw.random() < 0.3:
        reference = reference.astype(np.float64) * (1 + 1e-9)
    limits = {"max_mismatch": 0.25, "min_cosine": 0.99, "min_snr_db": 20.0, "max_abs": float(scale)}
    rule = {name: limit for name, limit in limits.items() if draw.random() < 0.2}
    check = compared(reference, actual, **rule)
    assert list(contradictions(check)) == [], check


def test_labels_have_no_difference_to_recompute() -> None:
    """They agree or don't."""
    assert list(contradictions(compared(np.array([1, 2, 3]), np.array([1, 2, 4])))) == []
    assert list(contradictions(compared(np.array(["a"], object), np.array(["NaN"], object)))) == []


def test_what_the_difference_of_the_worst_makes_of_the_others() -> None:
    """Each number by itself would pass."""
    honest = compared(np.ones(3, np.float32), np.array([1, 1, 2], np.float32))
    assert list(contradictions(honest)) == []
    forged = Check(**{**known(honest), "mismatched": 0, "breaches": (), "status": Status.PASSED})
    assert any("no wrong element" in found for found in contradictions(forged))
    smaller = Check(**{**known(honest), "max_abs": 0.5, "mean_abs": 0.1, "rmse": 0.1})
    assert any("its largest difference is 0.5" in found for found in contradictions(smaller))
    negative = Check(**{**known(honest), "mean_abs": -1.0})
    assert any("mean_abs is -1" in found for found in contradictions(negative))
    endless = Check(**{**known(honest), "cosine": math.nan})
    assert any("cosine is nan" in found for found in contradictions(endless))


@pytest.mark.parametrize("needed", [0.6666667, 0.66666667, 2 / 3, 0.66666666, 0.6, 0.0, 1.0])
@pytest.mark.parametrize("total", [3, 30, 300])
def test_the_share_of_labels_is_judged_as_it_was_compared(needed: float, total: int) -> None:
    """Also where it is nearly met: a third of the labels is wrong."""
    reference = np.zeros(total, np.int64)
    actual = np.array([0, 0, 1] * (total // 3), np.int64)
    assert list(contradictions(compared(reference, actual, min_agreement=needed))) == []


@pytest.mark.parametrize("allowed", [0.3333333, 0.33333333, 0.3333333333, 1 / 3, 0.3, 0.0, 1.0])
def test_the_share_of_elements_is_judged_as_it_was_compared(allowed: float) -> None:
    """The same of numbers."""
    check = compared(np.zeros(3), np.array([0.0, 0.0, 1.0]), max_mismatch=allowed)
    assert list(contradictions(check)) == []


def test_where_all_labels_must_agree_none_may_differ() -> None:
    """One in two thousand million is one."""
    assert not enough_agree(1, 2_000_000_000, 1.0)
    assert enough_agree(0, 0, 1.0)


def test_a_mean_whose_sum_overflows_contradicts_nothing() -> None:
    """The squares of large float64 do."""
    check = compared(np.array([1e300, 1.0]), np.array([2e300, 1.0]))
    assert check.rmse == math.inf
    assert list(contradictions(check)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_a_tolerance_that_no_manifest_can_have(value: float) -> None:
    """With a NaN in it, every comparison would come out as one pleases."""
    honest = compared(np.ones(3), np.ones(3))
    for tolerance in (Tolerance(rtol=value, atol=0.0), Tolerance(rtol=0.0, atol=value)):
        assert any(
            "expected a finite number" in found for found in contradictions(replace(honest, tolerance=tolerance))
        )
    if not math.isfinite(value):
        assert any("its max_abs is" in found for found in contradictions(replace(honest, limits={"max_abs": value})))
