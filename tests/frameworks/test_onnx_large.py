"""A model above 2 GiB: it never goes through one message of protobuf."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_gate.vocabulary import Status
from tests.conftest import run_manifest
from tests.onnx_models import F, value

pytestmark = pytest.mark.large

COLUMNS = 3
ROWS = 2**31 // (4 * COLUMNS) + 1024


def test_a_model_above_2_gib_is_judged_by_its_path(tmp_path):
    """Its weights are a file with a hole; of its rows the first and the last are fed."""
    weights = tmp_path / "weights.bin"
    with weights.open("wb") as file:
        file.truncate(4 * ROWS * COLUMNS)
        file.seek(4 * (ROWS - 1) * COLUMNS)
        file.write(np.arange(1, 4, dtype=np.float32).tobytes())
    table = TensorProto(name="table", data_type=F, dims=[ROWS, COLUMNS], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="weights.bin")
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    ends = [value("x", TensorProto.INT64, ["batch"]), value("y")]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(tmp_path / "large.onnx"))
    np.savez(
        tmp_path / "data.npz",
        x=np.array([0, ROWS - 1]),
        y=np.array([[0, 0, 0], [1, 2, 3]], np.float32),
    )
    run = run_manifest(
        tmp_path,
        "{version: 1, models: [{id: large, source: large.onnx, framework: onnx, data: data.npz}]}",
        strength=True,
    )
    assert run["large"].verdict is Status.PASSED, run["large"]
    convert = run["large"].convert
    assert convert is not None
    assert convert.size_bytes > 2**31
