"""Nodes of a file that decide on a computed value, not on an input itself: what was decided there for each row.

A Clip, a Min or a comparison after a layer is visible in the graph, but the graph doesn't show which inputs reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft

Array = npt.NDArray[Any]
MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of a file that is examined: it is run many times."""
MOST_PLACES = 64
_CUTS = frozenset({"Clip", "Min", "Max"})
_QUESTIONS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A node that takes a decision."""

    given: str
    """The value that the node clips; empty if it compares."""
    made: str
    """The output of the node."""


class Switches:
    """A file whose inner decisions can be read."""

    def __init__(self, path: str, custom_ops: str | None) -> None:
        blueprint = Blueprint(path, session=SessionSpec(), custom_ops=custom_ops)
        self._places = list(_places(blueprint.model.graph))[:MOST_PLACES] if blueprint.size <= MOST_BYTES else []
        self._session = blueprint.open(_shown(blueprint, self._places), optimize=False) if self._places else None

    def decided(self, feed: dict[str, Any], rows: int) -> dict[tuple[int, int | str], Array] | None:
        """Each decision → the rows that took it; None if the file has no such node."""
        if self._session is None:
            return None
        answers = self._session.run(feed)
        found: dict[tuple[int, int | str], Array] = {}
        for number, place in enumerate(self._places):
            made = answers[place.made].value
            given = answers[place.given].value if place.given else None
            for name, which in _decided(made, given):
                by_row = _by_row(which, rows)
                if by_row is not None and by_row.any():
                    found[number, name] = by_row
        return found


def _places(graph: Any) -> Iterator[_Place]:
    """Nodes of the main graph that decide on a value computed from the inputs."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = {value.name for value in graph.input if value.name not in stored}
    live = set(inputs)
    for node in graph.node:
        reads = [name for name in node.input if name in live]
        if not reads:
            continue
        live.update(node.output)
        hidden = [name for name in reads if name not in inputs]
        if node.domain in ("", "ai.onnx") and hidden and node.op_type in _CUTS:
            yield _Place(given=hidden[0], made=node.output[0])
        elif node.domain in ("", "ai.onnx") and hidden and node.op_type in _QUESTIONS:
            yield _Place(given="", made=node.output[0])


def _shown(blueprint: Blueprint, places: list[_Place]) -> Draft:
    draft = Draft(blueprint)
    graph = draft.model.graph
    wanted = dict.fromkeys(name for place in places for name in (place.given, place.made) if name)
    for name in wanted.keys() - {output.name for output in graph.output}:
        graph.output.add(name=name)
    return draft


def _decided(made: Any, given: Any) -> Iterator[tuple[str, Array]]:
    if not isinstance(made, np.ndarray):
        return
    if given is None:
        yield "yes", made
        yield "no", ~made
    elif isinstance(given, np.ndarray) and given.shape == made.shape and made.dtype.kind in "fiu":
        yield "cut", made < given
        yield "lifted", made > given
        yield "kept", made == given


def _by_row(which: Array, rows: int) -> Array | None:
    """Which rows have at least one such element; None if the elements can't be divided into rows."""
    if not which.ndim or not which.size or which.shape[0] % rows:
        return None
    return np.asarray(which.reshape(rows, -1).any(axis=1))
