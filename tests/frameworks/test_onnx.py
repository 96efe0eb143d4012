"""ONNX files as sources: every kind of value, every type of element, files that are broken in every way."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.vocabulary import Cause, Status
from tests import onnx_models, onnx_values
from tests.conftest import Run, run_manifest
from tests.onnx_models import F, value
from tests.onnx_values import data_set, typed

DATA = """
import numpy as np

def words():
    return {"x": {"a": 1.0, "é": 2.0}, "y": np.array([[1.0, 0.0, 2.0]], np.float32)}

def no_map():
    return {"x": [1.0, 2.0]}

def parts():
    return {"x": [np.ones(2, np.float32), np.zeros(3, np.float32)]}

def missing():
    return {"x": np.array(["a", None, "c"], object)}

def texts():
    return {"x": np.array(["", "é", "日本", "a\\x00b"], object)}

def as_bytes():
    return {"x": np.array([b"a", "é".encode(), b"c"])}
"""

MODELS = {
    "sequence": "sequence.onnx, data: sequence",
    "sequence-shorter": "sequence.onnx, data: sequence_shorter",
    "sequence-off": "sequence.onnx, data: sequence_off",
    "sequence-empty": "sequence.onnx, data: sequence_empty",
    "sequence-called": "sequence.onnx, data: 'data.py:parts'",
    "sequence-no-data": "sequence.onnx",
    "optional": "optional.onnx, data: optional",
    "optional-unexpected": "optional.onnx, data: optional_unexpected",
    "map": "vectorizer.onnx, data: 'data.py:words'",
    "map-set": "vectorizer.onnx, data: map_set",
    "no-map": "vectorizer.onnx, data: 'data.py:no_map'",
    "zipmap": "zipmap.onnx, data: zipmap",
    "zipmap-off": "zipmap.onnx, data: zipmap_off",
    "sparse": "sparse.onnx, data: sparse",
    "bfloat16": "to_bfloat16.onnx, data: bfloat16",
    "bfloat16-off": "to_bfloat16.onnx, data: bfloat16_off",
    "bfloat16-in": "from_bfloat16.onnx, data: bfloat16_in",
    "float8": "to_float8.onnx, data: float8",
    "float8-as-other": "to_float8.onnx, data: float8_as_other",
    "int4": "to_int4.onnx, data: int4",
    "int4-off": "to_int4.onnx, data: int4_off",
    "int4-in": "from_int4.onnx, data: int4_in",
    "texts": "text.onnx, data: 'data.py:texts'",
    "text-bytes": "text.onnx, data: 'data.py:as_bytes'",
    "text-missing": "text.onnx, data: 'data.py:missing'",
    "big-endian": "doubler.onnx, data: big_endian.npz",
    "declared-wrong": "declared_wrong.onnx, data: declared_wrong.npz",
    "several-sets": "doubler.onnx, data: sets",
    "functions": "functions.onnx, data: functions",
    "subgraphs": "subgraphs.onnx, data: subgraphs",
    "complex": "complex.onnx",
    "newer-ir": "newer_ir.onnx",
    "newer-opset": "newer_opset.onnx",
    "unknown-domain": "unknown_domain.onnx",
    "unranked": "unranked.onnx, data: unranked",
    "unranked-no-data": "unranked.onnx",
    "weights-missing": "weights_missing.onnx",
    "weights-outside": "weights_outside.onnx",
    "half": "half.onnx, data: half",
    "bfloat16-generated": "from_bfloat16.onnx",
    "int4-generated": "from_int4.onnx",
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Run:
    """All models in one run."""
    folder = tmp_path_factory.mktemp("onnx")
    (folder / "data.py").write_text(DATA)
    for write in (_values, _elements, _broken, _structures):
        write(folder)
    lines = [f"  - {{id: {name}, framework: onnx, source: {rest}}}" for name, rest in MODELS.items()]
    return run_manifest(folder, "\n".join(["version: 1", "defaults: {batches: [2]}", "models:", *lines]))


def _floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def _values(folder: Path) -> None:
    """What is no tensor."""
    two = [_floats(1, 2), _floats(3, 4, 5)]
    off = [_floats(1, 2), _floats(3, 9, 5)]
    onnx_values.identity(folder / "sequence.onnx", onnx_values.SEQUENCE)
    for name, outputs in (("sequence", two), ("sequence_shorter", two[:1]), ("sequence_off", off)):
        data_set(folder / name / "test_data_set_0", [("sequence", two)], [("sequence", outputs)])
    data_set(folder / "sequence_empty/test_data_set_0", [("sequence", two)], [("sequence", two)])
    data_set(folder / "sequence_empty/test_data_set_1", [("sequence", [])], [("sequence", [])])
    onnx_values.identity(folder / "optional.onnx", onnx_values.OPTIONAL, opset=18)
    there, absent = ("optional", _floats(1, 2)), ("optional", None)
    data_set(folder / "optional/test_data_set_0", [there], [there])
    data_set(folder / "optional/test_data_set_1", [absent], [absent])
    data_set(folder / "optional_unexpected/test_data_set_0", [there], [absent])
    onnx_values.vectorizer(folder / "vectorizer.onnx")
    held = {"a": _floats(1)[0], "é": _floats(2)[0]}
    data_set(folder / "map_set/test_data_set_0", [("map", held)], [_floats(1, 0, 2).reshape(1, 3)])
    onnx_values.zipmap(folder / "zipmap.onnx")
    rows = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    maps = [dict(zip("abc", row, strict=True)) for row in rows]
    data_set(folder / "zipmap/test_data_set_0", [rows], [("sequence", maps)])
    data_set(folder / "zipmap_off/test_data_set_0", [rows], [("sequence", [maps[0], {**maps[1], "b": 7.0}])])
    onnx_values.sparse_product(folder / "sparse.onnx")
    a = np.array([[0, 2, 0], [0, 0, 3], [1, 0, 0]], np.float32)
    b = np.arange(6, dtype=np.float32).reshape(3, 2)
    data_set(folder / "sparse/test_data_set_0", [("sparse_tensor", a), b], [a @ b])


def _elements(folder: Path) -> None:
    """Types that numpy hasn't got, and text."""
    x = _floats(1, -2, 3, 0.5)
    half, eighth = x.astype(ml_dtypes.bfloat16), x.astype(ml_dtypes.float8_e4m3fn)
    whole = _floats(-8, 7, 1, 0)
    fourth = whole.astype(ml_dtypes.int4)
    for name, kind in (("bfloat16", TensorProto.BFLOAT16), ("int4", TensorProto.INT4)):
        onnx_values.cast(folder / f"to_{name}.onnx", kind)
        onnx_values.cast(folder / f"from_{name}.onnx", kind, back=True)
    onnx_values.cast(folder / "to_float8.onnx", TensorProto.FLOAT8E4M3FN)
    data_set(folder / "bfloat16/test_data_set_0", [x], [half])
    data_set(folder / "bfloat16_off/test_data_set_0", [x], [(2 * x).astype(ml_dtypes.bfloat16)])
    data_set(folder / "bfloat16_in/test_data_set_0", [half], [x])
    data_set(folder / "float8/test_data_set_0", [x], [eighth])
    data_set(folder / "float8_as_other/test_data_set_0", [x], [x.astype(np.float64)])
    data_set(folder / "int4/test_data_set_0", [whole], [fourth])
    data_set(folder / "int4_off/test_data_set_0", [whole], [_floats(-8, 7, 2, 0).astype(ml_dtypes.int4)])
    data_set(folder / "int4_in/test_data_set_0", [fourth], [whole])
    text = helper.make_tensor_type_proto(TensorProto.STRING, [None])
    onnx_values.identity(folder / "text.onnx", text)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    narrow = TensorProto.FLOAT16
    w = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float16)
    rows = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float16)
    onnx_models.save(folder / "half.onnx", [node], [value("x", narrow, ["batch", 64])], [value("y", narrow)], {"w": w})
    exact = (rows.astype(np.float64) @ w.astype(np.float64)).astype(np.float16)
    data_set(folder / "half/test_data_set_0", [rows], [exact])


def _broken(folder: Path) -> None:
    """Files that ONNX Runtime can't load."""
    onnx_values.identity(folder / "complex.onnx", helper.make_tensor_type_proto(TensorProto.COMPLEX64, [3]))
    onnx_models.doubler(folder / "newer_ir.onnx", ir_version=onnx.IR_VERSION + 50)
    onnx_models.doubler(folder / "newer_opset.onnx", opset=onnx.defs.onnx_opset_version() + 50)
    graph = helper.make_graph(
        [helper.make_node("Fold", ["x"], ["y"], domain="com.example")], "g", [value("x")], [value("y")]
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), str(folder / "unknown_domain.onnx"))
    for name, location in (("weights_missing", "gone.bin"), ("weights_outside", "../outside.bin")):
        path = onnx_models.external(folder / f"{name}.onnx")
        model = onnx.load(str(path), load_external_data=False)
        for entry in model.graph.initializer[0].external_data:
            entry.value = location if entry.key == "location" else entry.value
        path.write_bytes(model.SerializeToString())


def _structures(folder: Path) -> None:
    """Functions, subgraphs and external data; what a file says wrongly, and what it doesn't say."""
    onnx_models.doubler(folder / "doubler.onnx")
    x = np.arange(6).reshape(2, 3)
    np.savez(folder / "big_endian.npz", x=x.astype(">f4"), y=(2 * x).astype(np.float32))
    for number in range(3):
        rows = np.full((number + 1, 3), number, np.float32)
        data_set(folder / f"sets/test_data_set_{number}", [rows], [2 * rows + (number == 2)])
    node = helper.make_node("Identity", ["x"], ["y"])
    wrong = onnx_models.save(folder / "declared_wrong.onnx", [node], [value("x")], [value("y", shape=["batch", 4])])
    assert wrong.exists()
    np.savez(folder / "declared_wrong.npz", x=x.astype(np.float32), y=np.zeros((2, 4), np.float32))
    unranked = helper.make_tensor_type_proto(F, None)
    onnx_values.write(folder / "unranked.onnx", node, [typed("x", unranked)], [typed("y", unranked)])
    data_set(folder / "unranked/test_data_set_0", [x.astype(np.float32)], [x.astype(np.float32)])
    _function(folder / "functions.onnx")
    data_set(folder / "functions/test_data_set_0", [x.astype(np.float32)], [3 * x.astype(np.float32)])
    _subgraph(folder / "subgraphs.onnx")
    data_set(folder / "subgraphs/test_data_set_0", [x.astype(np.float32)], [x.astype(np.float32) + _floats(0, 1, 2)])


def _function(path: Path) -> None:
    """y = triple(x), a function of the model's own, whose constant is in a file."""
    constant = numpy_helper.from_array(_floats(3, 3, 3), "three")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=constant),
        helper.make_node("Mul", ["a", "w"], ["b"]),
    ]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "triple", ["a"], ["b"], nodes, imports[:1])
    graph = helper.make_graph([helper.make_node("triple", ["x"], ["y"], domain="own")], "g", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=9), str(path))


def _subgraph(path: Path) -> None:
    """y = x + w within an If, w being external and stored in the branch."""
    weights = numpy_helper.from_array(_floats(0, 1, 2), "w")
    (path.parent / "branch.bin").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="branch.bin")
    branch = [helper.make_node("Add", ["x", "w"], ["z"])]
    then = helper.make_graph(branch, "then", [], [value("z")], [weights])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "else", [], [value("z")])
    node = helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other)
    onnx_models.save(path, [node], [value("x")], [value("y")], {"yes": np.array(True)})


PASSED = (
    *("sequence", "sequence-empty", "sequence-called", "optional", "map", "map-set", "zipmap", "sparse"),
    *("bfloat16", "bfloat16-in", "float8", "int4", "int4-in", "texts", "text-bytes", "big-endian"),
    *("functions", "subgraphs", "unranked", "half", "bfloat16-generated", "int4-generated"),
)


@pytest.mark.parametrize("name", PASSED)
def test_every_kind_of_value_passes(judged, name):
    """Sequences, maps, optional values, sparse tensors, and types that numpy hasn't got."""
    assert judged[name].verdict is Status.PASSED, judged[name]
    assert sum(check.total for check in judged[name].checks) > 0


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("sequence-shorter", Cause.CONTRACT, "the sequence has 2 elements, expected 1 element"),
        ("optional-unexpected", Cause.CONTRACT, "it is a tensor of float32 (2,), expected no value"),
        ("declared-wrong", Cause.CONTRACT, "the shape is (2, 3), expected (2, 4)"),
        ("float8-as-other", None, ""),
        ("bfloat16-off", None, "out of tolerance"),
        ("int4-off", None, "1 of 4 labels differ"),
    ],
)
def test_what_differs_is_told_in_the_values_own_words(judged, name, cause, words):
    """A breach of form is one of contract; what the file declares is not what counts."""
    model = judged[name]
    if name == "float8-as-other":
        # The kind of dtype counts beside a shipped file, unless `strict_dtype` is set; the note tells.
        assert model.verdict is Status.PASSED
        assert any("float8e4m3fn" in check.dtype for check in model.checks)
        return
    assert model.verdict is Status.DIVERGED
    assert cause is None or model.cause == cause
    assert any(words in check.message for check in model.checks)


def test_the_worst_element_of_a_sequence_is_found_by_its_position(judged):
    """The element of the sequence first, then the index in it; totals are those of all elements."""
    (check,) = judged.checks("sequence-off", output="y")
    assert (check.worst.index, check.worst.reference, check.worst.actual) == ((1, 1), 9.0, 4.0)
    assert (check.total, check.mismatched, check.dtype) == (5, 1, "sequence of float32")


def test_a_zipmap_is_compared_as_the_matrix_it_is(judged):
    """Recorded as maps, too."""
    (check,) = judged.checks("zipmap-off", output="y")
    assert (check.worst.index, check.shape, check.total) == ((1, 1), (2, 3), 6)


def test_every_test_set_is_a_case(judged):
    """The third one was recorded wrongly."""
    found = {check.case: check.status for check in judged["several-sets"].checks}
    assert found == {
        "test_data_set_0": Status.PASSED,
        "test_data_set_1": Status.PASSED,
        "test_data_set_2": Status.DIVERGED,
    }


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("sequence-no-data", Cause.INVALID_MODEL, ["'x' is a sequence", "test_data_set_N", "file.py:callable"]),
        ("unranked-no-data", Cause.INVALID_MODEL, ["undeclared shape", "or give `data`"]),
        ("no-map", Cause.LOAD_FAILED, ["got a list, expected a dict"]),
        ("text-missing", Cause.LOAD_FAILED, ["None, expected text", "replace what is missing"]),
        ("complex", Cause.UNSUPPORTED_OPERATOR, ["complex64"]),
        ("newer-ir", Cause.INVALID_MODEL, ["lower the IR version from"]),
        ("newer-opset", Cause.INVALID_MODEL, ["opset"]),
        ("unknown-domain", Cause.UNSUPPORTED_OPERATOR, ["Fold of the domain com.example", "ort_custom_ops"]),
        ("weights-missing", Cause.INVALID_MODEL, ["gone.bin", "ship the weights file"]),
        ("weights-outside", Cause.INVALID_MODEL, ["outside.bin"]),
    ],
)
def test_what_cannot_be_judged_says_why_and_what_to_do(judged, name, cause, words):
    """An error with a cause, in words that name the culprit."""
    model = judged[name]
    assert (model.verdict, model.cause) == (Status.ERROR, cause), model
    assert all(word in model.error for word in words), model.error
    assert "Fix:" in model.error
