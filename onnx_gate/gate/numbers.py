"""Whether the numbers of a check can all be true: recomputed from each other, beyond what rounding explains.

The run refuses what can't be, and so do `report` and `merge`. A rule may therefore only refuse what no comparison in
`compare/` can come to: a false alarm makes an error of an honest model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from onnx_gate.gate.strength import numbers as strength_numbers
from onnx_gate.records.found import Confusion, Spread
from onnx_gate.records.limits import (
    FEWEST_ROWS,
    LIMITS,
    MAX_ROWS,
    Kind,
    allowed_mismatches,
    counts_rows,
    enough_agree,
    is_kept,
    too_many_rows,
)
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.vocabulary import Scalar, Status

# The largest difference of an output is taken in its own dtype, which may be float32.
_ROUNDING = 1e-5
# Means are sums over millions of elements.
_OF_A_SUM = 1e-2
_OF_A_COSINE = 1e-6
_OF_DECIBELS = 0.5
# Larger than any denormal float32, which some libraries make the processor take for 0.
_TINY = 1e-37
# The square of a smaller number may be 0.
_SQUARE_VANISHES = 1e-150

SPEED = "min_speedup"
"""The limit that is held against times: its check compares no element."""
_RANGE = ("lowest", "highest")
_METRICS = ("max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "cosine", "snr_db", "column_snr_db", "top1")
_OF_FLOATS_ONLY = (
    *(*_METRICS, *_RANGE, "saturated", "nan_matched", "nan_columns"),
    *("nonfinite_mismatched", "spread"),
)
_OF_ELEMENTS_ONLY = (*_OF_FLOATS_ONLY, "worst", "confusion", "labels")


class Contradiction(ValueError):
    """Numbers that can't all be true: whoever reported them did not compare."""


def require_consistent(check: Check) -> None:
    """Raise Contradiction with the first thing that can't be."""
    for reason in contradictions(check):
        raise Contradiction(reason)


def contradictions(check: Check) -> Iterator[str]:
    """What can't be, one sentence each."""
    yield from _of_the_limits(check)
    yield from _of_the_elements(check) if check.total else _of_nothing_compared(check)
    yield from _of_a_pass(check)


def _of_the_elements(check: Check) -> Iterator[str]:
    if max(check.mismatched, check.nan_matched, check.nonfinite_mismatched) > check.total:
        yield f"it counts more elements than the {check.total:,} that it compared"
    yield from _of_the_status(check)
    if check.worst is None and check.mismatched:
        yield f"{check.mismatched:,} elements are wrong, and none is the worst"
    if counts_rows(check.limits):
        yield from _of_rows(check)
    else:
        yield from _of_labels(check) if check.tolerance is None else _of_floats(check)


def model_contradictions(model: ModelResult) -> Iterator[str]:
    """What can't be of a model as a whole, one sentence each: an error among its checks explains most of it."""
    yield from strength_numbers.model_contradictions(model)
    if any(check.status is Status.ERROR for check in model.checks):
        return
    for check in model.checks:
        if check.status is Status.PASSED and SPEED in check.limits:
            yield from _of_the_speed(check, model)
    yield from _of_what_proves_nothing(model)


def require_consistent_model(model: ModelResult) -> None:
    """Raise Contradiction with the first thing that can't be of the model as a whole."""
    for reason in model_contradictions(model):
        raise Contradiction(reason)


def _of_the_limits(check: Check) -> Iterator[str]:
    """A manifest has known ones only, and finite."""
    tolerance = (("rtol", check.tolerance.rtol), ("atol", check.tolerance.atol)) if check.tolerance else ()
    for name, value in tolerance:
        if not 0 <= value < math.inf:
            yield f"its {name} is {value:g}, expected a finite number that is not negative"
    for name, value in check.limits.items():
        if not math.isfinite(value):
            yield f"its {name} is {value:g}, expected a finite number"
    yield from _of_limits_out_of_range(check)


def _of_limits_out_of_range(check: Check) -> Iterator[str]:
    """Each is one of those for such an output, and within what a manifest may set."""
    known = _known_limits(check)
    for name, value in check.limits.items():
        if name not in known:
            yield f"its limit {name} is not for such an output, expected one of {', '.join(known)}"
        elif not known[name][0] <= value <= known[name][1]:
            yield f"its {name} is {value:g}, expected {known[name][0]:g} to {known[name][1]:g}"


def _known_limits(check: Check) -> Mapping[str, tuple[float, float]]:
    """By what the check is about; where nothing was compared and there is no tolerance, labels or times."""
    if counts_rows(check.limits):
        return {MAX_ROWS: (0.0, 1.0)}
    if check.tolerance is not None:
        return _bounds_for("floats")
    return _bounds_for("labels") if check.total or SPEED not in check.limits else {SPEED: (0.0, math.inf)}


def _bounds_for(kind: Kind) -> dict[str, tuple[float, float]]:
    """The least and the most that a manifest may set, by limit."""
    rows = [limit for limit in LIMITS.values() if limit.of == kind]
    return {
        limit.name: (-math.inf if limit.least is None else limit.least, math.inf if limit.most is None else limit.most)
        for limit in rows
    }


def _of_a_pass(check: Check) -> Iterator[str]:
    """A pass says nothing but its numbers, and those of as many elements as its shape has."""
    if check.status is not Status.PASSED:
        return
    for name in ("breaches", "message", "fix", "cause", "absence"):
        if getattr(check, name):
            yield f"it is called passed, and its {name} is set"
    if SPEED in check.limits:
        return
    if not check.calls:
        yield "it is called passed, and the model was never asked"
    if counts_rows(check.limits):
        if not check.total:
            yield "it is called passed, and compared no row"
        return
    elements = _elements_of_shape(check)
    # Calls of other shapes leave nothing but their elements: the shape is that of the last ones.
    if elements is not None and (check.total < elements or (check.calls == 1 and check.total != elements)):
        yield f"it compared {check.total:,} elements, and its shape has {elements:,}"


def _elements_of_shape(check: Check) -> int | None:
    """None for a sequence of arrays that may be of different shapes: only their number is known."""
    if check.dtype == "nothing":
        return 0
    if check.dtype.startswith("sequence of ") and len(check.shape) == 1:
        return None
    return math.prod(check.shape)


def _of_nothing_compared(check: Check) -> Iterator[str]:
    """An empty array, an absent value or a time: there is no element that could have a number."""
    if check.mismatched or check.nan_matched or check.nonfinite_mismatched:
        yield "it counts elements, and compared none"
    for name in _OF_ELEMENTS_ONLY:
        if _is_set(value := getattr(check, name)):
            yield f"it compared no element, and its {name} is {_shown(value)}"


def _is_set(value: object) -> bool:
    """A metric of 0 is one; a count of 0 counts nothing."""
    return bool(value) or isinstance(value, float)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "there" if isinstance(value, tuple) else str(value)


def _of_the_status(check: Check) -> Iterator[str]:
    holds = _keeps_limits(check)
    if check.status is Status.PASSED and not holds:
        yield "it is called passed, and its own numbers are beyond its limits"
    explained = check.contract or check.limit_breaches
    if check.status is Status.DIVERGED and holds and not explained:
        yield "it is called diverged, and its own numbers keep its limits"


def _keeps_limits(check: Check) -> bool:
    """As the comparison itself has it: a number that is undefined keeps no limit."""
    whole = [limit for limit in LIMITS.values() if limit.name in check.limits and not limit.share]
    return _enough_are_right(check) and all(
        is_kept(limit, check.limits[limit.name], getattr(check, limit.metric)) for limit in whole
    )


def _enough_are_right(check: Check) -> bool:
    if counts_rows(check.limits):
        return not too_many_rows(check.mismatched, check.total, check.limits[MAX_ROWS])
    if "min_agreement" in check.limits:
        return enough_agree(check.mismatched, check.total, check.limits["min_agreement"])
    return check.mismatched <= allowed_mismatches(check.total, check.limits.get("max_mismatch", 0.0))


# ── Labels ──────────────────────────────────────────────────────────────────────────────────────────────


def _of_labels(check: Check) -> Iterator[str]:
    """They agree or don't: nothing else is measured."""
    if "float" in check.dtype:
        yield f"its elements are {check.dtype}, and it has no tolerance"
    for name in _OF_FLOATS_ONLY:
        if _is_set(value := getattr(check, name)):
            yield f"it has no tolerance, as labels have none, and its {name} is {_shown(value)}"
    if check.worst is not None and not check.mismatched:
        yield f"no label differs, and the first that does is {check.worst.actual} instead of {check.worst.reference}"
    yield from _of_the_confusion(check)


def _of_the_confusion(check: Check) -> Iterator[str]:
    """Of many classes only the most frequent pairs are kept: what they count is the least that there is."""
    counted = sum(pair.count for pair in check.confusion)
    wrong = sum(pair.count for pair in check.confusion if not _are_alike(pair))
    if counted > check.total:
        yield f"its pairs of labels count {counted:,}, and it compared {check.total:,}"
    if wrong > check.mismatched or (counted and not check.mismatched):
        yield f"its pairs of labels count {wrong:,} that differ, and {check.mismatched:,} do"


def _are_alike(pair: Confusion) -> bool:
    # A label of objects is kept as its text.
    return pair.reference == pair.actual or str(pair.reference) == str(pair.actual)


# ── Floats ──────────────────────────────────────────────────────────────────────────────────────────────


def _of_floats(check: Check) -> Iterator[str]:
    if check.confusion or check.labels:
        yield "it has a tolerance, and lists labels, which have none"
    if check.nonfinite_mismatched > check.mismatched:
        yield f"{check.nonfinite_mismatched:,} elements are wrong for a NaN or Inf, and {check.mismatched:,} in all"
    if check.mismatched + check.nan_matched > check.total:
        yield f"more elements are wrong, or NaN on both sides, than the {check.total:,} that it compared"
    if len(check.nan_columns) > check.nan_matched:
        yield f"{len(check.nan_columns):,} columns are NaN, and {check.nan_matched:,} elements"
    if check.top1 is not None and not 0 <= check.top1 <= 1:
        yield f"its top1 is {check.top1:g}, expected 0 to 1"
    yield from _of_the_columns(check)
    yield from _of_what_is_defined(check)
    yield from _of_the_range(check)
    yield from _of_the_means(check)
    yield from _of_the_worst(check)
    yield from _of_the_noise(check)


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
    """To leave a number out is no way around it: they are there or not, all together."""
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
        # The sum of large float64, or of their squares, may be infinite where no difference is.
        if value is None or value == math.inf:
            continue
        if not value >= 0 or (largest is not None and value > largest * (1 + _OF_A_SUM) + _TINY):
            yield f"its {name} is {value:g}, and its largest difference {largest if largest is not None else 'none'}"
    if check.cosine is not None and not abs(check.cosine) <= 1 + _OF_A_COSINE:
        yield f"its cosine is {check.cosine:g}"


def _of_the_worst(check: Check) -> Iterator[str]:
    if check.worst is None or check.tolerance is None:
        return
    reference, actual = _number(check.worst.reference), _number(check.worst.actual)
    if reference is None or actual is None:
        yield f"the worst is {check.worst.actual!r} instead of {check.worst.reference!r}, expected numbers"
    elif not (math.isfinite(reference) and math.isfinite(actual)):
        yield from _of_a_worst_that_is_not_finite(check, reference, actual)
    elif check.nonfinite_mismatched:
        yield f"{check.nonfinite_mismatched:,} elements are wrong for a NaN or Inf, and the worst is {actual:g}"
    else:
        yield from _of_a_finite_worst(check, reference, abs(actual - reference))


def _of_a_worst_that_is_not_finite(check: Check, reference: float, actual: float) -> Iterator[str]:
    """What is NaN or infinite on both sides alike is never the worst."""
    if not check.nonfinite_mismatched:
        why = " for a NaN or Inf" if check.mismatched else ""
        yield f"it counts no wrong element{why}, and the worst is {actual:g} instead of {reference:g}"
    if check.max_abs is not None and math.isfinite(check.max_abs):
        yield f"the worst is {actual:g} instead of {reference:g}, and its largest difference is {check.max_abs:g}"


def _of_a_finite_worst(check: Check, reference: float, distance: float) -> Iterator[str]:
    """The worst is that of the wrong elements which differs most; where none is wrong, that of all."""
    allowed, most = _allowed(check, abs(reference)), _allowed(check, _largest_reference(check))
    largest = 0.0 if check.max_abs is None else check.max_abs
    if distance > largest * (1 + _ROUNDING) + _TINY or not largest >= 0:
        yield f"the worst element differs by {distance:g}, and its largest difference is {largest:g}"
    if not check.mismatched and distance > allowed * (1 + _ROUNDING) + _TINY:
        yield f"it counts no wrong element, and the worst differs by {distance:g}, where {allowed:g} is allowed"
    if check.mismatched and distance < allowed * (1 - _ROUNDING):
        yield f"the worst of its wrong elements differs by {distance:g}, where {allowed:g} is allowed"
    if abs(reference) > _largest_reference(check) * (1 + _ROUNDING) + _TINY:
        yield f"the worst should be {reference:g}, and its reference goes from {check.lowest} to {check.highest}"
    # An element that is not wrong may differ by more than one that is, if its reference is larger.
    reached = max(distance, most) if check.mismatched else distance
    if largest > reached * (1 + _ROUNDING) + _TINY:
        yield f"no element can differ by more than {reached:g}, and its largest difference is {largest:g}"


def _allowed(check: Check, size: float) -> float:
    return check.tolerance.atol + check.tolerance.rtol * size if check.tolerance else 0.0


def _largest_reference(check: Check) -> float:
    return max(abs(check.lowest or 0.0), abs(check.highest or 0.0))


def _of_the_noise(check: Check) -> Iterator[str]:
    """The mean of the squares is at least that of one element, and the signal no larger than its largest element."""
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
    """Where every element of the reference were the largest."""
    signal = _largest_reference(check)
    return 20 * (math.log10(signal) - math.log10(rmse)) if signal else -math.inf


def _number(value: Scalar) -> float | None:
    """As it was compared: a float of another side may be a bool or text. None for what is no number."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


# ── Rows of the data as given ───────────────────────────────────────────────────────────────────────────


def _of_rows(check: Check) -> Iterator[str]:
    """It counts rows, and of their elements has the largest difference and the worst one."""
    if check.rows != check.total:
        yield f"it compared {check.total:,} rows, and has {check.rows:,}"
    for name in (name for name in _OF_ELEMENTS_ONLY if name not in ("max_abs", "worst")):
        if _is_set(value := getattr(check, name)):
            yield f"it counts rows, and its {name} is {_shown(value)}"
    if check.max_abs is not None and not (check.max_abs >= 0 and check.tolerance):
        yield f"its largest difference is {check.max_abs:g}"
    if check.worst is None:
        return
    if not check.mismatched:
        yield f"no row differs, and the worst is {check.worst.actual} instead of {check.worst.reference}"
    reference, actual = _number(check.worst.reference), _number(check.worst.actual)
    if check.tolerance and reference is not None and actual is not None:
        yield from _of_the_worst_in_rows(check, reference, abs(actual - reference))


def _of_the_worst_in_rows(check: Check, reference: float, distance: float) -> Iterator[str]:
    if not math.isfinite(distance):
        return
    largest, allowed = check.max_abs or 0.0, _allowed(check, abs(reference))
    if distance > largest * (1 + _ROUNDING) + _TINY:
        yield f"the worst element differs by {distance:g}, and its largest difference is {largest:g}"
    if distance < allowed * (1 - _ROUNDING):
        yield f"the worst of its wrong elements differs by {distance:g}, where {allowed:g} is allowed"


# ── Models ──────────────────────────────────────────────────────────────────────────────────────────────


def _of_the_speed(check: Check, model: ModelResult) -> Iterator[str]:
    measured = [one.speedup for one in model.latency if one.provider == check.provider and one.speedup]
    if not measured:
        yield f"{check.provider} keeps its {SPEED}, and no speed-up was measured"
    elif min(measured) < check.limits[SPEED]:
        yield f"{check.provider} keeps its {SPEED} of {check.limits[SPEED]:g}, and is {min(measured):g} times as fast"


def _of_what_proves_nothing(model: ModelResult) -> Iterator[str]:
    """An output that is empty, or NaN on both sides, in every case: `run` makes an error of it."""
    # Only an .onnx has recorded outputs, which are empty where they are meant to be.
    may_be_empty = model.framework == "onnx" and not model.weak_reference
    by_output: dict[tuple[str, str], list[Check]] = {}
    for check in model.checks:
        if check.status is not Status.SKIPPED and SPEED not in check.limits and not counts_rows(check.limits):
            by_output.setdefault((check.provider, check.output), []).append(check)
    for (provider, output), checks in by_output.items():
        total, matched = sum(check.total for check in checks), sum(check.nan_matched for check in checks)
        if any(check.status is not Status.PASSED for check in checks) or matched < total:
            continue
        if total or not may_be_empty:
            yield f"{output} is {'NaN' if total else 'empty'} in every case on {provider}, and passes"
