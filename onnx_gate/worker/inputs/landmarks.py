"""The rows of the case `domain`: every landmark that a model knows in its inputs, once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import Box, Domain, Domains, Place, Values
from onnx_gate.vocabulary import DOMAIN_CASE, Scalar
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.calls import DomainRows, Feed, first_row
from onnx_gate.worker.inputs.dims import has_batch, named_dims
from onnx_gate.worker.inputs.generate import is_float, shape_of
from onnx_gate.worker.inputs.known import (
    beyond,
    can_hold,
    draw_known,
    draws_known,
    finite_ends,
    itself_of,
    landmarks_of,
    mend_rows,
    shrunk,
    ways_of,
    within_range,
)

Array = npt.NDArray[Any]
MOST_ROWS = 1024
MOST_CALLS = 64
"""Most calls for a model without a batch, where each row is a separate call."""
MOST_CELLS = 1 << 22
"""Most elements of all inputs in all rows together."""
FEW_CELLS = 1 << 16
"""Elements that a small model may always be fed."""
SMALL_FILE = 1 << 20
_MISSING_ROWS = 16
_PAIR_ROWS = 8
"""Rows for each pair of columns that are missing together; a tree may test both, one after the other."""
_MOST_PAIR_ROWS = 128
_MOST_ENDS = 256
"""Rows on an end of the way to a leaf."""
_APART = 4
"""One row in this many may hold values that the source might refuse; more if the other values leave room."""


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column of an input, or all of its elements, with the values to feed there."""

    given: InputSpec
    column: int | None
    """None for all elements."""
    values: Values

    @property
    def place(self) -> Place:
        """Input name and column; column 0 if this stands for all elements."""
        return self.given.name, self.column or 0

    @property
    def may_miss(self) -> bool:
        """Whether a missing value must be fed there."""
        return self.values.missing and is_float(self.given) and self.given.range is None

    def cells(self, array: Array) -> Array:
        """The elements of this column in the rows, one line per row."""
        part = array if self.column is None or array.ndim == 1 else array[..., self.column]
        return part.reshape(len(array), -1)


def plan_domain(
    spec: ModelSpec, domains: Domains, *, file_size: int, spared: int = 0, like: Mapping[str, Array] | None = None
) -> DomainRows | None:
    """The rows for all landmarks; None if the model knows no landmark. `spared` rows are left for other uses.

    The landmarks are put into ordinary rows: those of `like`, where the model is known not to answer all others.
    """
    sizes = {name: max(spec.dims[name]) for name in named_dims(spec) if name in spec.dims}
    if any(given.form != "tensor" for given in spec.inputs or ()) or len(sizes) < len(named_dims(spec)):
        return None
    columns = list(_columns(spec, domains, sizes))
    landmarks = [list(dict.fromkeys(landmarks_of(each.given, each.values))) for each in columns]
    ways = ways_of(domains, [each.place for each in columns if each.values.missing])
    apart = list(_apart(columns, ways))
    long = _longest(spec, domains, sizes)
    known = sum(map(len, landmarks)) + len(apart) + len(domains.boxes)
    more = domains.beyond + sum(beyond(each.given, each.values) for each in columns)
    if not known and long is None:
        return None
    most = min(_most_rows(spec, columns, sizes, file_size), MOST_ROWS - spared)
    plan = _Plan(spec, domains, sizes, ways=ways, rows=most, like=like or {})
    fed = plan.place(columns, landmarks, apart)
    return plan.finish(known=known + more, fed=fed, long=long)


def _unit(given: InputSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of one row."""
    return tuple(size if isinstance(size, int) else sizes[size] for size in given.shape if size != "batch")


def _width(given: InputSpec, sizes: Mapping[str, int]) -> int:
    """The number of columns of an input; an input with no other dimension has one column."""
    return (_unit(given, sizes) or (1,))[-1]


def _columns(spec: ModelSpec, domains: Domains, sizes: Mapping[str, int]) -> Iterator[_Column]:
    for given in spec.inputs or ():
        domain = domains.inputs.get(given.name)
        if domain is None or given.values is not None:
            continue
        if domain.every:
            yield _Column(given=given, column=None, values=within_range(given, domain.every))
        for column, values in domain.columns.items():
            if column < _width(given, sizes):
                yield _Column(given=given, column=column, values=within_range(given, values))


_Apart = tuple[tuple[_Column, ...], Scalar]
"""Columns of one row, and the value that they get there."""


def _apart(columns: list[_Column], ways: Mapping[Place, Sequence[Box]]) -> Iterator[_Apart]:
    """Values that the source might refuse, with their columns: each in separate rows.

    A missing value is fed once on each path to a leaf that tests the column: every node has its own direction for it.
    """
    for each in columns:
        if each.may_miss:
            rows = max(_MISSING_ROWS, len(ways.get(each.place, ())))
            yield from (((each,), math.nan) for _ in range(rows))
        if each.values.missing_text is not None and each.given.dtype == "string":
            yield (each,), each.values.missing_text
        yield from (((each,), value) for value in each.values.unusual if can_hold(each.given, value))
    pairs = list(itertools.combinations([each for each in columns if each.may_miss], 2))
    rows = min(_PAIR_ROWS, _MOST_PAIR_ROWS // max(1, len(pairs)))
    yield from ((pair, math.nan) for pair in pairs for _ in range(rows))


def _longest(spec: ModelSpec, domains: Domains, sizes: Mapping[str, int]) -> Feed | None:
    """A feed at the largest sizes that the model has room for, if they are larger than those in the manifest."""
    longer = {}
    for name, size in domains.longest.items():
        limits = spec.dim_limits.get(name)
        size = min(size, limits.max) // limits.multiple * limits.multiple if limits and limits.max else size
        if name in sizes and size > sizes[name]:
            longer[name] = size
    every = {**sizes, **longer, "batch": min(spec.batches)}
    shapes = [shape_of(given, every) for given in spec.inputs or ()]
    if not longer or sum(map(math.prod, shapes)) > MOST_CELLS:
        return None
    rng = rng_for(f"{spec.base}/{DOMAIN_CASE}/long")
    return {
        given.name: draw_known(given, domains.inputs.get(given.name), shape, rng)
        for given, shape in zip(spec.inputs or (), shapes, strict=True)
    }


def _most_rows(spec: ModelSpec, columns: list[_Column], sizes: Mapping[str, int], file_size: int) -> int:
    """The most rows to feed: fewer if rows are large, or if a large model computes with every element."""
    row = sum(math.prod(shape_of(given, {**sizes, "batch": 1})) for given in spec.inputs or ())
    most = min(MOST_ROWS, MOST_CELLS // max(1, row)) if has_batch(spec) else MOST_CALLS
    if any(each.column is None for each in columns):
        usual = sum(spec.batches) * row
        cells = max(usual, FEW_CELLS * SMALL_FILE // max(SMALL_FILE, file_size))
        most = min(most, max(1, cells // max(1, row)))
    return max(1, most)


class _Plan:
    """Puts landmarks into rows of ordinary values."""

    def __init__(
        self,
        spec: ModelSpec,
        domains: Domains,
        sizes: Mapping[str, int],
        *,
        ways: Mapping[Place, Sequence[Box]],
        rows: int,
        like: Mapping[str, Array],
    ) -> None:
        self._like = like
        self._spec = spec
        self._domains = domains
        self._sizes = dict(sizes)
        self._most = rows
        self._rng = rng_for(f"{spec.base}/{DOMAIN_CASE}")
        self._batched = has_batch(spec)
        self._arrays: dict[str, Array] = {}
        self._reaches: dict[Place, float] = {}
        # Shuffled, because there may not be a row for each path; each is used once before any is used again.
        self._ways = {
            place: itertools.cycle([boxes[i] for i in self._rng.permutation(len(boxes))])
            for place, boxes in ways.items()
        }

    def place(self, columns: list[_Column], landmarks: list[list[Scalar]], apart: list[_Apart]) -> int:
        """Fill the rows; returns how many landmarks were placed."""
        needed = max(
            (math.ceil(2 * len(each) / self._cells(column)) for column, each in zip(columns, landmarks, strict=True)),
            default=0,
        )
        wanted = len(self._domains.boxes)
        apart = self._some(apart, max(1, self._most // _APART, self._most - needed - wanted))
        rest = max(1, self._most - len(apart))
        cells = min(needed, max(rest - wanted, rest // 2))
        boxes = self._some(self._domains.boxes, rest - cells)
        ends = self._some(list(self._ends(boxes)), min(_MOST_ENDS, rest - cells - len(boxes)))
        self._arrays = self._ordinary(cells + len(boxes) + len(apart) + len(ends))
        fed = sum(self._scatter(column, each, cells) for column, each in zip(columns, landmarks, strict=True))
        placed = [self._box(cells + i, box) for i, box in enumerate(boxes)]
        for i, (chosen, value) in enumerate(apart):
            self._apart(cells + len(boxes) + i, chosen, value)
        for i, (box, place, value) in enumerate(ends):
            self._touch(cells + len(boxes) + len(apart) + i, box, place, value)
        return fed + sum(placed) + len(apart)

    def finish(self, *, known: int, fed: int, long: Feed | None) -> DomainRows | None:
        """The rows, and how they are divided into calls."""
        axes = {given.name: given.shape.index("batch") for given in self._spec.inputs or () if "batch" in given.shape}
        apart = [name for name in self._arrays if self._batched and name not in axes]
        rows = {name: array for name, array in self._arrays.items() if name not in apart}
        fixed = {name: first_row(self._arrays[name]) for name in apart if len(self._arrays[name])}
        count = len(next(iter(rows.values()), ()))
        if not count and long is None:
            return None
        fitting = [batch for batch in self._spec.batches if batch <= count] or [min(self._spec.batches)]
        batch = max(fitting) if self._batched else None
        return DomainRows(
            rows=rows, fixed=fixed, axes=axes, batch=batch, sizes=self._sizes, known=known, fed=fed, long=long
        )

    def _some(self, items: Sequence[Any], most: int) -> list[Any]:
        """All items, or a seeded sample of them in the same order."""
        if len(items) <= most:
            return list(items)
        return [items[i] for i in np.sort(self._rng.choice(len(items), size=max(0, most), replace=False))]

    def _cells(self, column: _Column) -> int:
        """The number of elements that a column has in one row."""
        unit = _unit(column.given, self._sizes)
        return max(1, math.prod(unit if column.column is None else unit[:-1]))

    def _ordinary(self, rows: int) -> dict[str, Array]:
        drawn = {
            given.name: draw_known(given, self._domain(given), (rows, *_unit(given, self._sizes)), self._rng)
            for given in self._spec.inputs or ()
        }
        if any(name not in self._like or self._like[name].shape[1:] != each.shape[1:] for name, each in drawn.items()):
            return drawn
        chosen = self._rng.integers(0, len(next(iter(self._like.values()))), size=rows)
        return {name: self._like[name][chosen] for name in drawn}

    def _domain(self, given: InputSpec) -> Domain | None:
        """The domain of an input in stacked rows: an input of one dimension and no batch has no columns there."""
        domain = self._domains.inputs.get(given.name)
        if domain is None or "batch" in given.shape or len(given.shape) != 1 or 0 not in domain.columns:
            return domain
        return Domain(every=domain.columns[0])

    def _scatter(self, column: _Column, landmarks: list[Scalar], rows: int) -> int:
        """Put each landmark into a separate element of the first rows; returns how many were placed."""
        if not rows or not landmarks:
            return 0
        cells = column.cells(self._arrays[column.given.name][:rows])
        chosen = self._some([value for value in landmarks if can_hold(column.given, value)], cells.size)
        where = self._rng.permutation(cells.size)[: len(chosen)]
        cells = cells.copy()
        cells.ravel()[where] = np.array(chosen, dtype=cells.dtype)
        self._write(column, slice(0, rows), cells)
        return len(chosen)

    def _write(self, column: _Column, rows: slice, cells: Array) -> None:
        array = self._arrays[column.given.name]
        if column.column is None or array.ndim == 1:
            array[rows] = cells.reshape(array[rows].shape)
        else:
            array[rows, ..., column.column] = cells.reshape(array[rows, ..., column.column].shape)
        mend_rows(column.given, array, column.values)

    def _apart(self, row: int, columns: tuple[_Column, ...], value: Scalar) -> None:
        """Put one value into an ordinary row; a missing value into a row on a path that tests its column."""
        if value != value and (ways := self._ways.get(columns[0].place)):
            self._box(row, next(ways))
        for column in columns:
            cells = column.cells(self._arrays[column.given.name][row : row + 1]).copy()
            cells.ravel()[self._rng.integers(0, cells.size)] = value
            self._write(column, slice(row, row + 1), cells)

    def _box(self, row: int, box: Box) -> bool:
        """Move the row into the box; False if rounding alone decides what lies inside."""
        found: list[tuple[str, int, Scalar]] = []
        for (name, column), (low, high) in box.items():
            given = next((each for each in self._spec.inputs or () if each.name == name), None)
            if given is None or not draws_known(given, Domain()) or column >= _width(given, self._sizes):
                continue
            value = self._inside(given, column, row, low, high)
            if value is None:
                return False
            found.append((name, column, value))
        for name, column, value in found:
            array = self._arrays[name]
            array[(row, ..., column) if array.ndim > 1 else row] = value
        return bool(found)

    def _ends(self, boxes: Sequence[Box]) -> Iterator[tuple[Box, Place, float]]:
        """Each end of a box that is fed itself: in an ordinary row, it seldom reaches the node that compares it."""
        itself = {
            (given.name, column): itself_of(given, values)
            for given in self._spec.inputs or ()
            if (domain := self._domains.inputs.get(given.name)) and draws_known(given, domain)
            for column, values in domain.columns.items()
        }
        for box in boxes:
            for place, sides in box.items():
                for side in dict.fromkeys(sides):
                    if isinstance(side, int | float) and (value := itself.get(place, {}).get(side)) is not None:
                        yield box, place, value

    def _touch(self, row: int, box: Box, place: Place, value: float) -> None:
        """Move the row into the box, and one of its columns to the end of the box."""
        self._box(row, box)
        array = self._arrays[place[0]]
        array[(row, ..., place[1]) if array.ndim > 1 else row] = value

    def _reach(self, name: str, column: int, values: Values | None) -> float:
        """The largest operand before any cut of a column; cached, because thousands of boxes need it."""
        if (name, column) not in self._reaches:
            cuts = values.cuts if values else ()
            self._reaches[name, column] = max((cut.reach for cut in cuts), default=0.0)
        return self._reaches[name, column]

    def _inside(self, given: InputSpec, column: int, row: int, low: Scalar, high: Scalar) -> Scalar:
        """A value for the column in the interval, its ordinary value if that lies inside; None if there is no value."""
        if low == high or isinstance(low, str) or isinstance(high, str) or low is None or high is None:
            return low if can_hold(given, low) else None
        if given.dtype == "string":
            return None
        values = _values_at(self._domains.inputs.get(given.name), column)
        least, most = shrunk(given, float(low), float(high), self._reach(given.name, column, values))
        if not least < most:
            return None
        array = self._arrays[given.name]
        usual = float(np.ravel(array[(row, ..., column) if array.ndim > 1 else row])[0])
        if least <= usual <= most:
            return usual
        least, most = finite_ends(least, most, values)
        value = float(self._rng.uniform(least, most))
        if is_float(given):
            return value if can_hold(given, value) else None
        whole = math.floor(value) if math.floor(value) >= least else math.ceil(value)
        return whole if least <= whole <= most and can_hold(given, whole) else None


def _values_at(domain: Domain | None, column: int) -> Values | None:
    return (domain.columns.get(column) or domain.every) if domain else None
