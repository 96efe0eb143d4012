"""Files of lower precision, raised to float32 with the source's weights, answer as the source does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16
from torch import nn

from onnx_gate.records.asked import ProviderSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place.bench import Bench
from onnx_gate.worker.place.lowered.raised import raise_precision
from tests.place.test_networks import export_rows, in_half

FEED = {"x": np.random.default_rng(0).normal(size=(8, 6)).astype("float32")}


class Reader(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
    """Feeds with which the ranges are measured."""

    def __init__(self) -> None:
        self._feeds = iter([FEED] * 2)

    def get_next(self) -> Any:
        """One of them."""
        return next(self._feeds, None)


def dynamic(source: Path, path: Path) -> None:
    quantize_dynamic(source, path)


def per_channel(source: Path, path: Path) -> None:
    quantize_dynamic(source, path, per_channel=True)


def static(source: Path, path: Path) -> None:
    quantize_static(source, path, Reader(), quant_format=QuantFormat.QDQ)


def operators(source: Path, path: Path) -> None:
    quantize_static(source, path, Reader(), quant_format=QuantFormat.QOperator)


def half(source: Path, path: Path) -> None:
    onnx.save(convert_float_to_float16(onnx.load(source)), path)


def cast(source: Path, path: Path) -> None:
    onnx.save(in_half(onnx.load(source)), path)


def in_nodes(source: Path, path: Path) -> None:
    """Weights in half precision that are constants of nodes, not initializers."""
    model = onnx.load(source)
    for tensor in list(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32:
            continue
        low = f"{tensor.name}.low"
        model.graph.initializer.remove(tensor)
        model.graph.node.insert(0, helper.make_node("Cast", [low], [tensor.name], to=TensorProto.FLOAT))
        value = numpy_helper.from_array(array.astype("float16"))
        model.graph.node.insert(0, helper.make_node("Constant", [], [low], value=value))
    onnx.save(model, path)


def brain(source: Path, path: Path) -> None:
    """Weights in bfloat16, with a Cast behind each."""
    model = onnx.load(source)
    for tensor in list(model.graph.initializer):
        name, array = tensor.name, numpy_helper.to_array(tensor)
        if array.dtype != np.float32:
            continue
        bits = ((array.view("uint32") + 0x8000) >> 16).astype("uint16")
        stored = helper.make_tensor(f"{name}.brain", TensorProto.BFLOAT16, array.shape, bits.tobytes(), raw=True)
        model.graph.initializer.remove(tensor)
        model.graph.initializer.append(stored)
        model.graph.node.insert(0, helper.make_node("Cast", [stored.name], [name], to=TensorProto.FLOAT))
    onnx.save(model, path)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with products, biases and a Relu."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh())
    net.append(nn.Linear(16, 4))
    path = tmp_path_factory.mktemp("raised") / "source.onnx"
    export_rows(net.eval(), path)
    return path


def bench(path: Path) -> Bench:
    return Bench(Blueprint(str(path), session=ProviderSpec(name="cpu").session))


@pytest.mark.parametrize("lower", [dynamic, per_channel, static, half, cast, in_nodes, brain])
def test_a_raised_file_has_the_sources_answers(
    source: Path, tmp_path: Path, lower: Callable[[Path, Path], None]
) -> None:
    """Nothing is left of the rounding, so that whatever differs has another reason."""
    lower(source, tmp_path / "low.onnx")
    right = bench(source)
    raised = raise_precision(tmp_path / "low.onnx", right, tmp_path)
    assert raised is not None
    wanted = right.run(FEED, ["y"])["y"]
    np.testing.assert_allclose(bench(raised.path).run(FEED, ["y"])["y"], wanted, rtol=1e-5, atol=1e-6)


class Words(nn.Module):
    """An embedding that a convolution reads, and a recurrent layer."""

    def __init__(self, *, recurrent: bool) -> None:
        super().__init__()
        self.table, self.conv, self.out = nn.Embedding(30, 12), nn.Conv1d(12, 10, 3, padding=1), nn.Linear(10, 3)
        self.lstm = nn.LSTM(10, 10, batch_first=True) if recurrent else None

    def forward(self, tokens: torch.Tensor) -> Any:
        x = torch.relu(self.conv(self.table(tokens).transpose(1, 2))).transpose(1, 2)
        if self.lstm is not None:
            x = self.lstm(x)[0]
        return self.out(x.amax(1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recurrent", [False, True])
def test_tables_and_recurrent_layers_are_raised(tmp_path: Path, recurrent: bool) -> None:
    """As quantize_dynamic writes them: the rows of the table go into a product as they are stored."""
    torch.manual_seed(1)
    net, tokens = Words(recurrent=recurrent).eval(), torch.randint(0, 30, (4, 7))
    path = tmp_path / "words.onnx"
    torch.onnx.export(net, (tokens,), str(path), dynamo=False, input_names=["tokens"], output_names=["y"])
    quantize_dynamic(path, tmp_path / "low.onnx")
    lowered = {node.op_type for node in onnx.load(tmp_path / "low.onnx").graph.node}
    assert "ConvInteger" in lowered
    assert ("DynamicQuantizeLSTM" in lowered) == recurrent
    right = bench(path)
    raised = raise_precision(tmp_path / "low.onnx", right, tmp_path)
    assert raised is not None
    feed = {"tokens": tokens.numpy()}
    wanted = right.run(feed, ["y"])["y"]
    np.testing.assert_allclose(bench(raised.path).run(feed, ["y"])["y"], wanted, rtol=1e-5, atol=1e-6)


def test_what_can_not_be_raised_is_left(source: Path, tmp_path: Path) -> None:
    """Operators that compute in eight bits themselves."""
    operators(source, tmp_path / "low.onnx")
    assert raise_precision(tmp_path / "low.onnx", bench(source), tmp_path) is None
