"""Networks of more kinds with a branch for exporters: what the exporter writes in another form than the source."""

from __future__ import annotations

import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from onnx_gate.frameworks.torch.inside.gates import stored_as_gates
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest

NET = dedent("""
    import copy

    import torch
    from torch import nn

    class Branch(nn.Module):
        def __init__(self, usual, change):
            super().__init__()
            self.usual, self.exported = usual, copy.deepcopy(usual)
            with torch.no_grad():
                change(self)

        def forward(self, x):
            part = self.exported if torch.onnx.is_in_onnx_export() else self.usual
            return part(x)

    class Recurrent(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.rnn = kind(6, 6, num_layers=2, bidirectional=kind is nn.GRU, batch_first=True)

        def forward(self, x):
            return self.rnn(x)[0]

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
            self.wide, self.with_wide = nn.Linear(6, 2), True

        def forward(self, x):
            return self.deep(x) + self.wide(x) if self.with_wide else self.deep(x)

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.both, self.out, self.heads = nn.Linear(6, 12), nn.Linear(6, 6), 2

        def forward(self, x):
            rows, length, width = x.shape
            size = width // self.heads
            query, key = self.both(x).view(rows, length, 2, self.heads, size).unbind(2)
            return self.out((query * key / torch.sqrt(torch.tensor(float(size)))).reshape(rows, length, width))

    def made(net, season=0.2):
        torch.manual_seed(0)
        with torch.no_grad():
            for value in net.parameters():
                value.copy_(season * torch.randn(value.shape))
        return net.eval()

    def other_gates(branch):
        weights = branch.exported.rnn.weight_hh_l1
        weights.copy_(torch.cat([weights[6:12], weights[:6], weights[12:]]))

    def other_weights(branch):
        branch.exported.rnn.weight_ih_l0.mul_(1.5)

    def stale(branch):
        branch.exported.out.weight.mul_(-1)

    def tanh(branch):
        branch.exported[1] = nn.GELU(approximate="tanh")

    def without_wide(branch):
        branch.exported.with_wide = False

    def lstm(): return Branch(made(Recurrent(nn.LSTM)), other_gates)
    def gru(): return Branch(made(Recurrent(nn.GRU)), other_weights)
    def gelu():
        layers = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 16), nn.Linear(16, 3))
        return Branch(made(layers, 0.4), tanh)
    def wide(): return Branch(made(Wide()), without_wide)
    def heads(): return Branch(made(Heads()), stale)
    def right(): return Branch(made(Recurrent(nn.LSTM)), lambda branch: None)
""")
MODELS = {
    "lstm": (Cause.WEIGHTS, "usual.rnn.weight_hh_l1"),
    "gru": (Cause.WEIGHTS, "usual.rnn.weight_ih_l0"),
    "gelu": (Cause.OPERATOR, "usual.1"),
    "wide": (Cause.OPERATOR, "usual"),
    "heads": (Cause.WEIGHTS, "usual.out.weight"),
    "right": (None, ""),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("converted")
    (folder / "net.py").write_text(NET)
    entries = [
        f"  - {{id: {name}, framework: torch, source: 'net.py:{name}', batches: [1, 9], "
        "convert: {exporter: torchscript}, inputs: {x: {dtype: float32, shape: [batch, 5, 6]}}}"
        for name in MODELS
    ]
    return {
        model.id: model for model in run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries)).result.models
    }


def test_the_right_network_passes(found: dict[str, ModelResult]) -> None:
    """The look-alike."""
    assert found["right"].verdict is Status.PASSED, found["right"].advice


@pytest.mark.parametrize("name", [name for name, (cause, _) in MODELS.items() if cause])
def test_the_cause_is_named(found: dict[str, ModelResult], name: str) -> None:
    """Gates that ONNX orders otherwise; an error that hardly arrives; a last step; a size that a trace froze."""
    model, (cause, words) = found[name], MODELS[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, cause), (model.error, model.advice)
    assert words in model.advice


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_the_gates_are_those_of_the_exporter(tmp_path: Path, kind: Any, bias: bool) -> None:
    """Each tensor of the recurrent nodes is one of ours, for both directions and both levels."""
    layer = kind(3, 4, num_layers=2, bidirectional=True, bias=bias, batch_first=True).eval()
    path = str(tmp_path / "net.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(layer, (torch.zeros(2, 5, 3),), path, dynamo=False)
    model = onnx.load(path)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == kind.__name__]
    levels = stored_as_gates(type("Source", (), {"module": layer})())
    assert len(nodes) == len(levels) == 2
    for node, level in zip(nodes, levels, strict=True):
        tensors = [stored[name] for name in node.input[1 : 1 + len(level)]]
        assert all(np.array_equal(*both) for both in zip(tensors, level.values(), strict=True))
