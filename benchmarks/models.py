"""The twelve models of the benchmark: factories that both the gate and the scripts call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def _torch(build: Callable[[Any], Any]) -> Any:
    import torch

    torch.manual_seed(0)
    return build(torch.nn).eval()


def mlp() -> Any:
    return _torch(
        lambda nn: nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    )


def norms() -> Any:
    return _torch(
        lambda nn: nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 16), nn.Softmax(-1))
    )


def deep() -> Any:
    return _torch(lambda nn: nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(16, 16), nn.Tanh())]))


def wide() -> Any:
    return _torch(lambda nn: nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 4)))


def gated() -> Any:
    return _torch(lambda nn: nn.Sequential(nn.Linear(16, 64), nn.GLU(), nn.Linear(32, 4), nn.Sigmoid()))


def convolution() -> Any:
    return _torch(
        lambda nn: nn.Sequential(
            nn.Unflatten(1, (1, 16)), nn.Conv1d(1, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(), nn.Linear(112, 4)
        )
    )


def _rows() -> Any:
    from sklearn.datasets import make_classification

    return make_classification(n_samples=300, n_features=16, n_informative=8, n_classes=3, random_state=0)


def logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=500).fit(*_rows())


def pipeline() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression()).fit(*_rows())


def boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(*_rows())


def ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge().fit(*_rows())


def write_onnx(path: Path, seed: int) -> None:
    """Write a two-layer network, and recorded outputs for it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    first, second = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (32, 4)))
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", w]) for n, w in (("x", 16), ("y", 4))]
    stored = [numpy_helper.from_array(array, name) for name, array in (("first", first), ("second", second))]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    x = rng.standard_normal((32, 16)).astype(np.float32)
    np.savez(path.with_suffix(".npz"), x=x, y=np.maximum(x @ first, 0) @ second)


TORCH = ("mlp", "norms", "deep", "wide", "gated", "convolution")
SKLEARN = ("logistic", "pipeline", "boosting", "ridge")
ONNX = ("recorded_a", "recorded_b")
BATCHES = (1, 2, 7, 32)
