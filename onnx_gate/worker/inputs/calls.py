"""What a case is made of: calls, each with one feed."""

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
    """Of the data, so that a worst index can be found in it."""
    recorded: Feed | None = None
    """The reference, where the data holds it."""
    given: Feed | None = None
    """The feed before it was rounded to the schema's dtype; only in calls that together hold every row once."""
    given_answers: dict[str, Answer] | None = None
    """What the source answered to that on another machine, by ONNX output name."""
    asked: tuple[Feed, ...] = ()
    """What the source is asked instead, where the answers to these, row after row, have to be those to the feed."""
    order: tuple[int, ...] | None = None
    """The rows of `asked` in the order of the feed; None where it is the same."""
    answers: dict[str, Answer] | None = None
    """What the source answered on another machine, by ONNX output name: here nobody is asked."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A named line of the report."""

    name: str
    """Such as `batch=7,seq=16`, or `edge=zeros`."""
    calls: Callable[[], Iterator[Call]]
    """Made anew each time, so that only one feed is in memory."""
    sizes: dict[str, int]
    """The dynamic dimensions of its feeds."""
    optional: bool = False
    """The source may refuse it: then it is left out, visibly."""
    generated: bool = False
    """Its values were drawn by us: what goes wrong only where rounding decides is then no divergence."""
    cut: bool = False
    """The data at another size than its own."""
    held: bool = True
    """Where not, a difference is a warning: nobody has said that the model takes such a feed."""

    @property
    def edge(self) -> str:
        """The name of the edge case that it is; empty for ordinary feeds."""
        return self.name.removeprefix(EDGE_CASE) if self.name.startswith(EDGE_CASE) else ""


def spread_calls(case: Case, most: int = 8) -> list[Call]:
    """Some of its calls, from all over it."""
    count = sum(1 for _ in case.calls())
    chosen = set(np.linspace(0, count - 1, min(count, most)).astype(int).tolist())
    return [call for number, call in enumerate(case.calls()) if number in chosen]


@dataclass(frozen=True, kw_only=True)
class DomainRows:
    """All rows of the case, ready to be cut into calls."""

    rows: Mapping[str, Array]
    """By input, the rows first."""
    fixed: Feed
    """Inputs without a batch, in a model that has one."""
    axes: Mapping[str, int]
    """Which dimension is the batch, by input."""
    batch: int | None
    """Rows in a call; None where each row is a call."""
    sizes: Mapping[str, int]
    """Of the named dimensions."""
    known: int
    """Landmarks that the model has."""
    fed: int
    """Landmarks in these rows."""
    long: Feed | None = None
    """One more call, at the largest sizes that the model has room for."""
    refused: frozenset[int] = frozenset()
    """Rows that the source does not answer."""

    @property
    def count(self) -> int:
        """Rows that are fed."""
        return len(next(iter(self.rows.values()), ())) - len(self.refused)

    def case(self) -> Case:
        """The case that feeds them; every call has a full batch, the last one repeats some rows."""
        sizes = {**({"batch": self.batch} if self.batch else {}), **self.sizes}
        return Case(name=DOMAIN_CASE, calls=self._calls, sizes=sizes, generated=True)

    def call(self, rows: Sequence[int]) -> Call:
        """These rows, repeated until they are a batch."""
        indices = np.resize(np.array(rows, dtype=np.intp), self.batch or 1)
        feed = {name: self._placed(name, array[indices]) for name, array in self.rows.items()}
        return Call(feed={**feed, **self.fixed}, first_row=int(indices[0]))

    def groups(self) -> list[list[int]]:
        """The rows of each call."""
        kept = [row for row in range(self.count + len(self.refused)) if row not in self.refused]
        size = self.batch or 1
        return [kept[start : start + size] for start in range(0, len(kept), size)]

    def without(self, refused: Iterable[int]) -> DomainRows:
        """The same but for rows that the source refuses."""
        return replace(self, refused=frozenset(refused))

    def more(self, rows: Mapping[str, Array]) -> DomainRows:
        """With these rows too, each of which is a landmark."""
        count = len(next(iter(rows.values())))
        joined = {name: np.concatenate([array, rows[name]]) for name, array in self.rows.items()} or rows
        return replace(self, rows=joined, known=self.known + count, fed=self.fed + count)

    def only(self, rows: Mapping[str, Array]) -> DomainRows:
        """These rows instead."""
        return replace(self, rows=rows, refused=frozenset(), long=None)

    def without_long(self) -> DomainRows:
        """The same without the call at the largest sizes."""
        return replace(self, long=None)

    def _placed(self, name: str, array: Array) -> Array:
        return np.moveaxis(array, 0, self.axes[name]) if name in self.axes else first_row(array)

    def _calls(self) -> Iterator[Call]:
        yield from map(self.call, self.groups())
        if self.long is not None:
            yield Call(feed=self.long)


def first_row(array: Array) -> Array:
    """The first row, which stays an array where it has no dimension."""
    return array[:1].reshape(array.shape[1:])
