"""One node of a graph, with what is known about its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from onnx_gate.worker.onnx_files.domain.findings import Findings
from onnx_gate.worker.onnx_files.domain.flow import Counting, Dim, Flow, Sizes
from onnx_gate.worker.onnx_files.domain.stored import Array, Stored

MOST_CONSTANTS = 1024
"""Most numbers of one operator that are examined."""
Known = Flow | Stored | Sizes | Counting | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A node, and its input values."""

    node: Any
    inputs: tuple[Known, ...]
    findings: Findings
    dims: Callable[[str], tuple[Dim, ...] | None]
    """Value name → the shape that the file declares for it."""

    @property
    def op(self) -> str:
        """The name of the operator."""
        return str(self.node.op_type)

    def attribute(self, name: str, otherwise: Any = None) -> Any:
        """The value of an attribute; bytes are decoded to text."""
        for each in self.node.attribute:
            if each.name == name:
                return _plain(helper.get_attribute_value(each))
        return otherwise

    def given(self, place: int) -> Known:
        """What is known about an input of the node."""
        return self.inputs[place] if place < len(self.inputs) else None

    def flow(self, place: int = 0) -> Flow | None:
        """An input of the node, if its elements follow one by one from the graph's inputs."""
        found = self.given(place)
        return found if isinstance(found, Flow) and not found.reduced else None

    def array(self, place: int) -> Array | None:
        """The content of a constant input; None if it isn't constant, or is too large."""
        found = self.given(place)
        return found.array if isinstance(found, Stored) else None

    def numbers(self, place: int, attribute: str = "") -> list[int] | None:
        """Constant integers from an input, or from an attribute in older operators."""
        if attribute and (listed := self.attribute(attribute)) is not None:
            return [int(each) for each in (listed if isinstance(listed, list | tuple) else [listed])]
        array = self.array(place)
        return None if array is None or array.dtype.kind not in "iu" else [int(each) for each in array.reshape(-1)]

    def axis(self, flow: Flow, otherwise: int = 0) -> int | None:
        """The attribute `axis`, counted from the end (-1 is the last); None if the number of axes isn't known."""
        return from_end(int(self.attribute("axis", otherwise)), flow.rank)


Handler = Callable[[Step], Sequence[Known]]
Handlers = Mapping[str, Handler]


def lose(step: Step) -> Sequence[Known]:
    """Handle an operator through which values are not followed."""
    flows = [each for each in step.inputs if isinstance(each, Flow)]
    for flow in flows:
        if flow.known and not flow.reduced:
            step.findings.lost(flow, step.op)
    dims = max((flow.dims for flow in flows if flow.dims is not None), key=len, default=None)
    kept = Flow(dims=dims) if step.op in _SHAPE_STAYS and dims is not None else None
    return [kept, *[None] * (len(step.node.output) - 1)]


def from_end(axis: int, rank: int | None) -> int | None:
    """The axis, counted from the end; None if the number of axes isn't known."""
    if axis < 0:
        return axis
    return None if rank is None else axis - rank


def numbers_of(array: Array) -> list[float]:
    """The elements of an array as floats."""
    return [float(each) for each in np.asarray(array, dtype=np.float64).reshape(-1)]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [each.decode("utf-8", "replace") for each in value]
    return value


_SHAPE_STAYS = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Gelu", "LayerNormalization"),
    *("Softmax", "LeakyRelu", "Elu", "HardSwish", "Softplus", "Sin", "Cos", "Max", "Min", "Reciprocal", "Sign", "Relu"),
    *("Clip", "RMSNormalization", "SimplifiedLayerNormalization", "FastGelu", "BiasGelu", "Round", "Floor", "Ceil"),
}
