"""Shipped attention with another number of heads: the same weights and the same operators, with other shapes."""

from __future__ import annotations

import copy
import warnings
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.place.exchanges.exchange import store
from tests.conftest import run_manifest
from tests.place.shipped import ship

NET = dedent("""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.all(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            seen = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
            return self.out(seen.transpose(1, 2).reshape(batch, length, width))

    class Net(nn.Module):
        def __init__(self, heads=4):
            super().__init__()
            self.enter = nn.Linear(5, 24)
            self.attention = nn.ModuleList([Attention(24, heads), Attention(24, 4)])
            self.norms = nn.ModuleList([nn.LayerNorm(24), nn.LayerNorm(24)])
            self.head = nn.Linear(24, 3)

        def forward(self, x):
            x = self.enter(x)
            for norm, attention in zip(self.norms, self.attention):
                x = x + attention(norm(x))
            return self.head(x.mean(1))

    def build():
        torch.manual_seed(0)
        return Net().eval()
""")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ModelResult:
    folder = tmp_path_factory.mktemp("heads")
    (folder / "net.py").write_text(NET)
    names: dict[str, Any] = {}
    exec(NET, names)
    net = names["build"]()
    other = copy.deepcopy(net)
    other.attention[0].heads = 2
    rows = torch.export.Dim("batch", min=1, max=64)
    path = folder / "full.onnx"
    example = (torch.randn(3, 6, 5),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            other, example, path, dynamo=True, verbose=False, dynamic_shapes=({0: rows},), input_names=["x"]
        )
    ship(onnx.load(path), folder / "net.onnx")
    text = "version: 1\nmodels:\n  - {id: net, source: 'net.py:build', framework: torch, onnx: net.onnx, "
    text += "inputs: {x: {dtype: float32, shape: [batch, 6, 5]}}}"
    (model,) = run_manifest(folder, text).result.models
    return model


def test_the_part_is_named_with_both_shapes(found: ModelResult) -> None:
    """The operators are the same; so is each weight."""
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.OPERATOR), found.advice
    assert found.place is not None
    assert {fault.module for fault in found.place.faults} == {"attention.0"}
    first = found.place.faults[0].what
    assert "into the shape [32, 6, 3, 2, 12], the source into [32, 6, 3, 4, 6]" in first, first


def test_it_is_mended(found: ModelResult) -> None:
    """With the nodes of the source."""
    assert found.mended is not None and found.mended.passes


def test_a_stored_number_keeps_having_no_axes() -> None:
    """A Gather by a number drops an axis; by a list with one number it keeps it."""
    draft = SimpleNamespace(model=onnx.ModelProto(), weights={})
    store(draft, "index", np.array(1))  # type: ignore[arg-type]
    (tensor,) = draft.model.graph.initializer
    assert list(tensor.dims) == []
