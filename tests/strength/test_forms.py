"""Files of every form: none makes the measurement fail, and nothing is written to what the user gave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

from onnx_gate.protocol import Note
from onnx_gate.records.found import Failure, OutputDiff
from onnx_gate.records.strength import Strength
from onnx_gate.worker.strength.kinds.mutants import Kind
from tests.onnx_models import INT, D, S, external, value
from tests.onnx_values import SEQUENCE, data_set, identity
from tests.strength.measured import (
    blueprint_of,
    judged_events,
    measured,
    mutants_of,
    name_of,
    outcomes,
    save_data,
    save_model,
    save_source,
    strength_of,
)

ML = "ai.onnx.ml"
ROWS = np.array([[1, -2, 3], [4, 5, -6], [0.5, 0.25, 2], [-3, 1, 1]], np.float32)
HALF = TensorProto.FLOAT16


def recorded(folder: Path, **feed: Any) -> dict[str, Any]:
    """Keys of a model whose file answered these rows itself."""
    session = ort.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    answers = dict(zip(names, session.run(None, feed), strict=True))
    data = save_data(folder, **feed, **answers)
    return {"source": "m.onnx", "framework": "onnx", "data": data}


def strength(folder: Path, **keys: Any) -> Strength:
    """Of a model that passes; nothing fails on the way."""
    events, _ = judged_events(folder, **keys)
    assert [event for event in events if isinstance(event, Failure)] == []
    assert [event.text for event in events if isinstance(event, Note) and "strength" in event.text] == []
    assert [event for event in events if isinstance(event, OutputDiff) and event.breaches] == []
    found = strength_of(events)
    assert found is not None
    return found


def in_half(folder: Path) -> dict[str, Any]:
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"])]
    weights = {"W": np.arange(1, 7).reshape(3, 2).astype(np.float16)}
    save_model(folder / "m.onnx", nodes, [value("x", HALF)], [value("y", HALF, ["batch", 2])], weights)
    return recorded(folder, x=ROWS.astype(np.float16))


def in_double(folder: Path) -> dict[str, Any]:
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"])]
    save_model(
        folder / "m.onnx", nodes, [value("x", D)], [value("y", D, ["batch", 2])], {"W": np.arange(1.0, 7).reshape(3, 2)}
    )
    return recorded(folder, x=ROWS.astype(np.float64))


def branches(folder: Path) -> dict[str, Any]:
    """y = sum(x) > 3 ? Relu(x)·w : Softmax(x + c), both branches with tensors of their own and of the main graph."""
    c = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "c")
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="inner"), helper.make_node("Mul", ["r", "w"], ["a"])]
    then = helper.make_graph(nodes, "then", [], [value("a")])
    nodes = [helper.make_node("Add", ["x", "c"], ["p"]), helper.make_node("Softmax", ["p"], ["b"])]
    other = helper.make_graph(nodes, "else", [], [value("b")], [c])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "three"], ["large"]),
        helper.make_node("If", ["large"], ["y"], then_branch=then, else_branch=other),
    ]
    stored = {"w": np.array([1, 2, 3], np.float32), "three": np.float32(3)}
    save_model(folder / "m.onnx", nodes, [value("x")], [value("y")], stored)
    return recorded(folder, x=ROWS)


def constants(folder: Path) -> dict[str, Any]:
    weights = numpy_helper.from_array(np.arange(1, 7).reshape(3, 2).astype(np.float32))
    nodes = [helper.make_node("Constant", [], ["W"], value=weights), helper.make_node("MatMul", ["x", "W"], ["y"])]
    save_model(folder / "m.onnx", nodes, [value("x")], [value("y", shape=["batch", 2])])
    return recorded(folder, x=ROWS)


def functions(folder: Path) -> dict[str, Any]:
    """y = Relu(x·2), which is a function of the file's own that is called twice."""
    weights = numpy_helper.from_array(np.array(2, np.float32))
    body = [
        helper.make_node("Constant", [], ["two"], value=weights),
        helper.make_node("Mul", ["a", "two"], ["m"]),
        helper.make_node("Relu", ["m"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, opsets[:1])
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], domain="own"),
        helper.make_node("Twice", ["h"], ["y"], domain="own"),
    ]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    onnx.save(model, str(folder / "m.onnx"))
    return recorded(folder, x=ROWS)


def overridable(folder: Path) -> dict[str, Any]:
    """A stored tensor that is an input as well, as old files have them."""
    stored = {"W": np.arange(1, 7).reshape(3, 2).astype(np.float32)}
    inputs = [value("x"), value("W", shape=[3, 2])]
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"])]
    save_model(folder / "m.onnx", nodes, inputs, [value("y", shape=["batch", 2])], stored)
    return recorded(folder, x=ROWS)


def overridable_large(folder: Path) -> dict[str, Any]:
    """The same, of a tensor that is handed over in memory."""
    stored = {"W": np.arange(1, 1201).reshape(3, 400).astype(np.float32)}
    inputs = [value("x"), value("W", shape=[3, 400])]
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"])]
    save_model(folder / "m.onnx", nodes, inputs, [value("y", shape=["batch", 400])], stored)
    return recorded(folder, x=ROWS)


def in_another_file(folder: Path) -> dict[str, Any]:
    external(folder / "m.onnx")
    return recorded(folder, x=ROWS)


def several_outputs(folder: Path) -> dict[str, Any]:
    """Two outputs, one of which is read by a node as well."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Mul", ["y", "w"], ["z"])]
    save_model(folder / "m.onnx", nodes, [value("x")], [value("y"), value("z")], {"w": np.array([1, 2, 3], np.float32)})
    return recorded(folder, x=ROWS)


def stored_output(folder: Path) -> dict[str, Any]:
    """An output that nothing computes."""
    node = helper.make_node("Relu", ["x"], ["y"])
    outputs = [value("y"), value("w", shape=[3])]
    save_model(folder / "m.onnx", [node], [value("x")], outputs, {"w": np.array([1, 2, 3], np.float32)})
    return recorded(folder, x=ROWS)


def string_labels(folder: Path) -> dict[str, Any]:
    """Words in, words out."""
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain=ML, keys_strings=["a", "b", "é"], values_strings=["u", "v", "w"]
    )
    save_model(folder / "m.onnx", [node], [value("x", S, ["batch"])], [value("y", S, ["batch"])])
    data = save_data(folder, x=np.array(["a", "b", "é", "a"]), y=np.array(["u", "v", "w", "u"]))
    return {"source": "m.onnx", "framework": "onnx", "data": data}


def fixed_batch(folder: Path) -> dict[str, Any]:
    node = helper.make_node("Softmax", ["x"], ["y"])
    save_model(folder / "m.onnx", [node], [value("x", shape=[4, 3])], [value("y", shape=[4, 3])])
    return recorded(folder, x=ROWS) | {"inputs": {"x": {"dtype": "float32", "shape": [4, 3]}}}


def another_name(folder: Path) -> dict[str, Any]:
    """A dynamic dimension that is not called batch."""
    node = helper.make_node("Softmax", ["x"], ["y"])
    save_model(folder / "m.onnx", [node], [value("x", shape=["rows", 3])], [value("y", shape=["rows", 3])])
    return recorded(folder, x=ROWS) | {"inputs": {"x": {"dtype": "float32", "shape": ["rows", 3]}}}


def scalar(folder: Path) -> dict[str, Any]:
    """No dimension at all."""
    node = helper.make_node("Mul", ["x", "two"], ["y"])
    save_model(folder / "m.onnx", [node], [value("x", shape=[])], [value("y", shape=[])], {"two": np.float32(2)})
    return recorded(folder, x=np.array(3, np.float32)) | {"inputs": {"x": {"dtype": "float32", "shape": []}}}


def not_finite(folder: Path) -> dict[str, Any]:
    """log(x), which is NaN below 0 and −Inf at 0."""
    save_model(folder / "m.onnx", [helper.make_node("Log", ["x"], ["y"])], [value("x")], [value("y")])
    return recorded(folder, x=np.array([[1, 0, -1], [2, 3, 4]], np.float32))


def last_axis_is_the_batch(folder: Path) -> dict[str, Any]:
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    save_model(folder / "m.onnx", nodes, [value("x")], [value("y", shape=[3, "batch"])])
    return recorded(folder, x=ROWS)


def with_maps(folder: Path) -> dict[str, Any]:
    """A shipped classifier that answers maps of class to probability."""
    source = LogisticRegression().fit(ROWS, list("abca"))
    onnx.save(to_onnx(source, ROWS[:1]), str(folder / "m.onnx"))
    inputs = {"X": {"dtype": "float32", "shape": ["batch", 3]}}
    return {"source": save_source(folder, source), "framework": "sklearn", "onnx": "m.onnx", "inputs": inputs}


def integers(folder: Path) -> dict[str, Any]:
    """No float anywhere, and nothing stored but an integer."""
    node = helper.make_node("Mul", ["x", "two"], ["y"])
    save_model(folder / "m.onnx", [node], [value("x", INT)], [value("y", INT)], {"two": np.int64(2)})
    return recorded(folder, x=np.array([[1, 2, 3], [4, 5, 6]]))


FORMS: dict[str, Callable[[Path], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        *(in_half, in_double, branches, constants, functions, overridable, overridable_large, in_another_file),
        *(several_outputs, stored_output, string_labels, fixed_batch, another_name, scalar, not_finite),
        *(last_axis_is_the_batch, with_maps, integers),
    )
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_measured(form: str, tmp_path: Path) -> None:
    """Complete, with numbers that fit together; and the user's files are as they were."""
    keys = FORMS[form](tmp_path)
    before = digests(tmp_path)
    found = strength(tmp_path, **keys)
    assert digests(tmp_path) == before
    assert found.incomplete == ""
    assert found.tried == found.planned > 0
    assert found.caught <= found.aimed <= found.counted <= found.tried
    assert sum(kind.tried for kind in found.kinds) == found.tried
    assert sum(kind.caught for kind in found.kinds) == found.caught > 0


def digests(folder: Path) -> dict[str, str]:
    """Of the files that belong to the user."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.is_file() and file.name != "onnx-gate.yml"
    }


def test_nothing_to_be_wrong_is_no_strength(tmp_path: Path) -> None:
    """A sequence that is handed through has no weight, no operator and no column."""
    identity(tmp_path / "m.onnx", SEQUENCE)
    two = [np.array([1, 2], np.float32), np.array([3], np.float32)]
    data_set(tmp_path / "data/test_data_set_0", [("sequence", two)], [("sequence", two)])
    events, _ = judged_events(tmp_path, source="m.onnx", framework="onnx", data="data")
    assert [event for event in events if isinstance(event, Failure)] == []
    assert strength_of(events) is None


def test_both_branches_are_parts_of_the_model(tmp_path: Path) -> None:
    """Operators of sub-graphs are left out too, and the tensors of the main graph that they read are changed."""
    found = outcomes(measured(tmp_path, **branches(tmp_path)))
    assert found["operator left out: Relu inner"] == "caught"
    assert found["weights negated: w"] == "caught"
    # The sum of all rows is above 3, so that the other branch is not run; the witnesses run it.
    assert found["operator left out: Softmax"] == "counted"


def test_what_is_called_twice_is_two_places(tmp_path: Path) -> None:
    """Functions are laid out before mutants are made: each call has weights and operators of its own."""
    functions(tmp_path)
    names = [name_of(each) for each in mutants_of(tmp_path / "m.onnx", {"x": ROWS})]
    assert sum(name.startswith("weights negated") for name in names) == 2
    kinds = [each.kind for each in mutants_of(tmp_path / "m.onnx", {"x": ROWS})]
    assert kinds.count(Kind.OPERATOR) == 2


def test_constants_count_as_stored_tensors(tmp_path: Path) -> None:
    """As a file that stores them would have it."""
    constants(tmp_path)
    names = [name_of(each) for each in mutants_of(tmp_path / "m.onnx", {"x": ROWS})]
    assert {"weights × 1.5: W", "row or channel zeroed: W (column 1)"} <= set(names)


def test_weights_in_a_file_are_changed_in_memory_only(tmp_path: Path) -> None:
    """The file is mapped, and only pages that are written are copied."""
    external(tmp_path / "m.onnx")
    before = (tmp_path / "weights.bin").read_bytes()
    blueprint = blueprint_of(tmp_path / "m.onnx")
    copy = blueprint.copy("w")
    assert isinstance(blueprint.array("w"), np.memmap)
    assert isinstance(copy, np.memmap)
    copy[:] = 99
    assert (tmp_path / "weights.bin").read_bytes() == before
    kept = blueprint.array("w")
    assert kept is not None
    assert kept.tolist() == [0, 1, 2]
