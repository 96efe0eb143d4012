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
from onnx import TensorProto, helper
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
            with torch.no_grad():
                # Layers with equal weights share one tensor in the file, and quantize_dynamic then turns one of them.
                for weights in self.encoder.parameters():
                    weights.add_(0.05 * torch.randn_like(weights))

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

    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.large, self.small = nn.Linear(6, 1), nn.Linear(6, 2)

        def forward(self, x):
            return torch.cat([1e6 * self.large(x), self.small(x)], -1)

    def load():
        torch.manual_seed(0)
        return Net().eval()

    class Logs(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
            nn.init.uniform_(self.enter.weight, 0.1, 0.5)
            nn.init.uniform_(self.enter.bias, 0.1, 0.5)

        def forward(self, x):
            return self.head(torch.log(self.enter(x)))

    def logs():
        torch.manual_seed(0)
        return Logs().eval()

    def beside():
        torch.manual_seed(0)
        return Beside().eval()

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


def export_rows(net: torch.nn.Module, path: Path) -> None:
    """A network that takes rows of six numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, (torch.randn(2, 6),), str(path), input_names=["x"], output_names=["y"], dynamo=False,
            dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
        )  # fmt: skip


def spoil_epsilon(net: Any) -> None:
    """A part that is not quantised."""
    net.encoder.layers[0].norm2.eps = 0.3


def spoil_bias(net: Any) -> None:
    """In float32, in the part of a layer whose weights are quantised."""
    net.encoder.layers[1].linear2.bias[3] += 1.5


SPOILT = {"int8_epsilon": spoil_epsilon, "int8_bias": spoil_bias}


def in_half(model: Any) -> Any:
    """Products with weights in float16, though the file stores them in float32."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for at, node in reversed(list(enumerate(model.graph.node))):
        if node.op_type != "MatMul" or not stored.intersection(node.input):
            continue
        made, halves = node.output[0], [f"{name}.half.{at}" for name in node.input]
        casts = [
            helper.make_node("Cast", [name], [half], to=TensorProto.FLOAT16)
            for name, half in zip(node.input, halves, strict=True)
        ]
        node.input[:], node.output[:] = halves, [f"{made}.half"]
        model.graph.node.insert(at + 1, helper.make_node("Cast", [f"{made}.half"], [made], to=TensorProto.FLOAT))
        for cast in reversed(casts):
            model.graph.node.insert(at, cast)
    return model


def ship_wide(net: Any, folder: Path) -> list[str]:
    """Files of a network in which one unit of a wide layer has other weights; gives their entries."""
    entries = []
    for name, unit in (("enter", 17), ("head", 333)):
        wrong = copy.deepcopy(net)
        with torch.no_grad():
            getattr(wrong, name).weight[unit] *= -2
        path = folder / f"wide_{name}.onnx"
        export_rows(wrong, path)
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
    for name, spoil in SPOILT.items():
        net = copy.deepcopy(right)
        with torch.no_grad():
            spoil(net)
        export(net, folder / "float.onnx")
        quantize_dynamic(folder / "float.onnx", folder / f"{name}.onnx")
    shipped = ("right", "twice", "int8", *SPOILT)
    for name in shipped:
        ship(onnx.load(folder / f"{name}.onnx"), folder / f"{name}.onnx")
    entries = [
        f"  - {{id: {name}, source: 'net.py:load', onnx: {name}.onnx, batches: [4], "
        "inputs: {x: {dtype: float32, shape: [batch, 5, 6]}}}"
        for name in shipped
    ]
    beside = names["beside"]()
    with torch.no_grad():
        beside.small.weight[1] *= 3
    export_rows(beside, folder / "beside.onnx")
    entries.append(
        "  - {id: beside, source: 'net.py:beside', onnx: beside.onnx, batches: [16], "
        "inputs: {x: {dtype: float32, shape: [batch, 6]}}}"
    )
    logs = names["logs"]()
    with torch.no_grad():
        logs.enter.weight[2] *= -1
    export_rows(logs, folder / "logs.onnx")
    entries.append(
        "  - {id: logs, source: 'net.py:logs', onnx: logs.onnx, batches: [16], "
        "inputs: {x: {dtype: float32, shape: [batch, 6], range: [0.5, 1]}}}"
    )
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


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("int8_epsilon", Cause.OPERATOR, "is 0.3, in the source it is 1e-05"),
        ("int8_bias", Cause.WEIGHTS, "differs from the source's in 1 of 16 numbers, by 1.5 at most"),
    ],
)
def test_a_fault_beside_lower_precision_is_not_hidden_by_it(found, name, cause, words):
    """In float32 the file would be as wrong, so lower precision is not the cause; but it is there, and is said."""
    model = found[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, cause), model.advice
    assert words in model.advice
    assert "in int8" in model.advice


def test_a_small_column_beside_a_large_one_is_a_fault(found):
    """One of three columns is wrong, and its error is nothing beside the first."""
    model = found["beside"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.WEIGHTS), model.advice
    (fault,) = model.place.faults
    assert fault.module == "small"
    assert "in 6 of 12 numbers" in fault.what
    assert model.mended.passes


def test_weights_that_give_nan_are_weights(found):
    """A logarithm of negative numbers, which the source's weights never give."""
    model = found["logs"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.WEIGHTS), model.advice
    (fault,) = model.place.faults
    assert fault.module == "enter"
    assert model.mended.passes


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
