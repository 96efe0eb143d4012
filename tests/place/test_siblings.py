"""A source with two networks of the same form, of which the exporter takes the wrong one."""

from __future__ import annotations

from textwrap import dedent

import pytest

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest

NET = dedent("""
    import copy
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(20, 8)
            parts = (nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.SiLU())
            self.layers = nn.Sequential(*parts)
            self.head = nn.Linear(8, 3)

        def forward(self, tokens):
            return self.head(self.layers(self.table(tokens)).mean(1))

    class Averaged(nn.Module):
        def __init__(self, wrong):
            super().__init__()
            torch.manual_seed(0)
            self.encoder, self.wrong = Encoder(), wrong
            self.average = copy.deepcopy(self.encoder)
            with torch.no_grad():
                # Training leaves no two tensors equal; exporters join those that are.
                for value in self.parameters():
                    value += 0.2 * torch.randn_like(value)

        def forward(self, tokens):
            if torch.onnx.is_in_onnx_export() and self.wrong:
                return self.encoder(tokens)
            return self.average(tokens)

    def right():
        return Averaged(wrong=False).eval()

    def wrong():
        return Averaged(wrong=True).eval()
""")
MANIFEST = """
version: 1
defaults:
  framework: torch
  inputs: {tokens: {dtype: int64, shape: [batch, 6], range: [0, 19]}}
models:
  - {id: right, source: "net.py:right"}
  - {id: dynamo, source: "net.py:wrong"}
  - {id: torchscript, source: "net.py:wrong", convert: {exporter: torchscript}}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    folder = tmp_path_factory.mktemp("siblings")
    (folder / "net.py").write_text(NET)
    return {model.id: model for model in run_manifest(folder, MANIFEST).result.models}


def test_the_right_network_passes(models: dict[str, ModelResult]) -> None:
    """The other one is there, and does no harm."""
    assert models["right"].verdict is Status.PASSED


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_the_weights_of_the_other_network_are_named(models: dict[str, ModelResult], exporter: str) -> None:
    """All of them at once: each alone changes the answers a little."""
    found = models[exporter]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.WEIGHTS), found.advice
    assert found.place is not None
    assert "`average." in found.place.faults[0].what
