"""Numbers of one check: its limits, its counts, and the status that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from onnx_gate.gate.numbers.floats import ROUNDING, TINY, allowed_at, as_number, elements_of_shape, of_floats
from onnx_gate.records.found import Confusion
from onnx_gate.records.limits import (
    LIMITS,
    MAX_ROWS,
    Kind,
    allowed_mismatches,
    counts_rows,
    enough_agree,
    is_kept,
    too_many_rows,
)
from onnx_gate.records.result import Check
from onnx_gate.vocabulary import Status

SPEED = "min_speedup"
"""The limit on times: its check compares no element."""
_METRICS = ("max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "cosine", "snr_db", "used", "column_snr_db", "top1")
_OF_FLOATS_ONLY = (
    *(*_METRICS, "lowest", "highest", "saturated", "nan_matched", "nan_columns"),
    *("nonfinite_mismatched", "spread"),
)
_OF_ELEMENTS_ONLY = (*_OF_FLOATS_ONLY, "worst", "confusion", "labels")


class Contradiction(ValueError):
    """Numbers that can't all be true, so they don't come from a real comparison."""


def require_consistent(check: Check) -> None:
    """Raise Contradiction with the first thing that is impossible."""
    for reason in contradictions(check):
        raise Contradiction(reason)


def contradictions(check: Check) -> Iterator[str]:
    """What is impossible about a check, one sentence each."""
    yield from _of_the_limits(check)
    yield from _of_the_elements(check) if check.total else _of_nothing_compared(check)
    yield from _of_a_pass(check)


def _of_the_elements(check: Check) -> Iterator[str]:
    if max(check.mismatched, check.nan_matched, check.nonfinite_mismatched) > check.total:
        yield f"it counts more elements than the {check.total:,} that it compared"
    yield from _of_the_status(check)
    if check.worst is None and check.mismatched:
        yield f"{check.mismatched:,} elements are wrong, and none is the worst"
    if check.mismatched_rows is not None:
        yield from _of_wrong_rows(check, check.mismatched_rows)
    if counts_rows(check.limits):
        yield from _of_rows(check)
    else:
        yield from _of_labels(check) if check.tolerance is None else of_floats(check)


def _of_wrong_rows(check: Check, wrong: int) -> Iterator[str]:
    """What is impossible about wrong rows: each holds at least one wrong element, and at most a row's size."""
    told = f"{check.mismatched:,} of its {check.total:,} elements are wrong, in {wrong:,} of {check.rows:,} rows"
    of_one_size = check.rows and check.calls == 1 and elements_of_shape(check) == check.total
    most = wrong * -(-check.total // check.rows) if of_one_size else check.total
    if wrong > min(check.rows, check.mismatched) or (check.mismatched and not wrong) or check.mismatched > most:
        yield told


def _of_the_limits(check: Check) -> Iterator[str]:
    """What is impossible about limits: a manifest can only set known and finite ones."""
    tolerance = (("rtol", check.tolerance.rtol), ("atol", check.tolerance.atol)) if check.tolerance else ()
    for name, value in tolerance:
        if not 0 <= value < math.inf:
            yield f"its {name} is {value:g}, expected a finite number that is not negative"
    for name, value in check.limits.items():
        if not math.isfinite(value):
            yield f"its {name} is {value:g}, expected a finite number"
    yield from _of_limits_out_of_range(check)


def _of_limits_out_of_range(check: Check) -> Iterator[str]:
    """Limits that are not for this kind of output, or outside the range that a manifest may set."""
    known = _known_limits(check)
    for name, value in check.limits.items():
        if name not in known:
            yield f"its limit {name} is not for such an output, expected one of {', '.join(known)}"
        elif not known[name][0] <= value <= known[name][1]:
            yield f"its {name} is {value:g}, expected {known[name][0]:g} to {known[name][1]:g}"


def _known_limits(check: Check) -> Mapping[str, tuple[float, float]]:
    """The limits for this kind of check; without elements and without a tolerance it is about labels or times."""
    if counts_rows(check.limits):
        return {MAX_ROWS: (0.0, 1.0)}
    if check.tolerance is not None:
        return _bounds_for("floats")
    return _bounds_for("labels") if check.total or SPEED not in check.limits else {SPEED: (0.0, math.inf)}


def _bounds_for(kind: Kind) -> dict[str, tuple[float, float]]:
    """The lowest and the highest value that a manifest may set, by limit."""
    rows = [limit for limit in LIMITS.values() if limit.of == kind]
    return {
        limit.name: (-math.inf if limit.least is None else limit.least, math.inf if limit.most is None else limit.most)
        for limit in rows
    }


def _of_a_pass(check: Check) -> Iterator[str]:
    """What is impossible about a pass: it has numbers only, and compares as many elements as its shape has."""
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
    elements = elements_of_shape(check)
    # Calls of other shapes only add elements: the shape is that of the last calls.
    if elements is not None and (check.total < elements or (check.calls == 1 and check.total != elements)):
        yield f"it compared {check.total:,} elements, and its shape has {elements:,}"


def _of_nothing_compared(check: Check) -> Iterator[str]:
    """What is impossible without elements, for an empty array, an absent value or a time: any number of an element."""
    if check.mismatched or check.mismatched_rows or check.nan_matched or check.nonfinite_mismatched:
        yield "it counts elements, and compared none"
    for name in _OF_ELEMENTS_ONLY:
        if _is_set(value := getattr(check, name)):
            yield f"it compared no element, and its {name} is {_shown(value)}"


def _is_set(value: object) -> bool:
    """Whether a value is set: a metric of 0 is set, a count of 0 is not."""
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
    """Whether the numbers keep the limits, by the comparison's own rules: an undefined number keeps no limit."""
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
    """What is impossible about labels: they agree or don't, and have no other measure."""
    if "float" in check.dtype:
        yield f"its elements are {check.dtype}, and it has no tolerance"
    for name in _OF_FLOATS_ONLY:
        if _is_set(value := getattr(check, name)):
            yield f"it has no tolerance, as labels have none, and its {name} is {_shown(value)}"
    if check.worst is not None and not check.mismatched:
        yield f"no label differs, and the first that does is {check.worst.actual} instead of {check.worst.reference}"
    yield from _of_the_confusion(check)


def _of_the_confusion(check: Check) -> Iterator[str]:
    """What is impossible about the pairs of labels; only the most frequent are kept, so their count is a minimum."""
    counted = sum(pair.count for pair in check.confusion)
    wrong = sum(pair.count for pair in check.confusion if not _are_alike(pair))
    if counted > check.total:
        yield f"its pairs of labels count {counted:,}, and it compared {check.total:,}"
    if wrong > check.mismatched or (counted and not check.mismatched):
        yield f"its pairs of labels count {wrong:,} that differ, and {check.mismatched:,} do"


def _are_alike(pair: Confusion) -> bool:
    # A label that is an object is kept as its text.
    return pair.reference == pair.actual or str(pair.reference) == str(pair.actual)


# ── Rows of the data as given ───────────────────────────────────────────────────────────────────────────


def _of_rows(check: Check) -> Iterator[str]:
    """What is impossible about counted rows; of their elements, only the largest difference and the worst are kept."""
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
    reference, actual = as_number(check.worst.reference), as_number(check.worst.actual)
    if check.tolerance and reference is not None and actual is not None:
        yield from _of_the_worst_in_rows(check, reference, abs(actual - reference))


def _of_the_worst_in_rows(check: Check, reference: float, distance: float) -> Iterator[str]:
    if not math.isfinite(distance):
        return
    largest, allowed = check.max_abs or 0.0, allowed_at(check, abs(reference))
    if distance > largest * (1 + ROUNDING) + TINY:
        yield f"the worst element differs by {distance:g}, and its largest difference is {largest:g}"
    if distance < allowed * (1 - ROUNDING):
        yield f"the worst of its wrong elements differs by {distance:g}, where {allowed:g} is allowed"
