"""Properties that a row may have: each one is a mask over all rows, with a description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.wording.numbers import scalar
from onnx_gate.worker.compare.form import kind_of
from onnx_gate.worker.compare.outputs import plain_scalar
from onnx_gate.worker.failing.rows import Block

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Row = tuple[Block, int]
MOST_COLUMNS = 256
"""Most columns of an input that are examined one by one."""
MOST_CELLS = 4_000_000
"""Most elements of an input, over all rows, with which its columns are examined."""
_FEW_CATEGORIES = 64


class Tier(IntEnum):
    """Rank of a property by how likely a fault depends on it: the most likely first."""

    SPECIAL = 0
    """A missing value, all 0, an empty text, a size."""
    GROUP = 1
    """A class or a category."""
    COLUMN = 2
    """A threshold in one column."""
    WHOLE = 3
    """A number that describes the whole row."""


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property that some rows have."""

    tier: Tier
    what: str
    """Description with values."""
    private: str
    """Description without values of the data."""
    about: str
    """The thing that it describes, such as an input or a column; one property per thing is enough."""
    mask: Mask


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number for each row; a threshold on it may separate failing rows from others."""

    tier: Tier
    of: str
    about: str
    values: Array
    open: bool = False
    """Whether it is a size, and so not a value of the data."""


Found = Property | Measure


def properties_of(rows: Sequence[Row], names: Sequence[str]) -> Iterator[Found]:
    """All properties that are worth checking; `names` are the column names if there is only one input."""
    yield from _sizes(rows)
    inputs = list(rows[0][0].call.feed)
    for name in inputs:
        values = [block.value(name, row) for block, row in rows]
        if all(block.has_rows(name) or block.rows is None for block, _ in rows):
            yield from _of_input(name, values, names if len(inputs) == 1 else ())
    yield from _classes(rows)


def _sizes(rows: Sequence[Row]) -> Iterator[Found]:
    """Properties from the sizes of the case; without the batch size, which is not a property of a row."""
    dims = dict.fromkeys(dim for block, _ in rows for dim in block.case.sizes if dim != "batch")
    for dim in dims:
        values = np.array([block.case.sizes.get(dim, -1) for block, _ in rows])
        if len(known := np.unique(values)) < 2:
            continue
        yield from (_fixed(Tier.SPECIAL, f"`{dim}` {size}", f"size {dim}", values == size) for size in known.tolist())
        yield Measure(tier=Tier.SPECIAL, of=f"`{dim}`", about=f"size {dim}", values=values.astype(float), open=True)


def _fixed(tier: Tier, what: str, about: str, mask: Any) -> Property:
    """A property whose description contains no value of the data."""
    return Property(tier=tier, what=what, private=what, about=about, mask=np.asarray(mask, dtype=bool))


def _of_input(name: str, values: list[Any], names: Sequence[str]) -> Iterator[Found]:
    if any(not isinstance(value, np.ndarray | np.generic | str | bool | int | float) for value in values):
        missing = np.array([value is None for value in values])
        if missing.any():
            yield _fixed(Tier.SPECIAL, f"no `{name}`", name, missing)
        return
    arrays = [np.asarray(value) for value in values]
    lengths = np.array([array.size for array in arrays])
    if len(np.unique(lengths)) > 1:
        yield Measure(tier=Tier.SPECIAL, of=f"the size of `{name}`", about=f"{name} size", values=lengths, open=True)
    kind = kind_of(arrays[0])
    if kind == "string":
        yield from _of_texts(name, arrays)
    elif kind in ("float", "int", "bool"):
        yield from _of_numbers(name, arrays)
    same = len({array.shape for array in arrays}) == 1
    if same and 0 < arrays[0].size <= MOST_COLUMNS and arrays[0].size * len(arrays) <= MOST_CELLS:
        yield from _of_columns(name, np.stack(arrays).reshape(len(arrays), -1), kind, arrays[0].shape, names)


def _of_numbers(name: str, arrays: list[Array]) -> Iterator[Found]:
    wide = [array.astype(np.float64, copy=False).ravel() for array in arrays]

    def each(ask: Callable[[Array], Any]) -> Array:
        return np.array([ask(array) for array in wide])

    with np.errstate(all="ignore"):
        yield _fixed(Tier.SPECIAL, f"a NaN in `{name}`", name, each(lambda x: np.isnan(x).any()))
        yield _fixed(Tier.SPECIAL, f"an infinity in `{name}`", name, each(lambda x: np.isinf(x).any()))
        several = max(array.size for array in wide) > 1
        if several:
            yield _fixed(Tier.SPECIAL, f"`{name}` all 0", name, each(lambda x: x.size > 0 and not x.any()))
            constant = each(lambda x: x.size > 1 and bool(np.all(x == x[0])))
            yield _fixed(Tier.SPECIAL, f"one and the same value all over `{name}`", f"{name} constant", constant)
            yield from _either(f"a 0 in `{name}`", f"no 0 in `{name}`", f"{name} 0", each(lambda x: (x == 0).any()))
        negative = each(lambda x: (x < 0).any())
        yield from _either(
            f"a negative value in `{name}`", f"no negative value in `{name}`", f"{name} negative", negative
        )
        if several:
            for words, ask in (("the largest value of", np.max), ("the smallest value of", np.min)):
                found = each(lambda x, ask=ask: ask(x) if x.size else np.nan)  # type: ignore[misc]
                yield Measure(tier=Tier.WHOLE, of=f"{words} `{name}`", about=f"{name} {words}", values=found)
            if kind_of(arrays[0]) != "float":
                counted = each(np.count_nonzero)
                of = f"the number of values of `{name}` other than 0,"
                yield Measure(tier=Tier.WHOLE, of=of, about=f"{name} count", values=counted)


def _either(having: str, lacking: str, about: str, mask: Array) -> Iterator[Found]:
    yield _fixed(Tier.GROUP, having, about, mask)
    yield _fixed(Tier.GROUP, lacking, about, ~mask.astype(bool))


def _of_texts(name: str, arrays: list[Array]) -> Iterator[Found]:
    texts = [[str(text) for text in array.ravel().tolist()] for array in arrays]
    empty = np.array([any(not text for text in row) for row in texts])
    foreign = np.array([any(not text.isascii() for text in row) for row in texts])
    yield _fixed(Tier.SPECIAL, f"an empty text in `{name}`", name, empty)
    yield _fixed(Tier.SPECIAL, f"a character beyond ASCII in `{name}`", f"{name} ascii", foreign)


def _of_columns(name: str, table: Array, kind: str, shape: tuple[int, ...], names: Sequence[str]) -> Iterator[Found]:
    named = len(names) == table.shape[1]
    for at in range(table.shape[1]):
        column = table[:, at]
        if table.shape[1] == 1:
            of = f"`{name}`"
        elif named:
            of = f"column `{names[at]}`"
        else:
            place = ", ".join(str(int(i)) for i in np.unravel_index(at, shape))
            of = f"column {place} of `{name}`"
        yield from _of_column(of, f"{name} {at}", column, kind)


def _of_column(of: str, about: str, column: Array, kind: str) -> Iterator[Found]:
    if kind == "float":
        wide = column.astype(np.float64)
        yield _fixed(Tier.SPECIAL, f"a NaN in {of}", about, np.isnan(wide))
        yield _fixed(Tier.GROUP, f"a 0 in {of}", f"{about} 0", wide == 0)
        yield Measure(tier=Tier.COLUMN, of=of, about=about, values=wide)
        yield from _categories(of, f"{about} =", wide[~np.isnan(wide)], wide)
        return
    if kind == "string":
        column = np.array([str(text) for text in column.tolist()])
    yield from _categories(of, about, column, column)
    if kind == "int":
        yield Measure(tier=Tier.COLUMN, of=of, about=about, values=column.astype(np.float64))


def _categories(of: str, about: str, known: Array, column: Array) -> Iterator[Found]:
    """One property per value, if there are only a few different values."""
    values = np.unique(known)
    if not 1 < len(values) <= min(_FEW_CATEGORIES, max(2, len(column) // 4)):
        return
    for value in values:
        shown = scalar(plain_scalar(value))
        yield Property(
            tier=Tier.GROUP,
            what=f"{shown} in {of}",
            private=f"one certain value in {of}",
            about=about,
            mask=np.asarray(column == value),
        )


def _classes(rows: Sequence[Row]) -> Iterator[Found]:
    """Properties from the source's answers: a label, or the class that it ranks first."""
    for name in rows[0][0].answers:
        answers = [block.answers[name][row] for block, row in rows if name in block.answers]
        if len(answers) < len(rows) or len({np.shape(answer) for answer in answers}) > 1:
            continue
        first = np.asarray(answers[0])
        if kind_of(first) != "float" and first.size == 1:
            labels = np.array([plain_scalar(np.asarray(answer).ravel()[0]) for answer in answers])
            yield from _labels(name, labels, "the source's answer in `{}`")
        elif kind_of(first) == "float" and first.ndim == 1 and 1 < first.size <= _FEW_CATEGORIES:
            ranked = np.array([int(np.argmax(answer)) for answer in answers])
            yield from _labels(name, ranked, "the class that the source ranks first in `{}`")


def _labels(name: str, labels: Array, words: str) -> Iterator[Found]:
    known = np.unique(labels)
    if not 1 < len(known) <= _FEW_CATEGORIES:
        return
    of = words.format(name)
    for label in known:
        yield Property(
            tier=Tier.GROUP,
            what=f"{scalar(plain_scalar(label))} as {of}",
            private=f"one certain class as {of}",
            about=f"answer {name}",
            mask=np.asarray(labels == label),
        )


def shortest(low: float, high: float, *, lower: bool) -> str:
    """The shortest number between two; it may be equal to the lower one with `lower`, else to the higher one."""
    for digits in range(1, 17):
        for near in ((low + high) / 2, high, low):
            value = float(f"{near:.{digits}g}")
            if low < value < high or value == (low if lower else high):
                return scalar(value) if digits <= 7 else repr(value)
    return repr(low if lower else high)
