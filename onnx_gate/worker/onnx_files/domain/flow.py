"""What a value of the graph consists of: a·x + b of input columns x, sizes of inputs, or numbers that count up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onnx import TensorProto

from onnx_gate.vocabulary import Scalar

Dim = int | str | None
"""A size, the name of a size, or None if neither is known."""
FLOATS: dict[int, int] = {
    TensorProto.FLOAT: 24,
    TensorProto.DOUBLE: 53,
    TensorProto.FLOAT16: 11,
    TensorProto.BFLOAT16: 8,
}
"""Float type → bits of its significand."""
INTEGERS: dict[int, tuple[int, int]] = {
    TensorProto.INT8: (-(2**7), 2**7 - 1),
    TensorProto.INT16: (-(2**15), 2**15 - 1),
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    TensorProto.INT64: (-(2**63), 2**63 - 1),
    TensorProto.UINT8: (0, 2**8 - 1),
    TensorProto.UINT16: (0, 2**16 - 1),
    TensorProto.UINT32: (0, 2**32 - 1),
    TensorProto.UINT64: (0, 2**64 - 1),
}
"""Integer type → its smallest and its largest number."""
BOOL, TEXT, UINT8 = TensorProto.BOOL, TensorProto.STRING, TensorProto.UINT8
MOST_COLUMNS = 4096
MOST_PARTS = 64


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """The value that a table has for the fed value: the code of a category, or 1 for one category and 0 for others."""

    keys: tuple[Scalar, ...]
    """The values that may be fed."""
    values: tuple[float, ...] = ()
    """The table's value for each key; empty if `hot` applies."""
    hot: int = 0
    """The position of the key that gives 1; all others give 0."""

    def led(self, low: float, high: float) -> set[Scalar]:
        """The keys whose values are above `low` and at most `high`."""
        if self.values:
            return {key for key, value in zip(self.keys, self.values, strict=True) if low < value <= high}
        cold = set(self.keys) - {self.keys[self.hot]} if low < 0 <= high else set()
        return cold | ({self.keys[self.hot]} if low < 1 <= high else set())


@dataclass(frozen=True, kw_only=True)
class Part:
    """Elements x of an input, in the form that a value of the graph has: factor · x + shift."""

    name: str
    """The name of the input."""
    column: int | None = None
    """The position on the last axis; None for any element."""
    factor: float = 1.0
    shift: float = 0.0
    reach: float = 0.0
    """The largest operand so far, in units of the input."""
    coarse: float = 1.0
    """How much coarser the narrowest dtype on the way is than the input's dtype."""
    learnt: bool = False
    """Whether a separate constant was applied to each column, which means that they are scaled."""
    whole: bool = False
    """Whether it was rounded to an integer on the way."""
    digits: int = 0
    """If an integer became a float on the way: the bits of the narrowest such float."""
    lookup: Lookup | None = None
    """If set, x is the value that this table has for the input."""

    def times(self, number: float) -> Part:
        """The part after multiplying by a number."""
        return replace(self, factor=self.factor * number, shift=self.shift * number)

    def plus(self, number: float) -> Part:
        """The part after adding a number, which counts as an operand for `reach`."""
        reach = max(self.reach, abs(number / self.factor)) if self.factor else self.reach
        return replace(self, shift=self.shift + number, reach=reach)

    @property
    def exact(self) -> bool:
        """Whether nothing was rounded on the way, so that an exact value can be fed."""
        return not self.shift and math.frexp(abs(self.factor))[0] == 0.5

    def raw(self, value: float) -> float:
        """The input value that gives the part this value."""
        return (value - self.shift) / self.factor


Cell = tuple[Part, ...]
"""The parts that an element may be: always one of them at a time; empty if this isn't known."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A value of the graph."""

    cells: tuple[Cell, ...] = ((),)
    """One cell per position on the last axis, or one cell for all elements."""
    by_column: bool = False
    """Whether there is one cell per position."""
    aligned: bool = False
    """Whether the last axis is that of the input, and the only cell stands for any column."""
    dims: tuple[Dim, ...] | None = None
    kind: int = 0
    """The element type, as a number of ONNX's TensorProto; 0 if it isn't known."""
    joined: str | None = None
    """If the value holds the words of a text: the separator that joined them."""
    reduced: bool = False
    """Whether it is a sum, a mean or an extreme of such elements."""
    truth: bool = False
    """Whether it holds the results of comparisons; as numbers, 0 and 1."""

    @property
    def known(self) -> bool:
        """Whether any element is known to come from an input."""
        return any(self.cells)

    @property
    def rank(self) -> int | None:
        """The number of axes; None if it isn't known."""
        return None if self.dims is None else len(self.dims)

    @property
    def width(self) -> int | None:
        """The size of the last axis; None if it isn't known."""
        if self.by_column:
            return len(self.cells)
        last = self.dims[-1] if self.dims else None
        return last if isinstance(last, int) else None

    @property
    def parts(self) -> list[Part]:
        """The parts of all cells."""
        return [part for cell in self.cells for part in cell]

    def at(self, place: int) -> Cell:
        """The cell at a position on the last axis."""
        if self.by_column:
            return self.cells[place] if -len(self.cells) <= place < len(self.cells) else ()
        if not self.aligned:
            return self.cells[0]
        if place < 0:
            place += self.width if self.width is not None else 0
        return tuple(replace(part, column=place) for part in self.cells[0]) if place >= 0 else ()

    def columns(self, width: int | None = None) -> tuple[Cell, ...] | None:
        """The cell at each position; None if the number of positions isn't known, or is too large."""
        if self.by_column:
            return self.cells
        count = self.width or width
        return tuple(self.at(place) for place in range(count)) if count and count <= MOST_COLUMNS else None

    def each(self, change: Callable[[Part], Part]) -> Flow:
        """The same flow, with the same change to all parts."""
        return replace(self, cells=tuple(tuple(change(part) for part in cell) for cell in self.cells))

    def pick(self, places: Sequence[int]) -> Flow:
        """The flow at some positions of the last axis."""
        cells = tuple(self.at(place) for place in places)
        dims = None if self.dims is None else (*self.dims[:-1], len(cells))
        return replace(self, cells=cells, by_column=True, aligned=False, dims=dims)

    def mixed(self, dims: tuple[Dim, ...] | None) -> Flow:
        """The same elements with other axes, of which the last one isn't the columns."""
        cell = tuple(dict.fromkeys(self.parts))
        cell = cell if len(cell) <= MOST_PARTS else ()
        return replace(self, cells=(cell,), by_column=False, aligned=False, dims=dims)


@dataclass(frozen=True, kw_only=True)
class Length:
    """The size of a named dimension, plus a constant."""

    name: str
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A shape, or some numbers of a shape."""

    items: tuple[int | Length | None, ...]


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Integers that count along a named dimension: 0, 1, 2, …"""

    name: str
    more: int = -1
    """The largest of these integers is the size of the dimension plus this number."""


def joined(flows: Sequence[Flow]) -> Flow | None:
    """Flows joined on the last axis; None if a width is unknown, because later positions would be unknown too."""
    cells: list[Cell] = []
    for flow in flows:
        columns = flow.columns()
        if columns is None:
            return None
        cells += columns
    if len(cells) > MOST_COLUMNS:
        return None
    dims = next((flow.dims for flow in flows if flow.dims), None)
    dims = None if dims is None else (*dims[:-1], len(cells))
    return replace(flows[0], cells=tuple(cells), by_column=True, aligned=False, dims=dims)


def either(first: Flow, second: Flow) -> Flow:
    """A flow in which each element comes from one of two flows."""
    if first.by_column and second.by_column and len(first.cells) == len(second.cells):
        cells = tuple((*a, *b) for a, b in zip(first.cells, second.cells, strict=True))
        return replace(first, cells=cells)
    if first.aligned and second.aligned:
        return replace(first, cells=((*first.cells[0], *second.cells[0])[:MOST_PARTS],))
    if not second.known or not first.known:
        return first if first.known else second
    return replace(first, cells=(*first.cells, *second.cells)).mixed(first.dims)
