"""A case and its calls, each with one feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import DOMAIN_CASE, EDGE_CASE

Array = npt.NDArray[Any]
Feed = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One feed, and what was recorded for it."""

    feed: Feed
    """Arrays by input name, in the schema's dtype."""
    first_row: int = 0
    """The position of its first row in the data, so that users can find a worst index there."""
    recorded: Feed | None = None
    """The reference outputs, if the data holds them."""
    given: Feed | None = None
    """The feed before rounding to the schema's dtype; only in calls that together hold every row once."""
    repeated: int = 0
    """How many of its first rows an earlier call has fed too: they count once against the answers to `given`."""
    given_answers: dict[str, Answer] | None = None
    """The source's answers to `given` from another machine, by ONNX output name."""
    asked: tuple[Feed, ...] = ()
    """Feeds that the source gets instead; its answers to them, row after row, must equal those to the feed."""
    order: tuple[int, ...] | None = None
    """The order of the rows of `asked` in the feed; None if the order is the same."""
    answers: dict[str, Answer] | None = None
    """The source's answers from another machine, by ONNX output name; the source is then not run here."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A named case: one line of the report."""

    name: str
    """For example `batch=7,seq=16`, or `edge=zeros`."""
    calls: Callable[[], Iterator[Call]]
    """Makes the calls again each time, so that only one feed is in memory."""
    sizes: dict[str, int]
    """The dynamic dimensions of its feeds."""
    optional: bool = False
    """The source may refuse the case: then it is skipped, and the report says so."""
    generated: bool = False
    """Its values were generated: a difference that occurs only where rounding decides is then not a divergence."""
    cut: bool = False
    """Whether it is the data, cut or repeated to another size."""
    held: bool = True
    """If False, a difference is only a warning: the manifest doesn't say that the model accepts such a feed."""

    @property
    def edge(self) -> str:
        """The name of the edge case; empty if it isn't one."""
        return self.name.removeprefix(EDGE_CASE) if self.name.startswith(EDGE_CASE) else ""


def spread_calls(case: Case, most: int = 8) -> list[Call]:
    """Up to `most` calls of a case, evenly spread over it."""
    count = sum(1 for _ in case.calls())
    chosen = set(np.linspace(0, count - 1, min(count, most)).astype(int).tolist())
    return [call for number, call in enumerate(case.calls()) if number in chosen]


@dataclass(frozen=True, kw_only=True)
class DomainRows:
    """All rows of the case `domain`, ready to be divided into calls."""

    rows: Mapping[str, Array]
    """Arrays by input name; their first axis is the rows."""
    fixed: Feed
    """Inputs without a batch dimension, in a model that has one."""
    axes: Mapping[str, int]
    """The position of the batch dimension, by input."""
    batch: int | None
    """Rows in a call; None if each row is a call."""
    sizes: Mapping[str, int]
    """The sizes of the named dimensions."""
    known: int
    """Number of landmarks that the model has."""
    fed: int
    """Number of landmarks in these rows."""
    long: Feed | None = None
    """One more call, at the largest sizes that the model has room for."""
    refused: frozenset[int] = frozenset()
    """Rows that the source refuses."""

    @property
    def count(self) -> int:
        """The number of rows that are fed."""
        return len(next(iter(self.rows.values()), ())) - len(self.refused)

    def case(self) -> Case:
        """The case that feeds these rows; every call has a full batch, so the last one repeats some rows."""
        sizes = {**({"batch": self.batch} if self.batch else {}), **self.sizes}
        return Case(name=DOMAIN_CASE, calls=self._calls, sizes=sizes, generated=True)

    def call(self, rows: Sequence[int]) -> Call:
        """A call with these rows, repeated until the batch is full."""
        indices = np.resize(np.array(rows, dtype=np.intp), self.batch or 1)
        feed = {name: self._placed(name, array[indices]) for name, array in self.rows.items()}
        return Call(feed={**feed, **self.fixed}, first_row=int(indices[0]))

    def groups(self) -> list[list[int]]:
        """The rows of each call."""
        kept = [row for row in range(self.count + len(self.refused)) if row not in self.refused]
        size = self.batch or 1
        return [kept[start : start + size] for start in range(0, len(kept), size)]

    def without(self, refused: Iterable[int]) -> DomainRows:
        """The same, without the rows that the source refuses."""
        return replace(self, refused=frozenset(refused))

    def and_rows(self, rows: Mapping[str, Array]) -> DomainRows:
        """The same, with these rows added; their landmarks are known already."""
        return replace(
            self, rows={name: np.concatenate([array, rows.get(name, array[:0])]) for name, array in self.rows.items()}
        )

    def more(self, rows: Mapping[str, Array]) -> DomainRows:
        """The same, with these rows added; each of them is a landmark."""
        count = len(next(iter(rows.values())))
        joined = {name: np.concatenate([array, rows[name]]) for name, array in self.rows.items()} or rows
        return replace(self, rows=joined, known=self.known + count, fed=self.fed + count)

    def only(self, rows: Mapping[str, Array]) -> DomainRows:
        """The same, with these rows instead of its own."""
        return replace(self, rows=rows, refused=frozenset(), long=None)

    def without_long(self) -> DomainRows:
        """The same, without the call at the largest sizes."""
        return replace(self, long=None)

    def _placed(self, name: str, array: Array) -> Array:
        return np.moveaxis(array, 0, self.axes[name]) if name in self.axes else first_row(array)

    def _calls(self) -> Iterator[Call]:
        yield from map(self.call, self.groups())
        if self.long is not None:
            yield Call(feed=self.long)


def first_row(array: Array) -> Array:
    """The first row; it stays an array even if it has no dimension."""
    return array[:1].reshape(array.shape[1:])
