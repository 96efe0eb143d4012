"""Whether the numbers of a check can all be true: recomputed from each other, beyond what rounding explains."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx_gate.records import Check, Scalar, Status
from onnx_gate.records.limits import LIMITS, is_kept
from onnx_gate.records.shares import allowed_mismatches, enough_agree

# The largest difference of an output is taken in its own dtype, which may be float32.
_ROUNDING = 1e-5
# Means are sums over millions of elements.
_OF_A_SUM = 1e-2
_OF_A_COSINE = 1e-6
_TINY = 1e-300


class Contradiction(ValueError):
    """Numbers that can't all be true: whoever reported them did not compare."""


def require_consistent(check: Check) -> None:
    """Raise Contradiction with the first thing that can't be."""
    for reason in contradictions(check):
        raise Contradiction(reason)


def contradictions(check: Check) -> Iterator[str]:
    """What can't be, one sentence each."""
    yield from _of_the_limits(check)
    if not check.total:
        if check.mismatched or check.nan_matched or check.nonfinite_mismatched:
            yield "it counts elements, and compared none"
        return
    if max(check.mismatched, check.nan_matched, check.nonfinite_mismatched) > check.total:
        yield f"it counts more elements than the {check.total:,} that it compared"
    yield from _of_the_status(check)
    yield from _of_the_means(check)
    if check.worst is None and check.mismatched:
        yield f"{check.mismatched:,} elements are wrong, and none is the worst"
    elif check.worst is not None:
        yield from _of_the_worst(check)


def _of_the_limits(check: Check) -> Iterator[str]:
    """A manifest has known ones only, and finite."""
    tolerance = (("rtol", check.tolerance.rtol), ("atol", check.tolerance.atol)) if check.tolerance else ()
    for name, value in tolerance:
        if not 0 <= value < math.inf:
            yield f"its {name} is {value:g}, expected a finite number that is not negative"
    for name, value in check.limits.items():
        if not math.isfinite(value):
            yield f"its {name} is {value:g}, expected a finite number"
        # A limit on speed is held against times: it compares no element.
        if name not in LIMITS and check.total:
            yield f"its limit {name} is unknown, expected one of {', '.join(LIMITS)}"


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
    if "min_agreement" in check.limits:
        return enough_agree(check.mismatched, check.total, check.limits["min_agreement"])
    return check.mismatched <= allowed_mismatches(check.total, check.limits.get("max_mismatch", 0.0))


def _of_the_means(check: Check) -> Iterator[str]:
    largest = check.max_abs
    for name, value in (("mean_abs", check.mean_abs), ("rmse", check.rmse)):
        # The sum of large float64, or of their squares, may be infinite where no difference is.
        if value is None or value == math.inf:
            continue
        if value < 0 or (largest is not None and value > largest * (1 + _OF_A_SUM) + _TINY):
            yield f"its {name} is {value:g}, and its largest difference {largest if largest is not None else 'none'}"
    if check.cosine is not None and not abs(check.cosine) <= 1 + _OF_A_COSINE:
        yield f"its cosine is {check.cosine:g}"


def _of_the_worst(check: Check) -> Iterator[str]:
    if check.worst is None:
        return
    reference, actual = _number(check.worst.reference), _number(check.worst.actual)
    if check.tolerance is None or reference is None or actual is None:
        return
    distance = abs(actual - reference)
    if not math.isfinite(distance):
        if not check.mismatched and not check.nan_matched and reference != actual:
            yield f"it counts no wrong element, and the worst is {actual:g} instead of {reference:g}"
        return
    if check.max_abs is not None and distance > check.max_abs * (1 + _ROUNDING) + _TINY:
        yield f"the worst element differs by {distance:g}, and its largest difference is {check.max_abs:g}"
    allowed = check.tolerance.atol + check.tolerance.rtol * abs(reference)
    if not check.mismatched and distance > allowed * (1 + _ROUNDING) + _TINY:
        yield f"it counts no wrong element, and the worst differs by {distance:g}, where {allowed:g} is allowed"
    if check.mismatched and distance < allowed * (1 - _ROUNDING):
        yield f"the worst of its wrong elements differs by {distance:g}, where {allowed:g} is allowed"


def _number(value: Scalar) -> float | None:
    """None for labels, which are no numbers to be compared so."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value)
    return float(value)
