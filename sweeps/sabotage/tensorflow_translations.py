"""Custom translations of Erfc for tf2onnx, which has none: a right one, and a slightly wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Table = Mapping[str, Callable[..., None]]


def right() -> Table:
    """1 − erf(x)."""

    def erfc(graph: Any, node: Any, name: str, args: Any) -> None:
        _one_minus(graph, node, name, graph.make_node("Erf", [node.input[0]]))

    return {"Erfc": erfc}


def wrong() -> Table:
    """1 − tanh(2x / √π), which has the right slope at 0 alone."""

    def erfc(graph: Any, node: Any, name: str, args: Any) -> None:
        slope = graph.make_const(f"{name}_slope", np.float32(2 / math.sqrt(math.pi)))
        steep = graph.make_node("Mul", [node.input[0], slope.output[0]])
        _one_minus(graph, node, name, graph.make_node("Tanh", [steep.output[0]]))

    return {"Erfc": erfc}


def _one_minus(graph: Any, node: Any, name: str, part: Any) -> None:
    """Put 1 − the part in the place of the operator."""
    one = graph.make_const(f"{name}_one", np.float32(1))
    graph.remove_node(name)
    graph.make_node("Sub", [one.output[0], part.output[0]], name=name, outputs=node.output)
