"""Which elements of two arrays differ, by how much, and in how many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.compare.form import kind_of

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
_AT_ONCE = 1 << 18
"""Number of elements that are compared at once."""
_LONG = 128
"""Row length from which numpy's `any` along the row is fast enough."""


def differing(reference: Array, actual: Array, tolerance: Tolerance) -> tuple[Mask, Array]:
    """Which elements differ, and by how much; the distance is infinite for a wrong label, NaN or infinity."""
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


def same_values(one: Array, other: Array) -> bool:
    """Whether two arrays of one type hold the same values; NaN equals NaN.

    The arrays are compared in slices: where NaN count as equal, numpy.array_equal takes several times their memory.
    """
    if one.shape != other.shape:
        return False
    flat, others = np.ravel(one), np.ravel(other)
    starts = range(0, flat.size, _AT_ONCE)
    return all(_same_slice(flat[start : start + _AT_ONCE], others[start : start + _AT_ONCE]) for start in starts)


def _same_slice(one: Array, other: Array) -> bool:
    unlike = np.flatnonzero(one != other)
    if not unlike.size:
        return True
    return one.dtype.kind in "fc" and bool((np.isnan(one[unlike]) & np.isnan(other[unlike])).all())


class RowCount:
    """Counts the rows that differ, while the elements arrive in chunks, one after another."""

    def __init__(self, row: int) -> None:
        self.count = 0
        self._row = row
        self._into = 0
        self._is_wrong = False
        """Whether the row that began in an earlier chunk is counted already."""

    def skip(self, size: int) -> None:
        """Skip `size` elements that do not differ."""
        whole = size >= self._row - self._into
        self._into = (self._into + size) % self._row
        self._is_wrong &= not whole

    def add(self, wrong: Mask) -> None:
        """Add the next elements: the mask says which of them differ."""
        begun = min(wrong.size, -self._into % self._row) if self._into else 0
        whole = (wrong.size - begun) // self._row * self._row
        if begun:
            self._add_part(wrong[:begun])
        if whole:
            self._is_wrong = False
            self.count += rows_with_any(wrong[begun : begun + whole].reshape(-1, self._row))
        if begun + whole < wrong.size:
            self._add_part(wrong[begun + whole :])

    def _add_part(self, wrong: Mask) -> None:
        if not self._is_wrong and wrong.any():
            self.count += 1
            self._is_wrong = True
        self._into += wrong.size
        if self._into == self._row:
            self._into, self._is_wrong = 0, False


def rows_with_any(wrong: Mask) -> int:
    """The number of rows with at least one wrong element."""
    columns = wrong.shape[1]
    if columns == 1:
        return int(np.count_nonzero(wrong))
    if columns >= _LONG:
        return int(np.count_nonzero(wrong.any(axis=1)))
    # For short rows, a matrix product is ten times as fast.
    return int(np.count_nonzero(wrong.astype(np.float32) @ np.ones(columns, np.float32)))
