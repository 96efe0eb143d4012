"""Which of many comparisons is the worst: the one that reports show, and that triage finds the cause of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from onnx_gate.records.limits import LIMITS, Limit, counts_rows, distance_beyond

if TYPE_CHECKING:
    from onnx_gate.records.found import OutputDiff


Compared = TypeVar("Compared", bound="OutputDiff")


def worst_first(diffs: Iterable[Compared]) -> list[Compared]:
    """Sorted by badness; what is equally bad stays in its order."""
    return sorted(diffs, key=badness, reverse=True)


def badness(diff: OutputDiff) -> tuple[float, ...]:
    """To sort by: how far it misses its limits, then the size of its difference.

    Rows of the data as it was given come last: they tell what is wrong only where nothing else is.
    """
    return (not counts_rows(diff.limits), *_shortfall(diff), *distance(diff))


def distance(diff: OutputDiff) -> tuple[float, float, int]:
    """To sort by: another label or NaN, the largest difference, the share that is wrong, how much there is to see."""
    largest = diff.max_abs if diff.max_abs is not None else math.inf if diff.mismatched else 0.0
    share = diff.mismatched / diff.total if diff.total else 0.0
    return math.inf if math.isnan(largest) else largest, share, diff.total


def _shortfall(diff: OutputDiff) -> list[float]:
    # The distance has the largest difference itself.
    whole = [limit for limit in LIMITS.values() if not limit.share and limit.metric != "max_abs"]
    noise_first = sorted(whole, key=lambda limit: not limit.noise)
    return [_beyond(limit, diff) for limit in noise_first]


def _beyond(limit: Limit, diff: OutputDiff) -> float:
    if limit.name not in diff.limits or not diff.limit_breaches:
        return 0.0
    if diff.total // (diff.shape[-1] if len(diff.shape) > 1 and diff.shape[-1] else 1) < limit.fewest:
        # Run again alone, as triage does, the case would seem to be right.
        return 0.0
    return distance_beyond(limit, diff.limits[limit.name], getattr(diff, limit.metric))
