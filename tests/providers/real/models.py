"""Small models whose placement and answers differ by provider, with recorded answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper

from tests.onnx_models import save, value

_RANDOM = np.random.default_rng(7)


def _weights(*shape: int) -> np.ndarray:
    return (_RANDOM.standard_normal(shape) * 0.3).astype(np.float32)


def net(path: Path) -> None:
    """Two dense layers: every provider runs all of it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="dense"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "v"], ["y"], name="head"),
    ]
    stored = {"w": _weights(8, 16), "v": _weights(16, 4)}
    save(path, nodes, [value("x", shape=["batch", 8])], [value("y", shape=["batch", 4])], stored)


def conv(path: Path) -> None:
    """A convolution, whose layout WebGPU changes: its assignment record of 1.27 names the transposes only."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("GlobalAveragePool", ["b"], ["y"], name="pool"),
    ]
    shapes = [value("x", shape=["batch", 3, 8, 8])], [value("y", shape=["batch", 4, 1, 1])]
    save(path, nodes, *shapes, {"w": _weights(4, 3, 3, 3)})


def partly(path: Path) -> None:
    """Unique is on the CPU wherever the rest is; it needs rows that differ."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="dense"),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh"),
        helper.make_node("Unique", ["b"], ["c"], name="unique", axis=0),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    save(path, nodes, [value("x", shape=["batch", 8])], [value("y", shape=["batch", 4])], {"w": _weights(8, 4)})


def spectrum(path: Path) -> None:
    """A DFT alone: neither WebGPU nor OpenVINO has it."""
    node = helper.make_node("DFT", ["x"], ["y"], name="dft")
    save(path, [node], [value("x", shape=["batch", 8, 1])], [value("y", shape=["batch", 8, 2])])


def layer_norm(path: Path) -> None:
    """With data around 1,000, WebGPU's variance is far off."""
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], name="norm", axis=-1)
    shapes = [value("x", shape=["batch", 64])], [value("y", shape=["batch", 64])]
    save(path, [node], *shapes, {"s": np.ones(64, np.float32)})
    x = (1000 + np.random.default_rng(0).standard_normal((4, 64))).astype(np.float32)
    wide = x.astype(np.float64)
    y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.savez(path.with_suffix(".npz"), x=x, y=y.astype(np.float32))


def relu_of_nan(path: Path) -> None:
    """ONNX's Relu keeps NaN; OpenVINO's answers 0."""
    save(path, [helper.make_node("Relu", ["x"], ["y"], name="relu")], [value("x")], [value("y")])
    x = np.array([[1, np.nan, -1], [2, -3, 4]], np.float32)
    np.savez(path.with_suffix(".npz"), x=x, y=np.where(np.isnan(x), x, np.maximum(x, 0)))


def norm_within(path: Path) -> None:
    """A LayerNormalization in the middle of a network, over values around 1,000; WebGPU is right before and after."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="dense"),
        helper.make_node("Tanh", ["a"], ["t"], name="tanh"),
        helper.make_node("Add", ["t", "c"], ["b"], name="prices"),
        helper.make_node("LayerNormalization", ["b", "s"], ["n"], name="norm", axis=-1),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "v"], ["y"], name="head"),
    ]
    stored = {"w": _weights(8, 64), "c": np.float32(1000), "s": np.ones(64, np.float32), "v": _weights(64, 4)}
    save(path, nodes, [value("x", shape=["batch", 8])], [value("y", shape=["batch", 4])], stored)
