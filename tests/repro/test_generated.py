"""Rows that are generated in the place of the user's, which the folder may not hold."""

from __future__ import annotations

from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.records.asked import InputSpec
from onnx_gate.vocabulary import ReproRows, Status
from onnx_gate.worker.repro import feeds
from onnx_gate.worker.repro.feeds import Shown, takes_zero
from tests.conftest import run_manifest
from tests.repro.test_scripts import call

NET = dedent("""
    import torch

    class Mean(torch.nn.Module):
        def forward(self, x, mask):
            count = mask.sum(1, keepdim=True).clamp(min=1).float()
            return (x * mask.float()).sum(1, keepdim=True) / count
""")


def without_a_bound(path):
    """The mean of what the mask keeps: NaN where it keeps nothing."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["x", "m"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "axis"], ["total"]),
            helper.make_node("ReduceSum", ["m", "axis"], ["count"]),
            helper.make_node("Div", ["total", "count"], ["y"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", 4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(np.array([1]), "axis")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.models
def test_an_empty_mask_is_tried_on_generated_rows(tmp_path):
    """No generated row has one, and the rows that have one may not be shown."""
    without_a_bound(tmp_path / "m.onnx")
    (tmp_path / "net.py").write_text(NET)
    draw = np.random.default_rng(0)
    mask = np.ones((40, 4), np.int64)
    mask[[3, 17]] = 0
    np.savez(tmp_path / "d.npz", x=draw.normal(size=(40, 4)).astype(np.float32), mask=mask)
    inputs = "{x: {dtype: float32, shape: [batch, 4]}, mask: {dtype: int64, shape: [batch, 4], values: [0, 1, 1, 1]}}"
    run = run_manifest(
        tmp_path,
        "version: 1\nmodels:\n  - {id: m, framework: torch, source: 'net.py:Mean', onnx: m.onnx, data: d.npz, "
        f"batches: [20], inputs: {inputs}}}\n",
    )
    model = run["m"]
    assert model.verdict is Status.DIVERGED
    assert model.repro and model.repro.rows is ReproRows.GENERATED, model.repro
    assert call(run.output / "repro/m/repro.py")[0] == 1


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        ({"dtype": "int64"}, True),
        ({"dtype": "float32", "range": (-1.0, 1.0)}, True),
        ({"dtype": "float32", "range": (0.5, 1.0)}, False),
        ({"dtype": "int64", "values": (0, 1)}, True),
        ({"dtype": "int64", "values": (1, 2)}, False),
        ({"dtype": "string"}, False),
    ],
)
def test_only_what_may_be_0_is(given, takes):
    """The manifest says which values an input has."""
    assert takes_zero(InputSpec(name="x", shape=("batch",), **given)) is takes


def test_rows_on_which_the_mended_file_is_right_come_first(monkeypatch):
    """It passed on the user's rows, which the folder may not hold; without any such rows, the first ones stay."""
    case: Any = SimpleNamespace(name="batch=1")
    made = [Shown(case="batch=1", feed={"x": number}, references={}, rows=ReproRows.GENERATED) for number in range(4)]
    monkeypatch.setattr(feeds, "generated_feeds", lambda *_: iter(made))
    prepared: Any = SimpleNamespace(cases=[case], hides=lambda _: True)

    def chosen(wrong: set[int], mended_wrong: set[int]) -> int:
        shown, hidden = feeds.find_rows(
            prepared,
            ["batch=1"],
            {},
            lambda feed, _: feed["x"] in wrong,
            float("inf"),
            lambda feed, _: feed["x"] in mended_wrong,
        )
        assert shown and hidden
        return int(shown.feed["x"])

    assert chosen({1, 2, 3}, set()) == 1
    assert chosen({1, 2, 3}, {1, 2}) == 3
    assert chosen({1, 2}, {1, 2}) == 1
