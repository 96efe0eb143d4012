"""Layers with a BatchNorm computed into them: their weights in the file are no weights of the source."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from onnx_gate.frameworks.torch.inside.folded import folds
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest

NET = dedent("""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            self.middle = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            self.head = nn.Linear(8, 4)
            self.older = 0

        def forward(self, x):
            x = self.stem(x)
            if torch.onnx.is_in_onnx_export() and self.older:
                x = self.middle[2](self.middle[1](self.before(x)))
            else:
                x = self.middle(x)
            return self.head(x.mean((2, 3)))

    def trained(older=0):
        torch.manual_seed(0)
        net = Net()
        for _ in range(5):
            net(torch.randn(16, 3, 8, 8) * 2 + 1)
        net.before = nn.Conv2d(8, 8, 3, padding=1)
        net.older = older
        return net.eval()

    def stale():
        return trained(older=1)
""")


def warm(module: nn.Module, *shape: int) -> nn.Module:
    """With running statistics of its own."""
    for _ in range(3):
        module(torch.randn(*shape) * 3 + 1)
    return module.eval()


@pytest.mark.parametrize(
    ("layer", "norm", "shape"),
    [
        (nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), (4, 3, 6, 6)),
        (nn.Conv2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6), (4, 4, 6, 6)),
        (nn.Conv1d(3, 5, 2), nn.BatchNorm1d(5), (4, 3, 6)),
        (nn.ConvTranspose2d(3, 5, 3), nn.BatchNorm2d(5, affine=False), (4, 3, 6, 6)),
        (nn.Linear(3, 5), nn.BatchNorm1d(5), (8, 3)),
    ],
)
def test_the_folded_weights_give_the_same_answers(layer: Any, norm: Any, shape: tuple[int, ...]) -> None:
    """The layer alone, with them, answers as both did before."""
    torch.manual_seed(0)
    net = warm(nn.Sequential(layer, norm), *shape)
    (found,) = folds(SimpleNamespace(module=net))  # type: ignore[arg-type]
    x = torch.randn(*shape)
    true = net(x)
    layer.weight.data = torch.from_numpy(found["0.weight"].copy())
    layer.bias = nn.Parameter(torch.from_numpy(found["0.bias"].copy()))
    torch.testing.assert_close(layer(x), true, rtol=1e-4, atol=1e-5)


def test_a_norm_may_follow_any_of_the_last_layers_with_as_many_channels() -> None:
    """Which one comes before it is decided in forward(); layers of another width are not among them."""
    net = nn.Sequential(*(nn.Conv1d(4, 4, 1) for _ in range(5)), nn.Conv1d(4, 3, 1), nn.BatchNorm1d(4)).eval()
    found = folds(SimpleNamespace(module=net))  # type: ignore[arg-type]
    assert [sorted(each) for each in found] == [[f"{at}.bias", f"{at}.weight"] for at in (2, 3, 4)]


def test_a_norm_without_statistics_is_not_folded() -> None:
    """It normalises each batch by itself."""
    net = nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4, track_running_stats=False)).eval()
    assert folds(SimpleNamespace(module=net)) == []  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_exporter_stores_the_folded_weights(tmp_path: Path) -> None:
    """This is what makes them worth trying."""
    torch.manual_seed(0)
    net = warm(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)), 4, 3, 6, 6)
    torch.onnx.export(net, (torch.randn(1, 3, 6, 6),), str(tmp_path / "m.onnx"), dynamo=False)
    stored = [numpy_helper.to_array(each) for each in onnx.load(tmp_path / "m.onnx").graph.initializer]
    (found,) = folds(SimpleNamespace(module=net))  # type: ignore[arg-type]
    for value in found.values():
        assert any(each.shape == value.shape and np.allclose(each, value, atol=1e-6) for each in stored)


def test_stale_weights_below_a_folded_norm_are_weights(tmp_path: Path) -> None:
    """The module that the weights belong to is named, although the file has none of its name."""
    (tmp_path / "net.py").write_text(NET)
    result = run_manifest(
        tmp_path,
        dedent("""
            version: 1
            defaults:
              inputs: {x: {dtype: float32, shape: [batch, 3, 8, 8]}}
              convert: {exporter: torchscript}
            models:
              - {id: right, source: "net.py:trained", framework: torch}
              - {id: stale, source: "net.py:stale", framework: torch}
        """),
    ).result
    models = {model.id: model for model in result.models}
    assert models["right"].verdict is Status.PASSED
    found = models["stale"]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.WEIGHTS), found.advice
    assert found.place is not None
    (fault,) = found.place.faults
    assert fault.module == "middle.0", fault
