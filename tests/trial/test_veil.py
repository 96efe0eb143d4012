"""Errors of other code name values of the user's data: they are removed, and everything else stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Status
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.trial.veil import veiled
from tests.conftest import run_manifest

FEED = {
    "x": np.array([[73914.827, 0.125730216503], [3.0, -2.5e-7]], np.float32),
    "i": np.array([7391482, 2], np.int64),
    "t": np.array(["Smith & Sons", "a"]),
}


def spec_in(folder: Path, repro: str) -> ModelSpec:
    """A model with data of the user's."""
    (folder / "d.csv").write_text("x\n1\n")
    (folder / "m.onnx").write_bytes(b"")
    line = f"  - {{id: m, source: m.onnx, data: d.csv{repro}}}"
    (folder / "m.yml").write_text(f"version: 1\nmodels:\n{line}\n")
    return load_manifest(folder / "m.yml").models[0]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("idx=7391482 must be within [-10,9]", "idx=… must be within [-10,9]"),
        ("can't take 73914.8 here", "can't take … here"),
        ("can't take 73914.828125, or 7.39e4", "can't take …, or …"),
        ("can't take 0.1257302165031433.", "can't take …."),
        ("-2.5e-07 is negative", "… is negative"),
        ("unknown category 'Smith & Sons'", "unknown category '…'"),
        ("shape {2,2} and 73915 rows of layer4 in v1.25", "shape {2,2} and 73915 rows of layer4 in v1.25"),
    ],
)
def test_values_of_the_feed_are_removed(tmp_path: Path, said: str, shown: str) -> None:
    """To as many digits as they are written with; sizes and other numbers stay."""
    assert veiled(said, spec_in(tmp_path, ""), Call(feed=FEED)) == shown


def test_generated_values_and_those_that_may_be_shown_stay(tmp_path: Path) -> None:
    """They help to understand the error."""
    said = "idx=7391482"
    assert veiled(said, spec_in(tmp_path, ""), Call(feed=FEED), generated=True) == said
    assert veiled(said, spec_in(tmp_path, ", repro: {data: true}"), Call(feed=FEED)) == said


def test_reports_do_not_repeat_what_the_runtime_or_the_source_says_of_a_value(tmp_path: Path) -> None:
    """An index out of range, and an exception of the user's own code."""
    floats, ints = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", ints, ["n"])],
        [helper.make_tensor_value_info("y", floats, ["n", 2])],
        [numpy_helper.from_array(np.ones((10, 2), np.float32), "t")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "g.onnx")
    np.savez(tmp_path / "g.npz", i=np.array([1, 7391482]), y=np.ones((2, 2), np.float32))
    np.save(tmp_path / "x.npy", np.full((4, 3), 0.123456789, np.float32))
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        raise ValueError(f'strange: {x[0, 0].item()}')\n"
    )
    schema = "inputs: {x: {dtype: float32, shape: [batch, 3]}}"
    run = run_manifest(
        tmp_path,
        "version: 1\nmodels:\n  - {id: runtime, source: g.onnx, data: g.npz}\n"
        f"  - {{id: source, framework: torch, source: 'net.py:Net', data: x.npy, {schema}}}\n",
    )
    for name, start, value in (("runtime", "idx=…", "7391482"), ("source", "strange: …", "0.12345")):
        assert run[name].verdict is Status.ERROR
        assert start in run[name].error, run[name].error
        # Reports are made from this record alone.
        assert value not in str(run[name])
