"""What a value of the graph is made of: columns of inputs, each under a·x + b; sizes of inputs; numbers that count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onnx import TensorProto

from onnx_gate.vocabulary import Scalar

Dim = int | str | None
"""A size, the name of one, or neither is known."""
FLOATS: dict[int, int] = {
    TensorProto.FLOAT: 24,
    TensorProto.DOUBLE: 53,
    TensorProto.FLOAT16: 11,
    TensorProto.BFLOAT16: 8,
}
"""Bits of the significand."""
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
"""The smallest and the largest number."""
BOOL, TEXT, UINT8 = TensorProto.BOOL, TensorProto.STRING, TensorProto.UINT8
MOST_COLUMNS = 4096
MOST_PARTS = 64


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """A value that a table has for what was fed: the code of a category, or whether it is one."""

    keys: tuple[Scalar, ...]
    """What may be fed."""
    values: tuple[float, ...] = ()
    """What the table has for each; empty where `hot` says it."""
    hot: int = 0
    """The key that gives 1, while all others give 0."""

    def led(self, low: float, high: float) -> set[Scalar]:
        """The keys whose values lie between."""
        if self.values:
            return {key for key, value in zip(self.keys, self.values, strict=True) if low < value <= high}
        cold = set(self.keys) - {self.keys[self.hot]} if low < 0 <= high else set()
        return cold | ({self.keys[self.hot]} if low < 1 <= high else set())


@dataclass(frozen=True, kw_only=True)
class Part:
    """Elements of an input, as a value of the graph holds them: factor · x + shift."""

    name: str
    """The input."""
    column: int | None = None
    """Its place on the last axis; None for any element."""
    factor: float = 1.0
    shift: float = 0.0
    reach: float = 0.0
    """The largest operand so far, in the values of the input."""
    coarse: float = 1.0
    """How much coarser than the input's dtype the narrowest one on the way is."""
    learnt: bool = False
    """A constant for each column was applied: somebody scales them."""
    whole: bool = False
    """Rounded to a whole number on the way."""
    lookup: Lookup | None = None
    """x is what this has for the input."""

    def times(self, number: float) -> Part:
        """The same, multiplied."""
        return replace(self, factor=self.factor * number, shift=self.shift * number)

    def plus(self, number: float) -> Part:
        """The same with something added to it; what is added counts as an operand."""
        reach = max(self.reach, abs(number / self.factor)) if self.factor else self.reach
        return replace(self, shift=self.shift + number, reach=reach)

    @property
    def exact(self) -> bool:
        """Whether no rounding lies on the way, so that exactly a value can be fed."""
        return not self.shift and math.frexp(abs(self.factor))[0] == 0.5

    def raw(self, value: float) -> float:
        """What is fed where this has a value."""
        return (value - self.shift) / self.factor


Cell = tuple[Part, ...]
"""All that an element may be made of, one of them at a time; empty where it isn't known."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A value of the graph."""

    cells: tuple[Cell, ...] = ((),)
    """One for each place on the last axis, or one for all elements."""
    by_column: bool = False
    """Whether there is one for each place."""
    aligned: bool = False
    """The last axis is that of the input, and the one cell speaks of any column."""
    dims: tuple[Dim, ...] | None = None
    kind: int = 0
    """The element type, in ONNX's numbers; 0 where it isn't known."""
    joined: str | None = None
    """Words of a text; this joined them."""
    reduced: bool = False
    """A sum, a mean or an extreme of such elements."""
    truth: bool = False
    """Answers of comparisons; as numbers, 0 and 1."""

    @property
    def known(self) -> bool:
        """Whether anything of an input is in it."""
        return any(self.cells)

    @property
    def rank(self) -> int | None:
        """How many axes it has."""
        return None if self.dims is None else len(self.dims)

    @property
    def width(self) -> int | None:
        """The size of the last axis."""
        if self.by_column:
            return len(self.cells)
        last = self.dims[-1] if self.dims else None
        return last if isinstance(last, int) else None

    @property
    def parts(self) -> list[Part]:
        """All that is in it."""
        return [part for cell in self.cells for part in cell]

    def at(self, place: int) -> Cell:
        """What is at a place of the last axis."""
        if self.by_column:
            return self.cells[place] if -len(self.cells) <= place < len(self.cells) else ()
        if not self.aligned:
            return self.cells[0]
        if place < 0:
            place += self.width if self.width is not None else 0
        return tuple(replace(part, column=place) for part in self.cells[0]) if place >= 0 else ()

    def columns(self, width: int | None = None) -> tuple[Cell, ...] | None:
        """What is at each place, where their number is known."""
        if self.by_column:
            return self.cells
        count = self.width or width
        return tuple(self.at(place) for place in range(count)) if count and count <= MOST_COLUMNS else None

    def each(self, change: Callable[[Part], Part]) -> Flow:
        """The same with all parts changed alike."""
        return replace(self, cells=tuple(tuple(change(part) for part in cell) for cell in self.cells))

    def pick(self, places: Sequence[int]) -> Flow:
        """Some places of the last axis."""
        cells = tuple(self.at(place) for place in places)
        dims = None if self.dims is None else (*self.dims[:-1], len(cells))
        return replace(self, cells=cells, by_column=True, aligned=False, dims=dims)

    def mixed(self, dims: tuple[Dim, ...] | None) -> Flow:
        """The same elements under other axes, whose last one says nothing of columns."""
        cell = tuple(dict.fromkeys(self.parts))
        cell = cell if len(cell) <= MOST_PARTS else ()
        return replace(self, cells=(cell,), by_column=False, aligned=False, dims=dims)


@dataclass(frozen=True, kw_only=True)
class Length:
    """The size of a named dimension, with something added."""

    name: str
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A shape, or some numbers of one."""

    items: tuple[int | Length | None, ...]


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Whole numbers that count along a named dimension: 0, 1, 2, …"""

    name: str
    more: int = -1
    """The largest one is the size of the dimension with this added."""


def joined(flows: Sequence[Flow]) -> Flow | None:
    """Beside each other on the last axis; what follows a value of unknown width has no known place."""
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
    """One of two at each element."""
    if first.by_column and second.by_column and len(first.cells) == len(second.cells):
        cells = tuple((*a, *b) for a, b in zip(first.cells, second.cells, strict=True))
        return replace(first, cells=cells)
    if first.aligned and second.aligned:
        return replace(first, cells=((*first.cells[0], *second.cells[0])[:MOST_PARTS],))
    if not second.known or not first.known:
        return first if first.known else second
    return replace(first, cells=(*first.cells, *second.cells)).mixed(first.dims)
