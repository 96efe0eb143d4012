"""The models of every run, and their right verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper

from onnx_gate.vocabulary import Status
from tests.onnx_models import doubler, save, value

RIGHT = {
    "passes": Status.PASSED,
    "differs": Status.DIVERGED,
    "recorded": Status.PASSED,
    "wrong": Status.DIVERGED,
    "broken": Status.ERROR,
}
HURRIED = "hurried.yml"
"""The manifest for models that will hang; it has a short timeout."""

_MODELS = """\
import numpy as np
from sklearn.linear_model import LinearRegression


def line():
    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.array([1.0, 2.0, 3.0]), 0.5, 3
    return model


def broken():
    raise ValueError("this model can't be loaded")
"""
_MANIFEST = """\
version: 1
defaults: {{timeout: {timeout}, batches: [1, 4]}}
models:
  - {{id: passes, source: 'models.py:line', {sklearn}}}
  - {{id: differs, source: 'models.py:line', onnx: shipped.onnx, {sklearn}}}
  - {{id: recorded, source: double.onnx, data: right.npz}}
  - {{id: wrong, source: double.onnx, data: wrong.npz}}
  - {{id: broken, source: 'models.py:broken', {sklearn}}}
"""


def write_workload(folder: Path) -> Path:
    """Write manifests, models and data."""
    folder.mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "models.py").write_text(_MODELS)
    sklearn = "framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 3]}}"
    for name, timeout in (("onnx-gate.yml", 60), (HURRIED, 4)):
        (folder / name).write_text(_MANIFEST.format(timeout=timeout, sklearn=sklearn))
    doubler(folder / "double.onnx")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(folder / "right.npz", x=x, y=2 * x)
    np.savez(folder / "wrong.npz", x=x, y=2 * x + 0.01)
    _ship(folder / "shipped.onnx")
    return folder


def _ship(path: Path) -> None:
    """Write a conversion that is slightly wrong."""
    nodes = [helper.make_node("MatMul", ["X", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["variable"])]
    stored = {"w": np.array([[1], [2], [3.01]], np.float32), "b": np.array([0.5], np.float32)}
    save(path, nodes, [value("X")], [value("variable", shape=["batch", 1])], stored)
