"""Numbers of one check: what is set, what is counted, and the status that they make."""

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
"""The limit that is held against times: its check compares no element."""
_METRICS = ("max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "cosine", "snr_db", "used", "column_snr_db", "top1")
_OF_FLOATS_ONLY = (
    *(*_METRICS, "lowest", "highest", "saturated", "nan_matched", "nan_columns"),
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
    if check.mismatched_rows is not None:
        yield from _of_wrong_rows(check, check.mismatched_rows)
    if counts_rows(check.limits):
        yield from _of_rows(check)
    else:
        yield from _of_labels(check) if check.tolerance is None else of_floats(check)


def _of_wrong_rows(check: Check, wrong: int) -> Iterator[str]:
    """Each holds an element that is wrong, and no more than a row has; arrays of one call have rows of one size."""
    told = f"{check.mismatched:,} of its {check.total:,} elements are wrong, in {wrong:,} of {check.rows:,} rows"
    of_one_size = check.rows and check.calls == 1 and elements_of_shape(check) == check.total
    most = wrong * -(-check.total // check.rows) if of_one_size else check.total
    if wrong > min(check.rows, check.mismatched) or (check.mismatched and not wrong) or check.mismatched > most:
        yield told


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
    elements = elements_of_shape(check)
    # Calls of other shapes leave nothing but their elements: the shape is that of the last ones.
    if elements is not None and (check.total < elements or (check.calls == 1 and check.total != elements)):
        yield f"it compared {check.total:,} elements, and its shape has {elements:,}"


def _of_nothing_compared(check: Check) -> Iterator[str]:
    """An empty array, an absent value or a time: there is no element that could have a number."""
    if check.mismatched or check.mismatched_rows or check.nan_matched or check.nonfinite_mismatched:
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
