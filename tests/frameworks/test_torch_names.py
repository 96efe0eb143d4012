"""Buffers and parameters with the name of an operator: in the file, each value keeps a name of its own."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.models

NETS = """
import torch
from torch import nn


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1))
        self.register_buffer("relu", torch.tensor([0.2, 0.3, 0.4]).view(1, 3, 1, 1))
        self.linear = nn.Parameter(torch.randn(3, 4))
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.conv((x - self.mean) / self.relu)).mean((2, 3))
        return nn.functional.linear(x, self.linear.T)


class Within(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.randn(1, 3, 1, 1))
        self.mean_1 = nn.Parameter(torch.randn(4))
        self.inner = Normed()

    def forward(self, x):
        return self.inner(x * self.x) + self.mean_1


def normed():
    return Normed().eval()


def within():
    torch.manual_seed(1)
    return Within().eval()
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two networks, exported by both exporters."""
    folder: Path = tmp_path_factory.mktemp("names")
    (folder / "nets.py").write_text(NETS)
    keys = "framework: torch, inputs: {x: {dtype: float32, shape: [batch, 3, 6, 6]}}, batches: [1, 3]"
    entries = [
        f"  - {{id: {net}-{exporter}, source: 'nets.py:{net}', {keys}, convert: {{exporter: {exporter}}}}}"
        for net in ("normed", "within")
        for exporter in ("dynamo", "torchscript")
    ]
    return run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries) + "\n")


@pytest.mark.parametrize("name", ["normed-dynamo", "within-dynamo", "normed-torchscript", "within-torchscript"])
def test_a_name_is_that_of_one_value(models: Run, name: str) -> None:
    """ONNX Runtime loads the file, and its answers are those of the source."""
    assert models[name].verdict is Status.PASSED, models[name].advice or models[name].error


def test_the_buffer_keeps_its_name(models: Run) -> None:
    """By it, weights are found again."""
    graph = onnx.load(str(models.output / "models" / "normed-dynamo.onnx")).graph
    assert {"mean", "relu"} <= {tensor.name for tensor in graph.initializer}
    assert not {"mean", "relu"} & {name for node in graph.node for name in node.output}
