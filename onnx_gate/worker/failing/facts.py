"""Finds a factor or an offset that all differences have in common."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from onnx_gate.wording.numbers import number
from onnx_gate.worker.failing.rows import Seen

Array = npt.NDArray[np.float64]
FEWEST = 4
"""Fewest elements that show a factor or an offset."""
_SAME = 1e-3
"""Largest spread of the factors, relative to their size."""
_SMALL = 1e-2
"""Answers below this share of the largest one say little about a factor."""
MOST_FACTS = 3


def facts_of(seen: Seen) -> tuple[str, ...]:
    """A sentence for each output with a common factor or offset."""
    return tuple(_facts(seen))[:MOST_FACTS]


def _facts(seen: Seen) -> Iterator[str]:
    for name, parts in seen.sides.items():
        r, a = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        finite = np.isfinite(r) & np.isfinite(a)
        r, a = r[finite], a[finite]
        if r.size < FEWEST or float(np.ptp(r)) == 0.0:
            # If all answers are the same, a factor can't be distinguished from an offset.
            continue
        factor = _factor(r, a)
        if factor is not None:
            yield f"the answers of `{name}` are {_times(factor)} the source's"
        elif (offset := _offset(r, a)) is not None:
            side = "above" if offset > 0 else "below"
            yield f"the answers of `{name}` are {number(abs(offset))} {side} the source's"


def _factor(r: Array, a: Array) -> float | None:
    large = np.abs(r) > _SMALL * float(np.abs(r).max())
    if np.count_nonzero(large) < FEWEST or float(np.ptp(r[large])) <= _SMALL * float(np.abs(r).max()):
        return None
    ratios = a[large] / r[large]
    middle = float(np.median(ratios))
    rest = np.abs(a - middle * r).max()
    same = float(np.abs(ratios - middle).max()) <= _SAME * abs(middle)
    # A factor close to 1 is not worth a sentence, and one that does not explain the differences is not a fact.
    if not same or abs(middle - 1) <= 10 * _SAME or rest > _SMALL * float(np.abs(a - r).max()):
        return None
    return middle


def _offset(r: Array, a: Array) -> float | None:
    apart = a - r
    middle = float(np.median(apart))
    if middle == 0.0 or float(np.abs(apart - middle).max()) > _SMALL * abs(middle):
        return None
    # If the answers hardly vary relative to the offset, a factor would fit as well.
    return middle if float(np.ptp(r)) > 0.1 * abs(middle) else None


def _times(factor: float) -> str:
    if abs(factor + 1) <= _SAME:
        return "the negative of"
    return f"{number(factor)} times"
