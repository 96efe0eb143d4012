"""Real models of several frameworks, and one whose weight is wrong."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import torch
from onnx import numpy_helper
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

NETS = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.Tanh()
        self.body = torch.nn.Sequential(*layers)
        self.head, self.scale = torch.nn.Linear(32, 3), 100.0

    def forward(self, x):
        hidden = self.body(x)
        return torch.softmax(self.head(hidden), -1), self.scale * hidden.sum(-1, keepdim=True)


def net():
    torch.manual_seed(0)
    return Net().eval()
"""
MANIFEST = """\
# Tolerances of this file come from `onnx-gate calibrate`.
version: 1
defaults:
  batches: [1, 7]   # few, and fast
  outputs: {label: exact}
models:
  - id: scores      # float64 at heart
    source: scores.joblib
    inputs: {X: {dtype: float32, shape: [batch, 30]}}
    data: cancer.npz
    variants: [fp16: {}]

  - id: trees
    source: trees.joblib
    inputs: {X: {dtype: float32, shape: [batch, 10]}}
  - &net
    id: net
    source: "nets.py:net"
    framework: torch
    inputs: &inputs {x: {dtype: float32, shape: [batch, 10]}}
    output_names: [p, total]
    outputs:
      total: {rtol: 0.5, atol: 1, max_abs: 10}  # guessed

  # What the service loads.
  - {id: shipped, source: "nets.py:net", framework: torch, onnx: net.onnx, inputs: *inputs, providers: [cpu, cuda]}
  - {id: alone, source: net.onnx}
"""
BOOSTED = """\
  - id: boosted
    source: boosted.json
    framework: xgboost
    inputs: *inputs
"""
WRONG = """\
  - id: wrong
    source: "nets.py:net"
    framework: torch
    onnx: wrong.onnx
    inputs: *inputs
"""


def make_project(folder: Path) -> None:
    """Sources, shipped files and data."""
    cancer, diabetes = load_breast_cancer(), load_diabetes()
    np.savez(folder / "cancer.npz", X=cancer.data[:100].astype(np.float32))
    scores = make_pipeline(StandardScaler(), LogisticRegression()).fit(cancer.data, cancer.target)
    trees = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(diabetes.data, diabetes.target)
    joblib.dump(scores, folder / "scores.joblib")
    joblib.dump(trees, folder / "trees.joblib")
    (folder / "nets.py").write_text(NETS)
    exported = export_net()
    onnx.save(exported, folder / "net.onnx")
    onnx.save(with_wrong_weight(exported), folder / "wrong.onnx")


def export_net() -> onnx.ModelProto:
    """As somebody ships it."""
    scope: dict[str, Any] = {}
    exec(NETS, scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            scope["net"](),
            (torch.zeros(2, 10),),
            input_names=["x"],
            output_names=["p", "total"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def with_wrong_weight(model: onnx.ModelProto) -> onnx.ModelProto:
    """One number of a layer, a hundredth off."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensor = next(tensor for tensor in copy.graph.initializer if sorted(tensor.dims) == [32, 64])
    values = numpy_helper.to_array(tensor).copy()
    values[3, 5] += 0.01
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return copy
