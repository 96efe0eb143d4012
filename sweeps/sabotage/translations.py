"""Translations of torch's operators as people write them themselves: right ones, and ones that are a little off."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from onnxscript import opset18 as op

Table = Mapping[Any, Callable[..., Any]]
aten = torch.ops.aten


def gelu(self: Any, approximate: str = "none") -> Any:
    """By the error function."""
    inner = op.Erf(op.Mul(self, op.CastLike(1 / math.sqrt(2), self)))
    return op.Mul(op.Mul(self, op.CastLike(0.5, self)), op.Add(inner, op.CastLike(1.0, self)))


def quick_gelu(self: Any, approximate: str = "none") -> Any:
    """By a sigmoid: another function."""
    return op.Mul(self, op.Sigmoid(op.Mul(self, op.CastLike(1.702, self))))


def leaky_relu(self: Any, negative_slope: float = 0.01) -> Any:
    """With the slope that is asked for."""
    below = op.Mul(self, op.CastLike(float(negative_slope), self))
    return op.Where(op.Greater(self, op.CastLike(0.0, self)), self, below)


def default_leaky_relu(self: Any, negative_slope: float = 0.01) -> Any:
    """With ONNX's default."""
    return op.LeakyRelu(self)


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Any:
    """Over the last axis."""
    return op.LayerNormalization(input, weight, bias, axis=-1, epsilon=eps)


def loose_layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Any:
    """With an epsilon of its own."""
    return op.LayerNormalization(input, weight, bias, axis=-1, epsilon=1e-2)


def elu(self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """The exponential below 0."""
    below = op.Sub(op.Exp(op.Min(self, op.CastLike(0.0, self))), op.CastLike(1.0, self))
    return op.Where(op.Greater(self, op.CastLike(0.0, self)), self, below)


def self_normalising(self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """SELU in the place of ELU."""
    return op.Selu(self)


def softmax(self: Any, dim: int, dtype: int = -1) -> Any:
    """Over the axis that is asked for."""
    powers = op.Exp(op.Sub(self, op.ReduceMax(self, op.Constant(value_ints=[dim]), keepdims=1)))
    return op.Div(powers, op.ReduceSum(powers, op.Constant(value_ints=[dim]), keepdims=1))


def first_softmax(self: Any, dim: int, dtype: int = -1) -> Any:
    """Over the second axis, whatever is asked for."""
    return op.Softmax(self, axis=1)


OVERLOADS: Mapping[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "gelu": (aten.gelu.default, gelu, quick_gelu),
    "leaky_relu": (aten.leaky_relu.default, leaky_relu, default_leaky_relu),
    "layer_norm": (aten.layer_norm.default, layer_norm, loose_layer_norm),
    "elu": (aten.elu.default, elu, self_normalising),
    "softmax": (aten.softmax.int, softmax, first_softmax),
}
"""By name: the operator, its right translation, and a wrong one."""


def right(name: str) -> Table:
    """For `register`."""
    return {OVERLOADS[name][0]: OVERLOADS[name][1]}


def wrong(name: str) -> Table:
    """For `register`."""
    return {OVERLOADS[name][0]: OVERLOADS[name][2]}
