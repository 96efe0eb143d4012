"""Numbers of an output that has a tolerance, each checked against the others."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx_gate.records.found import Spread
from onnx_gate.records.limits import FEWEST_ROWS
from onnx_gate.records.result import Check
from onnx_gate.vocabulary import Scalar

ROUNDING = 1e-5
"""Relative room for rounding: the largest difference is computed in the output's own dtype, maybe float32."""
TINY = 1e-37
"""Larger than any denormal float32: some libraries make the processor treat denormals as 0."""
# Means are sums over millions of elements.
_OF_A_SUM = 1e-2
_OF_A_COSINE = 1e-6
_OF_A_SHARE = 1e-9
_OF_DECIBELS = 0.5
# The square of a smaller number may be 0.
_SQUARE_VANISHES = 1e-150
_RANGE = ("lowest", "highest")


def of_floats(check: Check) -> Iterator[str]:
    """What is impossible about an output that has a tolerance."""
    if check.confusion or check.labels:
        yield "it has a tolerance, and lists labels, which have none"
    if check.nonfinite_mismatched > check.mismatched:
        yield f"{check.nonfinite_mismatched:,} elements are wrong for a NaN or Inf, and {check.mismatched:,} in all"
    if check.mismatched + check.nan_matched > check.total:
        yield f"more elements are wrong, or NaN on both sides, than the {check.total:,} that it compared"
    if len(check.nan_columns) > check.nan_matched:
        yield f"{len(check.nan_columns):,} columns are NaN, and {check.nan_matched:,} elements"
    if check.saturated > check.total:
        yield f"{check.saturated:,} elements are saturated, and it compared {check.total:,}"
    yield from _of_the_winners(check)
    yield from _of_the_columns(check)
    yield from _of_what_is_defined(check)
    yield from _of_the_range(check)
    yield from _of_the_means(check)
    yield from _of_the_worst(check)
    yield from _of_the_noise(check)
    yield from _of_the_use(check)


def _of_the_winners(check: Check) -> Iterator[str]:
    """What is impossible about top1: it is a share of whole rows, and only outputs with columns have it."""
    if check.top1 is None:
        return
    if not 0 <= check.top1 <= 1:
        yield f"its top1 is {check.top1:g}, expected 0 to 1"
        return
    ranked = _ranked_rows(check)
    if ranked is not None and abs(check.top1 * ranked - round(check.top1 * ranked)) > _OF_A_SHARE * ranked:
        yield f"its top1 is {check.top1:g}, which no number of its {ranked:,} rows makes"
    if ranked == 0:
        yield f"its top1 is {check.top1:g}, and its shape has no columns"


def _ranked_rows(check: Check) -> int | None:
    """The number of rows that have a largest element; None if unknown, for sequences or calls of other shapes."""
    if check.dtype.startswith("sequence of ") or check.total != elements_of_shape(check):
        return None
    return check.total // check.shape[-1] if len(check.shape) > 1 else 0


def elements_of_shape(check: Check) -> int | None:
    """Elements in the shape of the last calls; None for a sequence, of which only the number of arrays is known."""
    if check.dtype == "nothing":
        return 0
    if check.dtype.startswith("sequence of ") and len(check.shape) == 1:
        return None
    return math.prod(check.shape)


def _of_the_columns(check: Check) -> Iterator[str]:
    snr, spread = check.column_snr_db, check.spread
    if snr is not None and "min_column_snr_db" not in check.limits:
        yield f"its column_snr_db is {snr:g}, and no limit asks for it"
    if snr is not None and (math.isnan(snr) or (check.nonfinite_mismatched and snr != -math.inf)):
        yield f"its column_snr_db is {snr:g}"
    if snr is not None and snr > -math.inf and spread is None:
        yield f"its column_snr_db is {snr:g}, of fewer than {FEWEST_ROWS} rows"
    if spread is not None:
        yield from _of_the_spread(spread)


def _of_the_spread(spread: Spread) -> Iterator[str]:
    if spread.rows < FEWEST_ROWS:
        yield f"it says how much {spread.rows} rows vary, expected at least {FEWEST_ROWS}"
    if not 0 <= spread.varying <= 1:
        yield f"its columns vary by {spread.varying:g} of their size, expected 0 to 1"
    if spread.flat > spread.columns:
        yield f"{spread.flat:,} of its columns are flat, and {spread.columns:,} vary"
    if spread.flat and not 0 < spread.deviation <= spread.allowed:
        yield f"its flattest column varies by {spread.deviation:g}, where {spread.allowed:g} is allowed"
    if not math.isfinite(spread.mean):
        yield f"its flattest column has the mean {spread.mean:g}"


def _of_what_is_defined(check: Check) -> Iterator[str]:
    """What is impossible about missing numbers: they are all there or all missing, so none can be left out."""
    numbers = ("mean_abs", "rmse", *_RANGE)
    missing = [name for name in numbers if getattr(check, name) is None]
    if missing and len(missing) < len(numbers):
        yield f"its {missing[0]} is missing, and the others of {', '.join(numbers)} are not"
    finite = not missing
    if finite and check.nan_matched + check.nonfinite_mismatched == check.total:
        yield "every element is NaN or infinite, and it has the numbers of finite ones"
    for name in ("max_rel", "mean_rel", "cosine"):
        if not finite and getattr(check, name) is not None:
            yield f"no element is finite on both sides, and its {name} is {getattr(check, name):g}"
    differs = finite or check.nonfinite_mismatched > 0
    for name in ("max_abs", "worst"):
        if (getattr(check, name) is not None) != differs:
            yield f"its {name} is {'missing' if differs else 'there'}, and {'an' if differs else 'no'} element has one"
    if not differs and check.snr_db is not None:
        yield f"no element is finite on both sides, and its snr_db is {check.snr_db:g}"


def _of_the_range(check: Check) -> Iterator[str]:
    if check.lowest is None or check.highest is None:
        return
    if not -math.inf < check.lowest <= check.highest < math.inf:
        yield f"its reference goes from {check.lowest:g} to {check.highest:g}, expected finite numbers in order"


def _of_the_means(check: Check) -> Iterator[str]:
    largest = check.max_abs
    for name, value in (("mean_abs", check.mean_abs), ("rmse", check.rmse)):
        # The sum of large float64, or of their squares, may be infinite even if every difference is finite.
        if value is None or value == math.inf:
            continue
        if not value >= 0 or (largest is not None and value > largest * (1 + _OF_A_SUM) + TINY):
            yield f"its {name} is {value:g}, and its largest difference {largest if largest is not None else 'none'}"
    mean, most = check.mean_rel, check.max_rel
    if mean is not None and most is not None and mean != math.inf and not 0 <= mean <= most * (1 + _OF_A_SUM) + TINY:
        yield f"its mean_rel is {mean:g}, and its max_rel {most:g}"
    if check.cosine is not None and not abs(check.cosine) <= 1 + _OF_A_COSINE:
        yield f"its cosine is {check.cosine:g}"


def _of_the_worst(check: Check) -> Iterator[str]:
    if check.worst is None or check.tolerance is None:
        return
    reference, actual = as_number(check.worst.reference), as_number(check.worst.actual)
    if reference is None or actual is None:
        yield f"the worst is {check.worst.actual!r} instead of {check.worst.reference!r}, expected numbers"
    elif not (math.isfinite(reference) and math.isfinite(actual)):
        yield from _of_a_worst_that_is_not_finite(check, reference, actual)
    elif check.nonfinite_mismatched:
        yield f"{check.nonfinite_mismatched:,} elements are wrong for a NaN or Inf, and the worst is {actual:g}"
    else:
        yield from _of_a_finite_worst(check, reference, abs(actual - reference))


def _of_a_worst_that_is_not_finite(check: Check, reference: float, actual: float) -> Iterator[str]:
    """What is impossible about a non-finite worst element: equal NaN or Inf on both sides is never the worst."""
    if not check.nonfinite_mismatched:
        why = " for a NaN or Inf" if check.mismatched else ""
        yield f"it counts no wrong element{why}, and the worst is {actual:g} instead of {reference:g}"
    if check.max_abs is not None and math.isfinite(check.max_abs):
        yield f"the worst is {actual:g} instead of {reference:g}, and its largest difference is {check.max_abs:g}"


def _of_a_finite_worst(check: Check, reference: float, distance: float) -> Iterator[str]:
    """What is impossible about the worst: the wrong element that differs most, or of all elements if none is wrong."""
    allowed, most = allowed_at(check, abs(reference)), allowed_at(check, _largest_reference(check))
    largest = 0.0 if check.max_abs is None else check.max_abs
    if distance > largest * (1 + ROUNDING) + TINY or not largest >= 0:
        yield f"the worst element differs by {distance:g}, and its largest difference is {largest:g}"
    if not check.mismatched and distance > allowed * (1 + ROUNDING) + TINY:
        yield f"it counts no wrong element, and the worst differs by {distance:g}, where {allowed:g} is allowed"
    if check.mismatched and distance < allowed * (1 - ROUNDING):
        yield f"the worst of its wrong elements differs by {distance:g}, where {allowed:g} is allowed"
    if abs(reference) > _largest_reference(check) * (1 + ROUNDING) + TINY:
        yield f"the worst should be {reference:g}, and its reference goes from {check.lowest} to {check.highest}"
    # An element within tolerance may differ by more than a wrong one, if its reference is larger.
    reached = max(distance, most) if check.mismatched else distance
    if largest > reached * (1 + ROUNDING) + TINY:
        yield f"no element can differ by more than {reached:g}, and its largest difference is {largest:g}"


def _of_the_use(check: Check) -> Iterator[str]:
    """What is impossible about the used share of the tolerance: an element is wrong if it uses more than 1."""
    used = check.used
    if used is None:
        # Results of earlier versions don't have this number.
        return
    if check.max_abs is None:
        yield f"no element has a difference, and it uses {used:g} of its tolerance"
    elif not used >= 0 or (check.nonfinite_mismatched and used != math.inf):
        yield f"it uses {used:g} of its tolerance"
    elif check.mismatched and used < 1 - ROUNDING:
        yield f"{check.mismatched:,} elements are out of tolerance, and it uses {used:g} of it"
    elif not check.mismatched and used > 1 + ROUNDING:
        yield f"it counts no wrong element, and uses {used:g} of its tolerance"
    elif not check.nonfinite_mismatched:
        yield from _of_a_finite_use(check, used, check.max_abs)


def _of_a_finite_use(check: Check, used: float, largest: float) -> Iterator[str]:
    """What is impossible about a finite share: the worst element is a lower bound, the largest difference an upper."""
    least = allowed_at(check, 0.0)
    if least and used > (largest * (1 + ROUNDING) + TINY) / least:
        yield f"it uses {used:g} of its tolerance, of which the largest difference {largest:g} makes less"
    if check.worst is None:
        return
    reference, actual = as_number(check.worst.reference), as_number(check.worst.actual)
    if reference is None or actual is None or not math.isfinite(distance := abs(actual - reference)):
        return
    if distance > used * allowed_at(check, abs(reference)) * (1 + ROUNDING) + TINY:
        yield f"it uses {used:g} of its tolerance, and its worst element more"


def allowed_at(check: Check, size: float) -> float:
    """How far an element may be from a reference of that size."""
    return check.tolerance.atol + check.tolerance.rtol * size if check.tolerance else 0.0


def _largest_reference(check: Check) -> float:
    return max(abs(check.lowest or 0.0), abs(check.highest or 0.0))


def _of_the_noise(check: Check) -> Iterator[str]:
    """What is impossible about the noise: one element bounds the rmse from below, the largest bounds the signal."""
    rmse, largest, mean, snr = check.rmse, check.max_abs, check.mean_abs, check.snr_db
    if snr is not None and (math.isnan(snr) or (check.nonfinite_mismatched and snr != -math.inf)):
        yield f"its snr_db is {snr:g}"
    if rmse is None or largest is None or mean is None or not math.isfinite(rmse):
        return
    grown = rmse * (1 + 2 * _OF_A_SUM) + _SQUARE_VANISHES
    if mean != math.inf and mean > grown:
        yield f"its rmse is {rmse:g}, and its mean_abs {mean:g}"
    if math.isfinite(largest) and largest > grown * math.sqrt(check.total):
        yield f"its rmse is {rmse:g}, and its largest difference {largest:g}"
    if rmse > _SQUARE_VANISHES and snr is not None and snr > _highest_snr(check, rmse) + _OF_DECIBELS:
        yield f"its snr_db is {snr:g}, and its rmse {rmse:g}"


def _highest_snr(check: Check, rmse: float) -> float:
    """The highest possible SNR, which needs every element of the reference to be as large as the largest."""
    signal = _largest_reference(check)
    return 20 * (math.log10(signal) - math.log10(rmse)) if signal else -math.inf


def as_number(value: Scalar) -> float | None:
    """The value as it was compared: the other side's float may be a bool or text here. None if it is not a number."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return None
