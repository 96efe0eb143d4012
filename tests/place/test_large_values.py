"""Values that are too large to be kept: fewer rows of the feed are looked at, and the smallest values first."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from onnx_gate.vocabulary import Cause
from onnx_gate.worker.place.bench import smallest_first
from tests.conftest import run_manifest
from tests.place.shipped import ship

NET = dedent("""
    import torch
    from torch import nn

    def net():
        torch.manual_seed(0)
        layers = []
        for width in (3, 24, 24, 24):
            layers += [nn.Conv2d(width, 24, 1), nn.Tanh()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 3)).eval()
""")


def test_a_fault_among_large_values_has_its_place(tmp_path: Path) -> None:
    """Each value of the whole batch has 19 MiB, more than is kept of one value; of a few rows it fits."""
    (tmp_path / "net.py").write_text(NET)
    spec = importlib.util.spec_from_file_location("net_of_large_values", tmp_path / "net.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net, path = module.net(), tmp_path / "net.onnx"
    with torch.no_grad():
        net[4].weight.mul_(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names: dict[str, Any] = {"input_names": ["x"], "output_names": ["output"]}
        axes = {"x": {0: "batch"}, "output": {0: "batch"}}
        torch.onnx.export(net, (torch.zeros(2, 3, 160, 160),), str(path), dynamo=False, dynamic_axes=axes, **names)
    ship(onnx.load(path), path)
    text = (
        "version: 1\nmodels:\n  - {id: large, framework: torch, source: 'net.py:net', onnx: net.onnx, "
        "batches: [8], inputs: {x: {dtype: float32, shape: [batch, 3, 160, 160]}}}"
    )
    (model,) = run_manifest(tmp_path, text).result.models
    assert model.cause is Cause.WEIGHTS, (model.error, model.advice)
    assert model.place is not None
    (fault,) = model.place.faults
    assert (fault.module, [node.op for node in fault.nodes]) == ("4", ["Conv"])


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ({"a": 4, "b": 9, "c": 4}, ["a", "b", "c"]),
        ({"a": 9, "b": 5, "c": 4, "d": 9}, ["a", "b", "c"]),
        ({"a": 30, "b": 5}, ["b"]),
    ],
)
def test_the_smallest_values_are_kept_in_graph_order(sizes: dict[str, int], kept: list[str]) -> None:
    """Both graphs keep the same ones so, whatever their nodes are called."""
    assert smallest_first(sizes, largest=10, total=20) == kept
    assert np.sum([sizes[name] for name in kept]) <= 20
