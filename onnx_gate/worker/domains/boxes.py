"""Leaves of trees and points in space → rows of a model's inputs, computed backwards column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.domain import Box, Place
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.columns import Column, Columns
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.domains.trees import Interval, Tree, boxes_of, deal

Array = npt.NDArray[Any]
Ends = Mapping[Place, Interval]
"""For columns, the values that replace ±inf."""
_NO_ENDS = (-3.0, 3.0)
_BESIDE = (0.1, 0.4)
"""The distance of a row from a point, in deviations: nearer to it, distances are differences of large numbers, which
float32 hardly keeps."""


@dataclass(frozen=True, kw_only=True)
class Leaves:
    """Trees that see the same columns."""

    trees: Sequence[Tree]
    columns: Columns
    origin: Origin = Origin.LEAVES

    @property
    def size(self) -> int:
        """The number of rows that are possible."""
        return sum(int((np.asarray(tree.left) < 0).sum()) for tree in self.trees)

    def draw(self, seed: str, most: int, ends: Ends) -> list[Box]:
        """One partial row for each of at most `most` leaves."""
        whole = [number for number, column in enumerate(self.columns) if column is not None and column.is_whole]
        coded = {
            number: list(column.codes.values())
            for number, column in enumerate(self.columns)
            if column is not None and column.codes
        }
        found = boxes_of(self.trees, seed, whole=whole, coded=coded, most=most)
        inverted = _inverted(found, self.columns)
        rng = rng_for(f"{seed}/codes")
        rows = [_row(box, self.columns, inverted, rng) for box in found]
        return [_bounded(row, ends) for row in rows if row]


@dataclass(frozen=True, kw_only=True)
class Points:
    """Rows that the model keeps, such as support vectors, in the values that the model sees."""

    rows: Array
    columns: Columns
    origin: Origin = Origin.POINTS

    @property
    def size(self) -> int:
        """The number of rows that are possible."""
        return len(self.rows)

    def draw(self, seed: str, most: int, ends: Ends) -> list[Box]:
        """A small box around each of at most `most` points, within the values that occur."""
        chosen = np.sort(rng_for(seed).permutation(len(self.rows))[:most])
        boxes: list[dict[Place, tuple[Scalar, Scalar]]] = [{} for _ in chosen]
        for number, column in enumerate(self.columns[: self.rows.shape[1]]):
            if column is not None and column.codes is None and not column.is_text:
                for box, interval in zip(boxes, _around(self.rows[:, number], chosen, column), strict=True):
                    if interval is not None:
                        box[column.place] = interval
        _add_nearest(boxes, self.rows[chosen], self.columns)
        return [box for box in boxes if box]


def share_out(groups: Sequence[Leaves | Points], seed: str, most: int, ends: Ends) -> list[Box]:
    """At most `most` rows, shared evenly among the groups."""
    shares = deal([group.size for group in groups], most, rng_for(seed))
    found = []
    for number, (group, share) in enumerate(zip(groups, shares, strict=True)):
        found += group.draw(f"{seed}/{number}", share, ends) if share else []
    return found


def _inverted(boxes: Sequence[dict[int, Interval]], columns: Columns) -> dict[int, dict[float, float]]:
    """All ends of intervals in the values of the input, inverted together for each column."""
    ends: dict[int, set[float]] = {}
    for box in boxes:
        for number, interval in box.items():
            ends.setdefault(number, set()).update(interval)
    found = {}
    for number, values in ends.items():
        column = columns[number] if number < len(columns) else None
        if column is not None and column.codes is None and not column.is_text:
            given = np.array(sorted(value for value in values if np.isfinite(value)))
            found[number] = dict(zip(given.tolist(), column.to_input(given).tolist(), strict=True))
    return found


@dataclass(slots=True)
class _Wanted:
    """The conditions on one column of an input."""

    low: float = -np.inf
    high: float = np.inf
    codes: list[tuple[Column, Interval]] = field(default_factory=list)


def _row(
    box: dict[int, Interval], columns: Columns, inverted: dict[int, dict[float, float]], rng: np.random.Generator
) -> dict[Place, tuple[Scalar, Scalar]] | None:
    """The row for a box; None where no row can meet it."""
    wanted: dict[Place, _Wanted] = {}
    for number, interval in box.items():
        column = columns[number] if number < len(columns) else None
        if column is None:
            continue
        want = wanted.setdefault(column.place, _Wanted())
        if column.codes is not None:
            want.codes.append((column, interval))
        elif number in inverted:
            low, high = _turned(interval, inverted[number], column.rising)
            want.low, want.high = max(want.low, low), min(want.high, high)
    row = {place: _met(want, rng) for place, want in wanted.items()}
    if any(value is None for value in row.values()):
        return None
    return {place: value for place, value in row.items() if value is not None and value != (-np.inf, np.inf)}


def _turned(interval: Interval, inverted: dict[float, float], rising: bool) -> Interval:
    """The interval in the values of the input; an end that no value of the input reaches is open."""
    low, high = interval if rising else interval[::-1]
    at_low, at_high = inverted.get(low, np.nan), inverted.get(high, np.nan)
    return (-np.inf if isnan(at_low) else at_low), (np.inf if isnan(at_high) else at_high)


def _met(want: _Wanted, rng: np.random.Generator) -> tuple[Scalar, Scalar] | None:
    if not want.codes:
        return (want.low, want.high) if want.low <= want.high and want.low < np.inf else None
    left = [raw for raw in want.codes[0][0].codes or () if _fits(raw, want)]
    if not left:
        return None
    chosen = left[int(rng.integers(len(left)))]
    return chosen, chosen


def _fits(raw: Scalar, want: _Wanted) -> bool:
    if isinstance(raw, int | float) and not want.low < raw < want.high:
        return False
    return all(
        (low < code < high or low == code == high)
        for column, (low, high) in want.codes
        for code in [(column.codes or {}).get(raw, np.nan)]
    )


def _bounded(row: dict[Place, tuple[Scalar, Scalar]], ends: Ends) -> Box:
    """The row with finite ends."""
    return {
        place: _finite(low, high, ends.get(place, _NO_ENDS)) if low == -np.inf or high == np.inf else (low, high)
        for place, (low, high) in row.items()
    }


def _finite(low: Scalar, high: Scalar, ends: Interval) -> tuple[Scalar, Scalar]:
    least, most = ends
    if low == -np.inf and isinstance(high, int | float):
        low = least if least < high else high - max(1.0, abs(high))
    if high == np.inf and isinstance(low, int | float):
        high = most if most > low else low + max(1.0, abs(low))
    return low, high


def _around(values: Array, chosen: Array, column: Column) -> list[tuple[Scalar, Scalar] | None]:
    """Intervals next to each chosen value, towards the others; None where it is missing, or can't be inverted."""
    inputs = column.to_input(values)
    known = inputs[np.isfinite(inputs)]
    if not len(known):
        return [None] * len(chosen)
    spread, middle = float(known.std()) or 1e-2 * max(1.0, abs(float(known[0]))), float(np.median(known))
    picked = inputs[chosen].tolist()
    if "float" not in column.dtype:
        return [(round(value), round(value)) if np.isfinite(value) else None for value in picked]
    return [_beside(value, spread if value <= middle else -spread) if np.isfinite(value) else None for value in picked]


def _beside(value: float, spread: float) -> tuple[float, float]:
    low, high = sorted((value + _BESIDE[0] * spread, value + _BESIDE[1] * spread))
    return low, high


def _add_nearest(boxes: list[dict[Place, tuple[Scalar, Scalar]]], rows: Array, columns: Columns) -> None:
    """Add, for columns with codes, the value whose codes are nearest."""
    places: dict[Place, list[int]] = {}
    for number, column in enumerate(columns[: rows.shape[1]]):
        if column is not None and column.codes is not None:
            places.setdefault(column.place, []).append(number)
    for place, numbers in places.items():
        tables = [column.codes or {} for column in columns if column is not None and column.place == place]
        raws = [raw for raw in tables[0] if all(raw in table for table in tables)]
        codes = np.array([[table[raw] for table in tables] for raw in raws])
        if codes.size and codes.shape[1] == len(numbers):
            far = ((rows[:, None, numbers] - codes[None]) ** 2).sum(axis=2)
            for box, best in zip(boxes, np.nan_to_num(far, nan=np.inf).argmin(axis=1), strict=True):
                box[place] = (raws[best], raws[best])
