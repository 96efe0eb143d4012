"""Comparison row by row: how many rows differ in at least one element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import Actual, Answer, Breach, Worst
from onnx_gate.worker.compare.differing import differing
from onnx_gate.worker.compare.form import form_breaches, form_of, in_numpys_own, kind_of, pair_parts
from onnx_gate.worker.compare.outputs import plain_scalar

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass
class RowComparison:
    """Counts over all calls of one output; if its first dimension isn't the batch, each answer counts as one row."""

    tolerance: Tolerance
    rows: int = 0
    mismatched: int = 0
    calls: int = 0
    elements: int = 0
    floats: bool = False
    """Whether any element was a float, so that the tolerance applied."""
    max_abs: float | None = None
    """The largest absolute difference of the elements that are finite on both sides."""
    worst: Worst | None = None
    """The wrong element that differs most; for labels, the first wrong one."""
    dtype: str = ""
    """The dtype of the last answer."""
    shape: tuple[int, ...] = ()
    """The shape of all answers together if they have rows; else the shape of the last answer."""
    refused: list[Breach] = field(default_factory=list)
    """The breaches that prevented the comparison of a call."""
    _largest: float = -1.0

    def add(self, answer: Answer, given: Actual, *, rows: int | None, first_row: int = 0) -> None:
        """Add one call of `rows` rows."""
        self.dtype, shape = form_of(given.value)
        pairs, breach = pair_parts(answer, given)
        breaches = [breach] if breach else [one for pair in pairs for one in form_breaches(*pair, lenient=True)]
        if breaches:
            self.refused += [one for one in breaches if one not in self.refused]
            return
        self.calls += 1
        masks = [self._look_at(one, other, first_row, rows) for one, other in pairs]
        by_row = len(masks) == 1 and not isinstance(answer.value, list) and masks[0].shape[:1] == (rows,)
        self.shape = (self.rows + len(masks[0]), *shape[1:]) if by_row else shape
        self.rows += len(masks[0]) if by_row else 1
        if by_row:
            self.mismatched += int(np.count_nonzero(masks[0].any(axis=tuple(range(1, masks[0].ndim)))))
        else:
            self.mismatched += any(mask.any() for mask in masks)

    def _look_at(self, answer: Answer, given: Actual, first_row: int, rows: int | None) -> Mask:
        reference, actual = in_numpys_own(answer.value.reshape(given.value.shape)), in_numpys_own(given.value)
        self.elements += actual.size
        wrong, distance = differing(reference, actual, self.tolerance)
        if kind_of(reference) == "float":
            self.floats = True
            largest = float(distance[np.isfinite(distance)].max(initial=0.0))
            self.max_abs = max(self.max_abs or 0.0, largest)
        if wrong.any():
            self._remember(reference, actual, np.where(wrong, distance, -1.0), first_row, rows)
        return wrong

    def _remember(self, reference: Array, actual: Array, distance: Array, first_row: int, rows: int | None) -> None:
        flat = int(distance.argmax())
        if float(distance.ravel()[flat]) <= self._largest:
            return
        self._largest = float(distance.ravel()[flat])
        place = tuple(int(i) for i in np.unravel_index(flat, actual.shape)) if actual.ndim else ()
        index = (place[0] + first_row, *place[1:]) if place and actual.shape[:1] == (rows,) else place
        self.worst = Worst(index=index, reference=plain_scalar(reference[place]), actual=plain_scalar(actual[place]))
