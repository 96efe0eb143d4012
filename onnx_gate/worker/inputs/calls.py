"""What a case is made of: calls, each with one feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import EDGE_CASE

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
