"""Shipped networks without names: two faults are both found, and a file of lower precision is called that."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any

import onnx
import pytest
import torch
from onnxruntime.quantization import quantize_dynamic

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest
from tests.place.shipped import ship

NET = dedent("""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(6, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, activation="gelu")
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            hidden = self.encoder(self.embed((x - 0.4) / 0.2))
            return torch.softmax(self.head(hidden.mean(1)), -1)

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.spread = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x):
            return {"mean": self.mean(x), "spread": self.spread(x).exp()}

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.middle, self.head = nn.Linear(6, 400), nn.Linear(400, 300), nn.Linear(300, 500)

        def forward(self, x):
            return self.head(torch.tanh(self.middle(torch.tanh(self.enter(x)))))

    def load():
        torch.manual_seed(0)
        return Net().eval()

    def wide():
        torch.manual_seed(0)
        return Wide().eval()

    def heads():
        torch.manual_seed(0)
        return Heads().eval()
""")


def export(net: torch.nn.Module, path: Path) -> None:
    """With the old exporter, whose graphs look different from those that the gate makes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _export(net, path)


def _export(net: torch.nn.Module, path: Path) -> None:
    torch.onnx.export(
        net, (torch.randn(2, 5, 6),), str(path), input_names=["x"], output_names=["y"], dynamo=False,
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )  # fmt: skip


def swap_heads(net: torch.nn.Module, path: Path) -> None:
    """Two outputs, under each other's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, (torch.randn(2, 6),), str(path), input_names=["x"], output_names=["spread", "mean"], dynamo=False,
            dynamic_axes={name: {0: "batch"} for name in ("x", "mean", "spread")},
        )  # fmt: skip


def ship_wide(net: Any, folder: Path) -> list[str]:
    """Files of a network in which one unit of a wide layer has other weights; gives their entries."""
    entries = []
    for name, unit in (("enter", 17), ("head", 333)):
        wrong = copy.deepcopy(net)
        with torch.no_grad():
            getattr(wrong, name).weight[unit] *= -2
        path = folder / f"wide_{name}.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                wrong, (torch.randn(2, 6),), str(path), input_names=["x"], output_names=["y"], dynamo=False,
                dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
            )  # fmt: skip
        ship(onnx.load(path), path)
        entries.append(
            f"  - {{id: wide_{name}, source: 'net.py:wide', onnx: {path.name}, batches: [1, 16], "
            "inputs: {x: {dtype: float32, shape: [batch, 6]}}}"
        )
    return entries


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, ModelResult]:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "net.py").write_text(NET)
    names: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), names)
    right = names["load"]()
    twice = copy.deepcopy(right)
    with torch.no_grad():
        twice.encoder.layers[0].norm2.eps = 0.3
        twice.encoder.layers[1].linear2.weight[3] *= 3
    export(right, folder / "right.onnx")
    export(twice, folder / "twice.onnx")
    quantize_dynamic(folder / "right.onnx", folder / "int8.onnx")
    for name in ("right", "twice", "int8"):
        ship(onnx.load(folder / f"{name}.onnx"), folder / f"{name}.onnx")
    entries = [
        f"  - {{id: {name}, source: 'net.py:load', onnx: {name}.onnx, batches: [4], "
        "inputs: {x: {dtype: float32, shape: [batch, 5, 6]}}}"
        for name in ("right", "twice", "int8")
    ]
    swap_heads(names["heads"](), folder / "heads.onnx")
    entries.append(
        "  - {id: heads, source: 'net.py:heads', onnx: heads.onnx, batches: [4], "
        "inputs: {x: {dtype: float32, shape: [batch, 6]}}}"
    )
    entries += ship_wide(names["wide"](), folder)
    text = "version: 1\ndefaults: {framework: torch}\nmodels:\n" + "\n".join(entries)
    return {model.id: model for model in run_manifest(folder, text).result.models}


def test_a_right_file_is_not_looked_into(found):
    """Nothing runs for what passes."""
    assert found["right"].verdict is Status.PASSED, found["right"].advice
    assert found["right"].place is None


def test_both_faults_are_named_and_mended(found):
    """With the module of the source that each belongs to, though the file has no names."""
    model = found["twice"]
    assert model.cause is Cause.WEIGHTS, model.advice
    first, second = model.place.faults
    assert (first.cause, [node.op for node in first.nodes]) == (Cause.OPERATOR, ["LayerNormalization"])
    assert first.module == "encoder.layers.0.norm2"
    assert "`epsilon`" in first.what and "is 0.3, in the source it is 1e-05" in first.what
    assert (second.cause, [node.op for node in second.nodes]) == (Cause.WEIGHTS, ["MatMul"])
    assert second.module == "encoder.layers.1.linear2"
    assert "in 32 of 512 numbers" in second.what
    assert model.mended.passes


def test_lower_precision_is_seen_in_the_file(found):
    """And every part of it is right but for that."""
    model = found["int8"]
    assert model.cause is Cause.QUANTISED, model.advice
    assert "int8" in model.advice and "Ship the file in float32" in model.advice


def test_swapped_outputs_get_their_names_back(found):
    """The file that is kept has them exchanged."""
    model = found["heads"]
    assert model.cause is Cause.OUTPUT_ORDER, model.advice
    assert "he answers of `mean` are under `spread`" in model.advice
    assert model.mended.passes and model.mended.file == "repro/heads/mended.onnx"
    assert model.mended.changes == ("rename the output `mean` to `spread`, `spread` to `mean`",)


@pytest.mark.parametrize(
    ("name", "differs"), [("enter", "in 6 of 2,400 numbers"), ("head", "in 300 of 150,000 numbers")]
)
def test_one_unit_of_a_wide_layer_is_a_fault(found, name, differs):
    """Less than a hundredth of the layer's values are wrong, always the same one: no rows next to a threshold."""
    model = found[f"wide_{name}"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.WEIGHTS), model.advice
    (fault,) = model.place.faults
    assert fault.module == name
    assert differs in fault.what
    assert model.mended.passes
