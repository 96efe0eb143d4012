"""Which elements of two arrays differ, by how much, and in how many rows that is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.compare.form import kind_of

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
AT_ONCE = 1 << 20
"""Elements that are looked at together: their differences take eight bytes each, several times."""


def differing(reference: Array, actual: Array, tolerance: Tolerance) -> tuple[Mask, Array]:
    """Which elements differ, and by how much; a label, a NaN or an infinity that is another one by any amount."""
    if kind_of(reference) != "float":
        wrong = np.asarray(reference != actual, dtype=bool)
        return wrong, np.where(wrong, np.inf, 0.0)
    r, a = reference.astype(np.float64), actual.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(r) & np.isfinite(a)
        same = (r == a) | (np.isnan(r) & np.isnan(a))
        distance = np.where(finite, np.abs(a - r), np.where(same, 0.0, np.inf))
        within = distance <= tolerance.atol + tolerance.rtol * np.abs(r)
    return np.asarray(np.where(finite, ~within, ~same), dtype=bool), distance


def differing_rows(reference: Array, actual: Array, tolerance: Tolerance) -> int:
    """In how many rows, which are along the first axis, any element differs."""
    step = max(1, AT_ONCE // max(1, math.prod(reference.shape[1:])))
    return sum(
        _count(reference[start : start + step], actual[start : start + step], tolerance)
        for start in range(0, len(reference), step)
    )


def _count(reference: Array, actual: Array, tolerance: Tolerance) -> int:
    wrong, _ = differing(reference, actual, tolerance)
    return int(np.count_nonzero(wrong.reshape(len(wrong), -1).any(axis=1)))
