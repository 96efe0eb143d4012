"""What a model does to a value that still follows from an input, and what that says about the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_gate.records.domain import Cut, Values
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.columns import row_marks
from onnx_gate.worker.domains.weights import spreads_of
from onnx_gate.worker.inputs.trails.findings import MOST_CUTS, Findings
from onnx_gate.worker.inputs.trails.trail import NOWHERE, Array, Space, Trail

FAR = 1e3
"""A score this far below 0 has no effect in a softmax: a value that moves scores there is a mask."""
_PIXELS = (255.0, 256.0, 127.5, 128.0)
"""The usual divisors of pixel values."""
_HALVES = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)


@dataclass(frozen=True, kw_only=True)
class Clues:
    """Collects what the model's operations say about its inputs."""

    space: Space
    """The inputs."""
    findings: Findings
    """What is known about the inputs so far."""

    def is_integer(self, name: str) -> bool:
        """Whether an input holds integers."""
        return "int" in self.space.given[name].dtype

    def is_float(self, name: str) -> bool:
        """Whether an input holds floats."""
        return "float" in self.space.given[name].dtype

    def dtypes(self) -> None:
        """Add what the dtypes alone say."""
        for name, given in self.space.given.items():
            if given.dtype == "uint8":
                self.findings.add(name, Values(origins=(Origin.IMAGES,), low=0.0, high=255.0, marks=(0, 255)))
            if given.dtype == "bool":
                self.findings.add(name, Values(origins=(Origin.MASKS,), choices=(0, 1)))

    def cut(self, trail: Trail, constant: Array, origin: Origin = Origin.THRESHOLDS) -> None:
        """Note that the value is compared with a constant, or clipped to it."""
        if trail.truth or np.size(constant) > MOST_CUTS * max(trail.ids.size, 1):
            return
        around, at = trail.back(np.asarray(constant, dtype=np.float64))
        exact = trail.plain and origin is Origin.THRESHOLDS
        for name, columns, value, reach in self._groups(around, at):
            if trail.whole:
                self._box(name, value, reach)
                continue
            marks = (_number(value),) if self._holds(name, value) and (exact or self.is_integer(name)) else ()
            self.findings.add(name, Values(origins=(origin,), cuts=(Cut(at=value, reach=reach),), marks=marks), columns)

    def equal(self, trail: Trail, constant: Array) -> None:
        """Note that the model tests whether the value equals a constant."""
        if trail.truth or trail.whole:
            return
        around, at = trail.back(np.asarray(constant, dtype=np.float64))
        for name, columns, value, _ in self._groups(around, at):
            if self._holds(name, value):
                exact = (value,) if trail.plain else ()
                fact = Values(origins=(Origin.CONSTANTS,), marks=(_number(value),), exact=exact)
                self.findings.add(name, fact, columns)

    def rows(self, trail: Trail, rows: int, padding: int | None = None, *, from_the_end: bool = False) -> None:
        """Note that the value is the index of a row in a table."""
        if trail.truth or trail.whole or rows < 1:
            return
        offsets = np.unique(np.broadcast_to(trail.offset, trail.ids.shape)[trail.ids != NOWHERE])
        for name, columns, offset, _ in self._groups(trail, np.broadcast_to(trail.offset, trail.ids.shape)):
            scale = float(np.median(trail.scale))
            if not 0 < scale <= 1:
                continue
            # If several columns share a table, the part of each column ends where the next part begins.
            shared = offsets.size > 1
            end = min((float(other) for other in offsets if other > offset), default=float(rows)) if shared else rows
            low = 0.0 if shared else float(np.ceil(-offset / scale)) + 0.0
            high = float(np.ceil((end - offset) / scale) - 1)
            pad = () if padding is None or padding < 0 else (int((padding - offset) / scale),)
            unusual = (-1,) if from_the_end and low == 0 else ()
            # Integers are fed for each row anyway. For floats, a row is a range, and most numbers fall into few rows.
            within = tuple(row_marks(rows, scale, float(offset))) if self.is_float(name) and not shared else ()
            if low <= high:
                fact = Values(
                    origins=(Origin.EMBEDDINGS,),
                    low=low,
                    high=high,
                    marks=tuple(dict.fromkeys((int(low), int(high), *pad, *within))),
                    padding=pad,
                    unusual=unusual,
                )
                self.findings.add(name, fact, columns)

    def statistics(self, trail: Trail, mean: Array, deviation: Array) -> None:
        """Note that the value lies around a measured mean."""
        if trail.truth or trail.whole or trail.learned:
            return
        around, centre = trail.back(np.asarray(mean, dtype=np.float64))
        with np.errstate(all="ignore"):
            spread = np.broadcast_to(np.abs(deviation / around.scale), around.ids.shape)
        for name, place in self.space.split(around.ids):
            good = place & np.isfinite(centre) & np.isfinite(spread) & (spread > 0)
            self._mixture(name, around.ids[good], centre[good], spread[good])

    def used(self, trail: Trail) -> None:
        """Note that the value can't be followed further: a network expects numbers around 0, of a size of about 1."""
        if trail.whole or self.added(trail) or trail.plain or trail.truth or trail.learned:
            return
        scale, offset = np.broadcast_arrays(trail.scale, trail.offset, trail.ids)[:2]
        shifted = np.abs(offset) > 1e-6 * np.abs(scale)
        told = (np.abs(scale) < 1) | (shifted & (scale != 1)) | (np.abs(offset) > 3)
        chosen = Trail(
            ids=np.where(told & (scale != 0), trail.ids, NOWHERE),
            scale=np.where(scale == 0, 1.0, scale),
            offset=offset,
            reach=trail.reach,
        )
        self.statistics(chosen, np.array(0.0), np.array(1.0))

    def weighed(self, trail: Trail, weights: Array, offsets: Array) -> None:
        """Note that the inputs go directly into a linear layer, by column: a small weight suggests large values."""
        if not trail.plain or trail.whole or trail.ids.shape[-1:] != weights.shape[-1:]:
            return
        spreads = np.broadcast_to(spreads_of(weights, offsets), trail.ids.shape)
        for name, columns, spread, _ in self._groups(trail, spreads):
            if self.is_float(name):
                fact = Values(origins=(Origin.WEIGHTS,), centre=0.0, spread=spread)
                self.findings.add(name, fact, columns)

    def scaled(self, trail: Trail) -> None:
        """Note that the value was divided: a divisor such as 255 means that it is a pixel."""
        if trail.truth or trail.whole or trail.learned or trail.scale.ndim or not trail.scale > 0:
            return
        if any(abs(float(trail.scale) * by - 1) < 1e-4 for by in _PIXELS):
            fact = Values(origins=(Origin.IMAGES,), low=0.0, high=255.0, marks=(0, 255))
            for name, columns in self._columns(trail):
                self.findings.add(name, fact, columns)

    def added(self, trail: Trail) -> bool:
        """Whether the value moves scores far below 0, as a mask does; the value is then noted as a mask."""
        if trail.whole or np.abs(trail.scale).max(initial=0) < FAR:
            return False
        off, on = trail.at(0.0), trail.at(1.0)
        for left_out in (0, 1):
            low, zero = (off, on) if left_out == 0 else (on, off)
            if np.all(low <= -FAR) and np.all(np.abs(zero) <= 1e-6 * np.abs(low)):
                return self._mask(trail, left_out=left_out, strong=True)
        return False

    def left_out(self, trail: Trail, value: float, *, strong: bool = False) -> bool:
        """Whether exactly one of 0 and 1 leads to this value, which is left out; the input is then noted as a mask."""
        if trail.whole:
            return False
        off, on = trail.at(0.0) == value, trail.at(1.0) == value
        if np.all(off) and not np.any(on):
            return self._mask(trail, left_out=0, strong=strong)
        if np.all(on) and not np.any(off):
            return self._mask(trail, left_out=1, strong=strong)
        return False

    def _mask(self, trail: Trail, *, left_out: int, strong: bool) -> bool:
        found = False
        for name, columns in self._columns(trail):
            sure = self.space.given[name].dtype == "bool" or "mask" in name.lower()
            if sure or strong or (self.is_integer(name) and trail.truth != "ordered"):
                several = any(size != 1 for size in self.space.given[name].shape[1:])
                fact = Values(
                    origins=(Origin.MASKS,),
                    choices=(0, 1),
                    never_empty=several and left_out == 0,
                    never_full=several and left_out == 1,
                )
                self.findings.add(name, fact, columns)
                found = True
        return found

    def rounded(self, trail: Trail) -> None:
        """Note that the value is rounded to an integer: halves and negative numbers may be rounded up or down."""
        for name in self._inputs(trail):
            if self.is_float(name):
                self.mark(trail, _HALVES)

    def remainder(self, trail: Trail, divisor: float) -> None:
        """Note that the value is divided by a whole number, or that the remainder is taken."""
        if not np.isfinite(divisor) or divisor == 0:
            return
        by = abs(divisor)
        for name in self._inputs(trail):
            if self.is_integer(name):
                self.mark(trail, (-1, -by, -by - 1, by - 1, by, 2 * by + 1))
            else:
                self.mark(trail, (-0.75 * by, -1.75 * by, 0.75 * by, 1.75 * by, 2.25 * by))

    def missing(self, trail: Trail) -> None:
        """Note that the model tests whether the value is missing."""
        for name, columns in self._columns(trail):
            if self.is_float(name) and not trail.truth:
                self.findings.add(name, Values(origins=(Origin.MISSING,), missing=True), columns)

    def mark(self, trail: Trail, values: Iterable[float], origin: Origin = Origin.CONSTANTS) -> None:
        """Add values to feed, if the input can produce them exactly."""
        if trail.truth or trail.whole:
            return
        for value in values:
            around, at = trail.back(np.array(float(value)))
            for name, columns, found, _ in self._groups(around, at):
                if self._holds(name, found):
                    self.findings.add(name, Values(origins=(origin,), marks=(_number(found),)), columns)

    def positions(self, size: int, room: int) -> None:
        """Note that a table with `room` rows was read up to `size`."""
        for name, known in self.space.sizes().items():
            if known == size > 1 and room >= size:
                self.findings.limit(name, room)

    def _box(self, name: str, at: float, reach: float) -> None:
        """Add two rows: one with all elements below the value, one with all elements above it."""
        given = self.space.given[name]
        if len(given.shape) > 1 and not isinstance(given.shape[-1], int):
            # The last axis varies in size, so its columns can't be named.
            self.findings.add(name, Values(origins=(Origin.THRESHOLDS,), cuts=(Cut(at=at, reach=reach),)))
            return
        far = max(1.0, abs(at)) * 0.5
        for low, high in ((at - far, at), (at, at + far)):
            box = {(name, column): (low, high) for column in range(self.space.width(name))}
            if box not in self.findings.boxes:
                self.findings.boxes.append(box)

    def _holds(self, name: str, value: float) -> bool:
        """Whether the input's dtype can hold exactly this value."""
        dtype = self.space.given[name].dtype
        if "float" in dtype:
            return bool(np.dtype("float16" if "16" in dtype else dtype).type(value) == value)
        try:
            limits = np.iinfo(dtype)
        except ValueError:
            return False
        return value == int(value) and limits.min <= value <= limits.max

    def _mixture(self, name: str, ids: Array, centre: Array, spread: Array) -> None:
        """Add the mean and the deviation of each column, over all its elements."""
        if not ids.size:
            return
        width = self.space.width(name)
        columns = self.space.columns(name, ids)
        count = np.bincount(columns, minlength=width)
        known = count > 0
        mean = np.bincount(columns, centre, width)[known] / count[known]
        apart = np.bincount(columns, (centre - _at(mean, known, columns)) ** 2, width)[known] / count[known]
        within = np.bincount(columns, spread**2, width)[known] / count[known]
        deviation = np.sqrt(apart + within)
        groups: dict[tuple[float, float], list[int]] = {}
        for column, one, other in zip(np.flatnonzero(known), mean, deviation, strict=True):
            groups.setdefault((_short(one), _short(other)), []).append(int(column))
        for (one, other), members in groups.items():
            self.findings.add(name, Values(origins=(Origin.STATISTICS,), centre=one, spread=other), members)

    def _inputs(self, trail: Trail) -> list[str]:
        return [name for name, _ in self.space.split(trail.ids)]

    def _columns(self, trail: Trail) -> Iterator[tuple[str, list[int]]]:
        for name, place in self.space.split(trail.ids):
            yield name, np.unique(self.space.columns(name, trail.ids[place])).tolist()

    def _groups(self, trail: Trail, values: Array) -> Iterator[tuple[str, list[int], float, float]]:
        """Groups of columns with the same value, with this value and the largest reach."""
        reaches = np.broadcast_to(trail.reach, trail.ids.shape)
        for name, place in self.space.split(trail.ids):
            good = place & np.isfinite(values)
            columns, found, reach = self.space.columns(name, trail.ids[good]), values[good], reaches[good]
            order = np.argsort(found, kind="stable")
            columns, found, reach = columns[order], found[order], reach[order]
            starts = np.flatnonzero(np.diff(found, prepend=np.nan) != 0)
            for start, stop in zip(starts, [*starts[1:], found.size], strict=True):
                members = np.unique(columns[start:stop]).tolist()
                yield name, members, _short(found[start]), _short(reach[start:stop].max())


def _at(mean: Array, known: Array, columns: Array) -> Array:
    spread = np.zeros(known.size)
    spread[known] = mean
    return spread[columns]


def _short(value: Any) -> float:
    """The value without the extra digits that a float32 number gets in float64."""
    return float(value) if float(value).is_integer() else float(f"{float(value):.9g}")


def _number(value: float) -> Scalar:
    return int(value) if value == int(value) else value
