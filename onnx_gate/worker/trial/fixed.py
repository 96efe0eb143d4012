"""Sizes that a shipped file fixes, though the source answers others, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.protocol import Event, Stage
from onnx_gate.records.asked import InputSpec
from onnx_gate.records.found import Graph
from onnx_gate.wording.hints import listed
from onnx_gate.worker.inputs.calls import Call, Feed
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.reference import why_refused

Array = npt.NDArray[Any]
_Axis = tuple[str, int]
"""An input, and the position of a dimension."""
_MOST_ASKED = 4


def also_answered(prepared: Prepared, graph: Graph, send: Callable[[Event], None]) -> Iterator[str]:
    """One warning for each size that the file fixes, if the source answers inputs that are one element shorter there.

    Dimensions of one size are made shorter together: the ids and the mask of a text are equally long.
    """
    spec = prepared.spec
    feed = next((next(case.calls()).feed for case in prepared.cases if not case.edge), None)
    fixed: dict[int, list[_Axis]] = {}
    for value in graph.inputs:
        for axis, size in enumerate(value.shape or ()):
            if axis and isinstance(size, int) and size > 1:
                fixed.setdefault(size, []).append((value.name, axis))
    of_columns = spec.framework == "onnx" or prepared.framework.fitted_columns(prepared.source)
    if not feed or not fixed or of_columns:
        return
    send(Stage(name="sizes"))
    for size, axes in list(fixed.items())[:_MOST_ASKED]:
        call = Call(feed=_shorter(feed, axes))
        if why_refused(prepared.framework, prepared.source, spec, call) is None:
            yield (
                f"the .onnx fixes {_named(axes)} at {size}, and the source answers {size - 1}, too: only {size} was "
                f"compared. Fix: export it with a dynamic dimension, or add {_schema(prepared)} if {size} is all that "
                "it has to take"
            )


def _shorter(feed: Feed, axes: list[_Axis]) -> Feed:
    """The feed without the last element along these dimensions."""
    made = dict(feed)
    for name, axis in axes:
        value = made.get(name)
        if isinstance(value, np.ndarray) and value.ndim > axis:
            made[name] = np.asarray(np.delete(value, -1, axis), order="C")
    return made


def _schema(prepared: Prepared) -> str:
    """The schema of the file, as a line of the manifest."""
    inputs = (f"{each.name}: {_declared(each)}" for each in prepared.spec.inputs or ())
    return f"`inputs: {{{', '.join(inputs)}}}`"


def _declared(given: InputSpec) -> str:
    return f"{{dtype: {given.dtype}, shape: [{', '.join(map(str, given.shape))}]}}"


def _named(axes: list[_Axis]) -> str:
    by_input: dict[str, list[int]] = {}
    for name, axis in axes:
        by_input.setdefault(name, []).append(axis)
    told = [
        f"dimension{'s' if len(places) > 1 else ''} {' and '.join(map(str, places))} of `{name}`"
        for name, places in by_input.items()
    ]
    return listed(told)
