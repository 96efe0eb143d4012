"""Custom translations of torch's operators as people write them: right ones, and slightly wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from onnxscript import opset18

Table = Mapping[Any, Callable[..., Any]]
aten = torch.ops.aten
op: Any = opset18


def gelu(self: Any, approximate: str = "none") -> Any:
    """GELU with the error function."""
    inner = op.Erf(op.Mul(self, op.CastLike(1 / math.sqrt(2), self)))
    return op.Mul(op.Mul(self, op.CastLike(0.5, self)), op.Add(inner, op.CastLike(1.0, self)))


def quick_gelu(self: Any, approximate: str = "none") -> Any:
    """GELU approximated with a sigmoid, which is another function."""
    return op.Mul(self, op.Sigmoid(op.Mul(self, op.CastLike(1.702, self))))


def leaky_relu(self: Any, negative_slope: float = 0.01) -> Any:
    """LeakyRelu with the given slope."""
    below = op.Mul(self, op.CastLike(float(negative_slope), self))
    return op.Where(op.Greater(self, op.CastLike(0.0, self)), self, below)


def default_leaky_relu(self: Any, negative_slope: float = 0.01) -> Any:
    """LeakyRelu with ONNX's default slope."""
    return op.LeakyRelu(self)


OVERLOADS: Mapping[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "gelu": (aten.gelu.default, gelu, quick_gelu),
    "leaky_relu": (aten.leaky_relu.default, leaky_relu, default_leaky_relu),
}
"""Name → the operator, its right translation, and a wrong one."""


def right(name: str) -> Table:
    """The right translation, for `register`."""
    return {OVERLOADS[name][0]: OVERLOADS[name][1]}


def wrong(name: str) -> Table:
    """The wrong translation, for `register`."""
    return {OVERLOADS[name][0]: OVERLOADS[name][2]}
