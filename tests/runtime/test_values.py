"""Values in and out of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from onnx_gate.errors import CannotJudge
from onnx_gate.worker.runtime.values import plain_value, run_session
from tests import onnx_models, onnx_values

TYPES = {
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float8e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "float8e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "float8e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "float8e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    "int4": (TensorProto.INT4, ml_dtypes.int4),
    "uint4": (TensorProto.UINT4, ml_dtypes.uint4),
}


def session_of(path):
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", TYPES)
def test_types_that_numpy_has_not_got_go_in_and_out(tmp_path, name):
    """With their values, an odd number of four-bit ones too."""
    code, dtype = TYPES[name]
    x = np.array([1, 0, 3], np.float32)
    node = helper.make_node("Cast", ["x"], ["y"], to=code)
    back = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    ends = [onnx_models.value("x", TensorProto.FLOAT, [None]), onnx_models.value("y", code, [None])]
    there = onnx_values.write(tmp_path / "there.onnx", node, ends[:1], ends[1:])
    ends = [onnx_models.value("x", code, [None]), onnx_models.value("y", TensorProto.FLOAT, [None])]
    here = onnx_values.write(tmp_path / "here.onnx", back, ends[:1], ends[1:])
    out = run_session(session_of(there), {"x": x})["y"]
    assert (out.dtype, out.astype(np.float32).tolist()) == (np.dtype(dtype), [1, 0, 3])
    assert run_session(session_of(here), {"x": out})["y"].tolist() == [1, 0, 3]


def test_arrays_in_the_other_byte_order_keep_their_values(tmp_path):
    """ONNX Runtime would take them for garbage, without a word."""
    session = session_of(onnx_models.doubler(tmp_path / "m.onnx"))
    x = np.arange(3).reshape(1, 3).astype(">f4")
    assert session.run(None, {"x": x})[0].tolist() != [[0, 2, 4]]
    assert run_session(session, {"x": x})["y"].tolist() == [[0, 2, 4]]


def test_a_sequence_in_the_other_byte_order_keeps_its_values(tmp_path):
    """Element by element."""
    session = session_of(onnx_values.identity(tmp_path / "m.onnx", onnx_values.SEQUENCE))
    (part,) = run_session(session, {"x": [np.array([1, 2], ">f4")]})["y"]
    assert part.tolist() == [1, 2]


def test_a_scalar_is_an_array_without_dimensions(tmp_path):
    """numpy's own scalars are refused by the runtime."""
    node = helper.make_node("Neg", ["x"], ["y"])
    ends = [onnx_models.value(name, shape=[]) for name in "xy"]
    session = session_of(onnx_values.write(tmp_path / "m.onnx", node, ends[:1], ends[1:]))
    assert run_session(session, {"x": np.float32(2)})["y"] == -2


def test_optional_values_are_there_or_not(tmp_path):
    """None goes in and comes out."""
    session = session_of(onnx_values.identity(tmp_path / "m.onnx", onnx_values.OPTIONAL, opset=18))
    assert run_session(session, {"x": None}) == {"y": None}
    assert run_session(session, {"x": np.ones(2, np.float32)})["y"].tolist() == [1, 1]


def test_a_map_is_its_values_in_the_order_of_its_keys():
    """With the keys as columns."""
    value, columns = plain_value({"b": 2.0, "a": 1.0})
    assert (value.tolist(), value.dtype, columns) == ([1, 2], np.float32, ("a", "b"))
    value, columns = plain_value({2: 5, 1: 4})
    assert (value.tolist(), value.dtype, columns) == ([4, 5], np.int64, (1, 2))
    value, columns = plain_value({1: "x"})
    assert (value.tolist(), value.dtype) == (["x"], object)


def test_maps_of_different_keys_are_no_matrix():
    """They are refused with both lists of keys."""
    with pytest.raises(CannotJudge, match="'a' and 'b'"):
        plain_value([{"a": 1.0}, {"b": 1.0}])


def test_what_the_python_api_cannot_pass_is_told(tmp_path):
    """A sequence beside an output in bfloat16: there is no call for both."""
    nodes = [
        helper.make_node("SequenceAt", ["s", "first"], ["x"]),
        helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [onnx_values.typed("s", onnx_values.SEQUENCE)],
        [onnx_models.value("y", TensorProto.BFLOAT16, [None])],
        [helper.make_tensor("first", TensorProto.INT64, [], [0])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(tmp_path / "m.onnx")
    )
    with pytest.raises(CannotJudge, match=r"'s' is seq\(tensor\(float\)\)") as caught:
        run_session(session_of(tmp_path / "m.onnx"), {"s": [np.ones(2, np.float32)]})
    assert "cast to float32" in caught.value.fix


def test_a_large_batch_gives_its_memory_back(tmp_path):
    """The runtime's arena would keep what its largest run needed: some 200 MB here."""
    nodes = [
        helper.make_node("Mul", ["x", "wide"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"]),
        helper.make_node("ReduceSum", ["b"], ["y"]),
    ]
    ends = [onnx_models.value("x", shape=["batch", 1])], [onnx_models.value("y", shape=[1, 1])]
    session = session_of(
        onnx_models.save(tmp_path / "m.onnx", nodes, *ends, {"wide": np.ones((1, 50_000), np.float32)})
    )
    run_session(session, {"x": np.zeros((1, 1), np.float32)})
    before = resident_mb()
    run_session(session, {"x": np.zeros((512, 1), np.float32)})
    assert resident_mb() - before < 50


def resident_mb():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024
