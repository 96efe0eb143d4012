"""The deviations of each column of an output (its last axis).

Columns of one output may round very differently: beside a column of millions that cancel out, one of small numbers
has almost no noise. The tolerance that covers them all would hide an error in the small one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.ran import FAR
from onnx_gate.worker.noise.floor import Envelope, bins_of

Array = npt.NDArray[Any]
MOST_COLUMNS = 1_024
_SPAN = 1 << 24
"""More than the number of bins: a code is the number of a column times this, plus a bin."""
STEPS = 8.0
"""Rounding steps of a column's usual size that always count as its noise: of few rows, noise is seen in part."""


_ROOM = 4.0
"""A tolerance is about this many times the noise."""
_QUIET = 64.0
"""Noise that is this many times smaller is another kind of noise, not chance."""


class Columns:
    """The largest deviation per column and size of the reference."""

    def __init__(self) -> None:
        self._width: int | None = None
        self._codes = np.zeros(0, np.int64)
        self._largest = np.zeros(0)
        self._counts = np.zeros(0, np.int64)

    def add(self, reference: Array, deviation: Array) -> None:
        """Add elements; outputs without columns, or with another number of them each time, have none."""
        width = reference.shape[-1] if reference.ndim > 1 else 0
        if self._width not in (None, width) or not 2 <= width <= MOST_COLUMNS:
            width = 0
        self._width = width
        if not width:
            return
        sizes, deviation = np.abs(reference.astype(np.float64).ravel()), deviation.ravel()
        finite = np.isfinite(sizes) & np.isfinite(deviation)
        column = np.broadcast_to(np.arange(width), reference.shape).ravel()
        codes = column[finite] * _SPAN + (bins_of(sizes[finite]) + _SPAN // 2)
        self._put(codes, deviation[finite], np.ones(codes.size, np.int64))

    def merge(self, other: Columns) -> None:
        """Add all elements of the same columns of another."""
        if other._width is None:
            return
        if self._width not in (None, other._width):
            self._width = 0
            return
        self._width = other._width
        self._put(other._codes, other._largest, other._counts)

    def sizes_only(self) -> Columns:
        """The same sizes, without deviations."""
        bare = Columns()
        bare._width, bare._codes, bare._counts = self._width, self._codes, self._counts
        bare._largest = np.zeros_like(self._largest)
        return bare

    def beyond(self, noise: Columns, eps: float) -> tuple[float, Tolerance] | None:
        """The largest deviation, as a multiple of the noise of its own column, and that noise; None without columns."""
        if not self._width or self._width != noise._width:
            return None
        found = []
        for column, floor in noise._floors(STEPS * eps).items():
            own = self._envelope(column)
            found.append((own.over(floor), floor))
        return max(found, key=lambda each: each[0], default=None)

    def covered(self, floor: Tolerance, eps: float) -> tuple[int, ...]:
        """The columns that have far less noise than this, and no element that is far above it."""
        found = []
        for column, own in self._floors(eps).items():
            largest = self._envelope(column).largest_size()
            if 0 < largest < _ROOM * floor.atol and own.atol + own.rtol * largest < floor.atol / _QUIET:
                found.append(column)
        return tuple(found)

    def _numbers(self) -> list[int]:
        found: list[int] = np.unique(self._codes // _SPAN).tolist() if self._width else []
        return found

    def _floors(self, eps: float) -> dict[int, Tolerance]:
        return {column: self._envelope(column).fit(eps) for column in self._numbers()}

    def _envelope(self, column: int) -> Envelope:
        first, last = np.searchsorted(self._codes, [column * _SPAN, (column + 1) * _SPAN])
        keys = self._codes[first:last] - column * _SPAN - _SPAN // 2
        return Envelope.of(keys, self._largest[first:last], self._counts[first:last])

    def _put(self, codes: Array, largest: Array, counts: Array) -> None:
        codes = np.concatenate((self._codes, codes))
        self._codes, places = np.unique(codes, return_inverse=True)
        most, number = np.zeros(self._codes.size), np.zeros(self._codes.size, np.int64)
        np.maximum.at(most, places, np.concatenate((self._largest, largest)))
        np.add.at(number, places, np.concatenate((self._counts, counts)))
        self._largest, self._counts = most, number


@dataclass
class Deviations:
    """The deviations of an output: as a whole, in each edge case, and in the other cases, also column by column."""

    whole: Envelope = field(default_factory=Envelope)
    edges: dict[str, Envelope] = field(default_factory=lambda: defaultdict(Envelope))
    """The same in each edge case: huge inputs have the noise of huge numbers, also where these cancel out."""
    plain: Envelope = field(default_factory=Envelope)
    """The same without the edge cases."""
    columns: Columns = field(default_factory=Columns)
    """The same without the edge cases, column by column."""

    def add(self, reference: Array, deviation: Array, edge: str = "") -> None:
        """Add elements of an edge case, or of another one; those that are not finite are left out."""
        self.whole.add(reference, deviation)
        if edge:
            self.edges[edge].add(reference, deviation)
            return
        self.plain.add(reference, deviation)
        self.columns.add(reference, deviation)

    def sizes_only(self) -> Deviations:
        """The same sizes, without deviations."""
        edges = {edge: each.sizes_only() for edge, each in self.edges.items()}
        return Deviations(
            whole=self.whole.sizes_only(),
            edges=defaultdict(Envelope, edges),
            plain=self.plain.sizes_only(),
            columns=self.columns.sizes_only(),
        )

    def compared(self, noise: Deviations, eps: float) -> tuple[float, Tolerance]:
        """The largest of these as a multiple of the noise, and the noise; of a part, if only the part is far off."""
        floor = noise.whole.fit(eps)
        times = self.whole.over(floor)
        parts = [found for found in (self._without_edges(noise, eps), self.columns.beyond(noise.columns, eps)) if found]
        worst = max(parts, key=lambda each: each[0], default=(0.0, floor))
        return worst if worst[0] > max(times, FAR) else (times, floor)

    def _without_edges(self, noise: Deviations, eps: float) -> tuple[float, Tolerance] | None:
        if not noise.edges:
            return None
        floor = noise.plain.fit(STEPS * eps)
        return self.plain.over(floor), floor

    def noisy_edges(self, eps: float) -> tuple[str, ...]:
        """The edge cases with far more noise than the other cases, whose answers it would cover."""
        plain = self.plain.fit(eps)
        largest = self.plain.largest_size()
        usual = plain.atol + plain.rtol * largest
        found = {edge: each.fit(eps).atol for edge, each in self.edges.items()}
        return tuple(edge for edge, atol in found.items() if atol > _QUIET * usual and largest)


def merged(parts: Sequence[Deviations]) -> Deviations:
    """All elements of several."""
    found = Deviations()
    for part in parts:
        found.whole.merge(part.whole)
        found.plain.merge(part.plain)
        found.columns.merge(part.columns)
        for edge, each in part.edges.items():
            found.edges[edge].merge(each)
    return found
