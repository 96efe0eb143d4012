"""What the graph of an .onnx knows of its inputs, in the values that are fed."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as node_cases
from onnx.backend.test.loader import load_model_tests

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import MOST_BOXES, NOTHING_KNOWN, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.onnx_files.domain.analysis import analyse, domains_of

F, D, I64, I32, U8, B, S = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32),
    *(TensorProto.UINT8, TensorProto.BOOL, TensorProto.STRING),
)
ML, CONTRIB = "ai.onnx.ml", "com.microsoft"
node = helper.make_node


def model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any] | None = None,
    *,
    opsets: dict[str, int] | None = None,
    functions: tuple[onnx.FunctionProto, ...] = (),
    **inputs: tuple[int, list[Any]],
) -> onnx.ModelProto:
    """A graph of some nodes; the last one makes the output."""
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    values = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    output = onnx.ValueInfoProto(name=nodes[-1].output[0])
    graph = helper.make_graph(nodes, "g", values, [output], stored)
    imports = {"": 18, ML: 3, CONTRIB: 1, **(opsets or {})}
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in imports.items()],
        functions=list(functions),
        ir_version=9,
    )


def every(found: Domains, name: str = "x") -> Values:
    values = found.inputs[name].every
    assert values is not None
    return values


def cuts(values: Values) -> list[float]:
    return [round(cut.at, 4) for cut in values.cuts]


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("ThresholdedRelu", {"alpha": 500.0}, [500]),
        ("ThresholdedRelu", {}, [1]),
        ("Shrink", {"lambd": 40.0, "bias": 1.0}, [-40, 40]),
        ("HardSigmoid", {"alpha": 0.01, "beta": 0.5}, [-50, 50]),
        ("HardSigmoid", {}, [-2.5, 2.5]),
        ("HardSwish", {}, [-3, 3]),
    ],
)
def test_the_corners_of_an_activation_are_cuts(op, attributes, expected):
    """An alpha of 500 is far from ordinary numbers: nothing else would reach it."""
    found = analyse(model([node(op, ["x"], ["y"], **attributes)], x=(F, ["batch", 3])))
    assert cuts(every(found)) == expected


# Tables


@pytest.mark.parametrize(
    ("nodes", "low", "high"),
    [
        ([node("Gather", ["table", "x"], ["y"])], 0, 99),
        ([node("Cast", ["x"], ["a"], to=I32), node("Gather", ["table", "a"], ["y"])], 0, 99),
        ([node("Reshape", ["x", "flat"], ["a"]), node("Gather", ["table", "a"], ["y"])], 0, 99),
        ([node("Unsqueeze", ["x", "last"], ["a"]), node("Gather", ["table", "a"], ["y"])], 0, 99),
        ([node("Transpose", ["x"], ["a"]), node("Gather", ["table", "a"], ["y"])], 0, 99),
        ([node("Add", ["x", "two"], ["a"]), node("Gather", ["table", "a"], ["y"])], -2, 97),
        ([node("Sub", ["x", "two"], ["a"]), node("Gather", ["table", "a"], ["y"])], 2, 101),
        ([node("Transpose", ["wide"], ["a"]), node("Gather", ["a", "x"], ["y"])], 0, 49),
        ([node("Cast", ["table"], ["a"], to=F), node("Gather", ["a", "x"], ["y"], axis=1)], 0, 3),
    ],
)
def test_ids_have_a_row_in_their_table(nodes, low, high):
    """Through whatever moves them about, and what is added to them."""
    constants = {"table": np.zeros((100, 4)), "wide": np.zeros((4, 50)), "two": np.int64(2)}
    constants |= {"flat": np.array([-1]), "last": np.array([2])}
    values = every(analyse(model(nodes, constants, x=(I64, ["b", "seq"]))))
    assert (values.low, values.high, values.origins) == (low, high, (Origin.EMBEDDINGS,))
    assert values.marks == (), "the ends of a cast's types are no ids"


def test_a_table_is_never_read(tmp_path):
    """Nor is its file there."""
    nodes = [node("Gather", ["table", "x"], ["y"])]
    made = model(nodes, {"table": np.zeros((30_522, 8), np.float32)}, x=(I64, ["b", "s"]))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    assert every(analyse(tmp_path / "m.onnx")).high == 30_521


def test_each_column_of_ids_has_its_own_table():
    """The smallest of several tables decides."""
    nodes = [
        node("Gather", ["x", "first"], ["a"], axis=1),
        node("Slice", ["x", "one", "three", "one"], ["b"]),
        node("Gather", ["small", "a"], ["c"]),
        node("Gather", ["large", "a"], ["d"]),
        node("Gather", ["large", "b"], ["y"]),
    ]
    constants = {"first": np.int64(0), "one": np.array([1]), "three": np.array([3])}
    constants |= {"small": np.zeros((5, 2)), "large": np.zeros((9, 2))}
    columns = analyse(model(nodes, constants, x=(I64, ["b", 4]))).inputs["x"].columns
    assert {place: values.high for place, values in columns.items()} == {0: 4, 1: 8, 2: 8}


def test_ids_that_are_fed_as_floats_are_whole():
    """A column of a table of floats that chooses an embedding."""
    nodes = [node("Cast", ["x"], ["a"], to=I64), node("Gather", ["table", "a"], ["y"])]
    assert every(analyse(model(nodes, {"table": np.zeros((4, 2))}, x=(F, ["b"])))).choices == (0.0, 1.0, 2.0, 3.0)


@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_a_row_that_is_a_range_of_floats_is_fed(op):
    """Amounts by the hundred: most numbers lie in few rows."""
    index = [node("Unsqueeze", ["c", "last"], ["d"])] if op == "GatherND" else [node("Identity", ["c"], ["d"])]
    nodes = [
        node("Div", ["x", "by"], ["a"]),
        node("Floor", ["a"], ["b"]),
        node("Cast", ["b"], ["c"], to=I64),
        *index,
        node(op, ["table", "d"], ["y"]),
    ]
    constants = {"by": np.float32(100), "last": np.array([1]), "table": np.zeros((100, 2))}
    marks = [each for each in every(analyse(model(nodes, constants, x=(F, ["b"])))).marks if isinstance(each, float)]
    assert {int(each // 100) for each in marks} == set(range(100))


# Positions and masks


def test_a_table_of_positions_limits_a_dimension():
    """By a count, by a slice, and with an offset; the manifest's name for the dimension holds."""
    nodes = [
        node("Shape", ["x"], ["shape"], start=1, end=2),
        node("Squeeze", ["shape"], ["n"]),
        node("Range", ["zero", "n", "one"], ["counted"]),
        node("Add", ["counted", "two"], ["moved"]),
        node("Gather", ["table", "moved"], ["a"]),
        node("Slice", ["other", "zeros", "shape"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "zeros": np.array([0])}
    constants |= {"table": np.zeros((514, 2)), "other": np.zeros((600, 2))}
    made = model(nodes, constants, x=(I64, ["b", "s77"]))
    assert analyse(made).longest == {"s77": 512}
    asked = InputSpec(name="x", dtype="int64", shape=("batch", "seq"))
    assert analyse(made, (asked,)).longest == {"seq": 512}


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ([node("Cast", ["x"], ["y"], to=B)], I64),
        ([node("Equal", ["x", "zero"], ["a"]), node("Where", ["a", "big", "h"], ["y"])], I64),
        ([node("Cast", ["x"], ["a"], to=F), node("Sub", ["o", "a"], ["b"]), node("Mul", ["b", "big"], ["c"])], I64),
        ([node("Sub", ["o", "x"], ["b"]), node("Mul", ["b", "big"], ["c"])], F),
        ([node("Not", ["x"], ["y"])], B),
    ],
)
def test_a_mask_holds_zeros_and_ones(nodes, kind):
    """And never zeros alone."""
    nodes = [*nodes, node("Add", ["h", nodes[-1].output[0]], ["z"])]
    constants = {"zero": np.int64(0), "o": np.float32(1), "big": np.float32(-1e9)}
    values = every(analyse(model(nodes, constants, x=(kind, ["b", "s"]), h=(F, ["b", "s"]))))
    assert (list(values.choices), values.never_empty, values.origins) == ([0, 1], True, (Origin.MASKS,))


def test_a_count_that_is_compared_with_zero_is_no_mask():
    """It is computed with as well."""
    nodes = [
        node("Greater", ["x", "zero"], ["a"]),
        node("Cast", ["x"], ["b"], to=F),
        node("MatMul", ["b", "w"], ["c"]),
        node("Log", ["b"], ["d"]),
        node("Where", ["a", "c", "d"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "w": np.ones((3, 3), np.float32)}
    assert every(analyse(model(nodes, constants, x=(I64, ["b", 3])))).choices == ()


def test_a_flag_may_be_zero_in_all_rows():
    """One value for each row says nothing of the others."""
    found = analyse(model([node("Cast", ["x"], ["y"], to=B)], x=(I64, ["b", 1])))
    assert not found.inputs["x"].columns[0].never_empty


# Constants


@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_comparison_is_a_cut_in_raw_values(op, turned):
    """Through what is added and multiplied on the way, with the largest operand."""
    nodes = [
        node("Sub", ["x", "mean"], ["a"]),
        node("Div", ["a", "scale"], ["b"]),
        node(op, ["t", "b"] if turned else ["b", "t"], ["y"]),
    ]
    constants = {"mean": np.float32(5000), "scale": np.float32(100), "t": np.float32(-2)}
    values = every(analyse(model(nodes, constants, x=(F, ["b", 3]))))
    assert [(cut.at, cut.reach) for cut in values.cuts] == [(4800, 5000)]
    assert values.marks == (), "rounding on the way would decide"


def test_what_an_input_is_equal_to_is_fed():
    """Itself, where nothing was computed before."""
    numbers = model([node("Equal", ["x", "t"], ["y"])], {"t": np.float32(-999)}, x=(F, ["b", 3]))
    assert (every(analyse(numbers)).marks, cuts(every(analyse(numbers)))) == ((-999,), [-999])
    texts = model([node("Equal", ["x", "t"], ["y"])], {"t": np.array("n/a", dtype=object)}, x=(S, ["b", 3]))
    assert every(analyse(texts)).marks == ("n/a",)


def test_zero_is_fed_where_the_sign_is_asked_for():
    """It is neither positive nor negative, and data holds it more often than any other number."""
    signs = every(analyse(model([node("Sign", ["x"], ["y"])], x=(F, ["b", 3]))))
    assert (signs.marks, cuts(signs)) == ((0,), [0])


def test_constants_of_columns_belong_to_their_columns():
    """A vector on the last axis; a column that is multiplied by 0 says nothing."""
    nodes = [node("Mul", ["x", "w"], ["a"]), node("Less", ["a", "t"], ["y"])]
    constants = {"w": np.array([2, -4, 0], np.float32), "t": np.array([1, 1, 1], np.float32)}
    columns = analyse(model(nodes, constants, x=(F, ["b", 3]))).inputs["x"].columns
    assert {place: cuts(values) for place, values in columns.items()} == {0: [0.5], 1: [-0.25]}


def test_columns_are_followed_through_concat_split_and_matrices_that_pick():
    """Which column of which input ends up where."""
    nodes = [
        node("Concat", ["x", "z"], ["all"], axis=1),
        node("Split", ["all", "sizes"], ["one", "rest"], axis=1),
        node("MatMul", ["rest", "pick"], ["last"]),
        node("Less", ["one", "t"], ["a"]),
        node("Greater", ["last", "t"], ["y"]),
    ]
    pick = np.zeros((3, 1), np.float32)
    pick[2] = 10
    constants = {"sizes": np.array([1, 3]), "pick": pick, "t": np.float32(7)}
    found = analyse(model(nodes, constants, x=(F, ["b", 2]), z=(F, ["b", 2])))
    assert cuts(found.inputs["x"].columns[0]) == [7]
    assert cuts(found.inputs["z"].columns[1]) == [0.7]
    assert list(found.inputs["x"].columns) == [0]
    assert list(found.inputs["z"].columns) == [1]


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Clip", ["x", "low", "high"], ["y"])],
        [node("Max", ["x", "low"], ["a"]), node("Min", ["a", "high"], ["y"])],
        [node("Abs", ["x"], ["a"]), node("Greater", ["a", "high"], ["y"])],
    ],
)
def test_the_ends_of_a_clip_are_cuts(nodes):
    """As both signs of what is compared after Abs."""
    constants = {"low": np.float32(-30), "high": np.float32(30)}
    assert cuts(every(analyse(model(nodes, constants, x=(F, ["b", 3]))))) == [-30, 30]


def test_branches_and_functions_are_followed():
    """A value of the graph around, compared inside; and a function of the model's own."""
    inner = helper.make_graph(
        [node("Less", ["x", "t"], ["c"]), node("Cast", ["c"], ["r"], to=F)], "b", [], [onnx.ValueInfoProto(name="r")]
    )
    other = helper.make_graph([node("Half", ["x"], ["r2"], domain="own")], "b", [], [onnx.ValueInfoProto(name="r2")])
    half = helper.make_function(
        "own", "Half", ["v"], ["w"], [node("Round", ["v"], ["w"])], [helper.make_opsetid("", 18)]
    )
    nodes = [
        node("ReduceMean", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "t"], ["c0"]),
        node("If", ["c0"], ["y"], then_branch=inner, else_branch=other),
    ]
    made = model(nodes, {"t": np.float32(40)}, functions=(half,), opsets={"own": 1}, x=(F, ["b", 2]))
    values = every(analyse(made))
    assert cuts(values) == [40]
    assert 0.5 in values.marks
    assert values.centre == 40, "means on both sides of it"


def test_halves_and_negatives_of_what_is_rounded():
    """Exactly, where nothing was computed before; else both sides."""
    exact = every(analyse(model([node("Round", ["x"], ["y"])], x=(F, ["b"]))))
    assert set(exact.marks) == {-1.5, -0.5, 0.5, 1.5, 2.5}
    nodes = [node("Mul", ["x", "w"], ["a"]), node("Round", ["a"], ["y"])]
    moved = every(analyse(model(nodes, {"w": np.float32(10)}, x=(F, ["b"]))))
    assert moved.marks == ()
    assert cuts(moved) == [-0.15, -0.05, 0.05, 0.15, 0.25]
    cast = every(analyse(model([node("Cast", ["x"], ["y"], to=I32)], x=(F, ["b"]))))
    assert {-1.0, -1.5, 0.5} <= set(cast.marks)


@pytest.mark.parametrize(
    ("kind", "to", "marks"),
    [
        (I64, I32, {-(2**31) - 1, -(2**31), 2**31 - 1, 2**31}),
        (I64, TensorProto.INT8, {-129, -128, 127, 128}),
        (I32, U8, {-1, 0, 255, 256}),
        (U8, TensorProto.INT8, {127, 128}),
        (I32, I64, set()),
    ],
)
def test_large_integers_where_they_become_narrower(kind, to, marks):
    """As far as the input holds them."""
    found = analyse(model([node("Cast", ["x"], ["y"], to=to)], x=(kind, ["b"])))
    assert set(found.inputs["x"].every.marks if found.inputs and found.inputs["x"].every else ()) == marks


def test_large_integers_where_they_become_floats_on_the_way():
    """An id that comes back from float32 may be that of its neighbour; of an integer that stays a float, it is not."""
    there = node("Cast", ["x"], ["a"], to=F)
    back = every(analyse(model([there, node("Cast", ["a"], ["y"], to=I64)], x=(I64, ["b"]))))
    assert {2**24 + 1, 2**25 + 2} <= set(back.marks)
    assert not {2**24 + 1} & set(_marks(analyse(model([there, node("Neg", ["a"], ["y"])], x=(I64, ["b"])))))


def _marks(found: Domains) -> tuple[Any, ...]:
    domain = found.inputs.get("x")
    return domain.every.marks if domain and domain.every else ()


def test_negative_numbers_where_a_remainder_is_taken():
    """Whole ones around the multiples; floats keep away from these."""
    whole = every(analyse(model([node("Mod", ["x", "m"], ["y"])], {"m": np.int64(7)}, x=(I64, ["b"]))))
    assert {-8, -7, -1, 6, 7, 8} <= set(whole.marks)
    nodes = [node("Mod", ["x", "m"], ["y"], fmod=1)]
    floats = every(analyse(model(nodes, {"m": np.float32(7)}, x=(F, ["b"]))))
    assert min(floats.marks, key=float) < 0 and all(mark % 7 for mark in floats.marks)  # type: ignore[operator,arg-type]


@pytest.mark.parametrize(("op", "lowest"), [("ArgMax", False), ("ArgMin", True)])
def test_equal_values_where_the_best_is_looked_for(op, lowest):
    """In a row of its own each, as the best and as all."""
    found = analyse(model([node(op, ["x"], ["y"], axis=-1)], x=(F, ["b", 3])))
    rows = [[box["x", place][0] for place in range(3)] for box in found.boxes]
    best = 0.0 if lowest else 1.0
    assert [best, best, 1 - best] in rows and [best] * 3 in rows
    assert found.origins == (Origin.CONSTANTS,)


@pytest.mark.parametrize(
    "nodes", [[node("IsNaN", ["x"], ["y"])], [node("Equal", ["x", "x"], ["a"]), node("Not", ["a"], ["y"])]]
)
def test_who_asks_for_missing_values_gets_some(nodes):
    """Also where a value is compared with itself."""
    assert every(analyse(model(nodes, x=(F, ["b", 3])))).missing


def test_pixels():
    """uint8, and floats that are divided by 255."""
    nodes = [node("Cast", ["x"], ["a"], to=F), node("Conv", ["a", "w"], ["y"])]
    constants = {"w": np.zeros((1, 3, 1, 1), np.float32), "d": np.float32(255)}
    values = every(analyse(model(nodes, constants, x=(U8, ["b", 3, 8, 8]))))
    assert (values.low, values.high, values.origins) == (0, 255, (Origin.IMAGES,))
    nodes = [node("Div", ["x", "d"], ["a"]), node("Conv", ["a", "w"], ["y"])]
    values = every(analyse(model(nodes, constants, x=(F, ["b", 3, 8, 8]))))
    assert (values.low, values.high, values.origins) == (0, 255, (Origin.IMAGES,))


def test_statistics_of_the_first_normalisation():
    """Of each column; of images, of all channels together."""
    nodes = [node("BatchNormalization", ["x", "s", "o", "m", "v"], ["y"])]
    constants = {"s": np.ones(2), "o": np.zeros(2), "m": np.array([100.0, -3]), "v": np.array([25.0, 4])}
    constants = {name: array.astype(np.float32) for name, array in constants.items()}
    columns = analyse(model(nodes, constants, x=(F, ["b", 2]))).inputs["x"].columns
    assert [(values.centre, round(values.spread or 0)) for values in columns.values()] == [(100, 5), (-3, 2)]
    values = every(analyse(model(nodes, constants, x=(F, ["b", 2, 4, 4]))))
    assert values.centre == 48.5
    assert values.spread == pytest.approx(np.sqrt(14.5 + 51.5**2), rel=1e-3)


def test_a_scaler_made_of_plain_operators():
    """(x − mean) / deviation for each column, then weights."""
    nodes = [node("Sub", ["x", "m"], ["a"]), node("Div", ["a", "s"], ["b"]), node("Gemm", ["b", "w"], ["y"])]
    constants = {"m": np.array([10, 1000], np.float32), "s": np.array([2, 50], np.float32)}
    found = analyse(model(nodes, constants | {"w": np.ones((2, 2), np.float32)}, x=(F, ["b", 2])))
    columns = found.inputs["x"].columns
    assert [(values.centre, values.spread) for values in columns.values()] == [(10, 2), (1000, 50)]


def test_a_double_that_is_compared_as_a_float_keeps_further_away():
    """A rounding to float32 is 2^29 times as coarse."""
    nodes = [node("Cast", ["x"], ["a"], to=F), node("Less", ["a", "t"], ["y"])]
    values = every(analyse(model(nodes, {"t": np.float32(3)}, x=(D, ["b", 2]))))
    assert values.cuts[0].reach == 3 * 2**29


# Encoders


@pytest.mark.parametrize(
    ("attributes", "kind", "choices", "unknown"),
    [
        ({"keys_strings": ["a", "b"], "values_int64s": [0, 1]}, S, ("a", "b"), "unknown"),
        ({"keys_int64s": [3, 5], "values_floats": [0.0, 1.0]}, I64, (3, 5), 6),
        ({"keys_floats": [0.5, float("nan")], "values_int64s": [0, 1]}, F, (0.5,), 1.5),
    ],
)
def test_categories_of_a_label_encoder(attributes, kind, choices, unknown):
    """Each, and one that it doesn't know; a key that isn't a number stands for what is missing."""
    nodes = [node("LabelEncoder", ["x"], ["y"], domain=ML, **attributes)]
    values = analyse(model(nodes, x=(kind, ["b", 1]))).inputs["x"].columns[0]
    assert (values.choices, values.unusual) == (choices, (unknown,))
    assert values.missing is (kind == F)


def test_categories_in_tensors_and_in_a_mapper():
    """Newer and older forms of the same."""
    keys = numpy_helper.from_array(np.array(["a", "b"], dtype=object), "keys")
    values = helper.make_tensor("values", I64, [2], [0, 1])
    nodes = [node("LabelEncoder", ["x"], ["y"], domain=ML, keys_tensor=keys, values_tensor=values)]
    assert every(analyse(model(nodes, opsets={ML: 4}, x=(S, ["b"])))).choices == ("a", "b")
    nodes = [node("CategoryMapper", ["x"], ["y"], domain=ML, cats_strings=["u", "v"], cats_int64s=[4, 9])]
    assert every(analyse(model(nodes, x=(S, ["b"])))).choices == ("u", "v")
    assert every(analyse(model(nodes, x=(I64, ["b"])))).choices == (4, 9)


@pytest.mark.parametrize("zeros", [0, 1])
def test_an_unknown_category_where_zeros_stand_for_it(zeros):
    """Where an encoder refuses it, none is fed; categories of floats are floats, with no halves between."""
    nodes = [
        node("Cast", ["x"], ["a"], to=I64),
        node("OneHotEncoder", ["a"], ["y"], domain=ML, cats_int64s=[2, 4], zeros=zeros),
    ]
    values = analyse(model(nodes, x=(F, ["b", 1]))).inputs["x"].columns[0]
    assert (values.choices, values.marks, values.unusual) == ((2.0, 4.0), (), (5.0,) if zeros else ())


def test_an_imputer_knows_what_is_missing():
    """NaN, or a number that stands for it."""
    nodes = [node("Imputer", ["x"], ["y"], domain=ML, imputed_value_floats=[1.0], replaced_value_float=float("nan"))]
    assert every(analyse(model(nodes, x=(F, ["b", 2])))).missing
    nodes = [node("Imputer", ["x"], ["y"], domain=ML, imputed_value_floats=[1.0], replaced_value_float=-999.0)]
    values = every(analyse(model(nodes, x=(F, ["b", 2]))))
    assert (values.missing, values.marks, values.origins) == (False, (-999.0,), (Origin.MISSING,))


def test_rows_so_small_that_the_epsilon_of_a_normalisation_is_seen():
    """Around 0, with deviations about its root; behind a layer nobody knows how small they have to be."""
    normed = node("LayerNormalization", ["x", "w"], ["y"], epsilon=1e-4)
    constants = {"w": np.ones(6, np.float32), "m": np.ones((6, 6), np.float32)}
    found = analyse(model([normed], constants, x=(F, ["b", 6])))
    assert found.origins == (Origin.CONSTANTS,)
    rows = np.array([[box["x", place][0] for place in range(6)] for box in found.boxes], dtype=np.float64)
    assert rows.std(axis=1).min() < 1e-2 < rows.std(axis=1).max()
    behind = [node("MatMul", ["x", "m"], ["h"]), node("LayerNormalization", ["h", "w"], ["y"])]
    assert analyse(model(behind, constants, x=(F, ["b", 6]))).boxes == ()


@pytest.mark.parametrize(("number", "rows"), [(-1e4, 4), (-1e9, 4), (0.0, 0), (-3.4e38, 0), (-np.inf, 0)])
def test_rows_beyond_a_number_that_stands_for_minus_infinity(number, rows):
    """All values of a row are beyond it; where nothing can be, no row is."""
    chosen = node("Where", ["mask", "x", "low"], ["y"])
    found = analyse(model([chosen], {"low": np.float32(number)}, x=(F, ["b", 3]), mask=(B, ["b", 3])))
    assert len(found.boxes) == rows
    fed = [box["x", place][0] for box in found.boxes for place in range(3)]
    assert (np.array(fed, dtype=np.float64) < number).all()


def test_rows_of_zeros_and_support_vectors():
    """In the values that are fed: before the scaler. Points that a distance is computed to are the same."""
    nodes = [
        node("Scaler", ["x"], ["a"], domain=ML, offset=[10.0, 20.0], scale=[0.5, 0.25]),
        node("Binarizer", ["x"], ["b"], domain=ML, threshold=3.0),
        node("Normalizer", ["x"], ["c"], domain=ML),
        node(
            "SVMRegressor",
            ["a"],
            ["y"],
            domain=ML,
            support_vectors=[1.0, 2, 3, 4],
            n_supports=2,
            coefficients=[1.0, -1],
        ),
    ]
    found = analyse(model(nodes, x=(F, ["b", 2])))
    assert {tuple(box["x", place][0] for place in (0, 1)) for box in found.boxes} == {(0, 0), (12, 28), (16, 36)}
    assert found.origins == (Origin.CONSTANTS, Origin.POINTS)
    columns = found.inputs["x"].columns
    assert [cuts(columns[place]) for place in (0, 1)] == [[3.0], [3.0]]


def test_points_that_distances_are_computed_to():
    """Each row against the rows of a constant, in one step or one by one in a body."""
    points = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    nodes = [
        node("Unsqueeze", ["x", "one"], ["a"]),
        node("Sub", ["a", "points"], ["b"]),
        node("Mul", ["b", "b"], ["y"]),
    ]
    found = analyse(model(nodes, {"points": points[None], "one": np.array([1])}, x=(F, ["b", 3])))
    rows = [tuple(box["x", place][0] for place in range(3)) for box in found.boxes]
    assert (rows, found.origins) == ([(1, 2, 3), (4, 5, 6)], (Origin.POINTS,))
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Identity", ["all"], ["still"]),
            node("Sub", ["all", "row"], ["d"]),
            node("ReduceSumSquare", ["d", "axes"], ["s"], keepdims=0),
        ],
        "body",
        [value("all", F, ["b", 3]), value("row", F, [3])],
        [value("still", F, ["b", 3]), value("s", F, ["b"])],
        [numpy_helper.from_array(np.array([1]), "axes")],
    )
    nodes = [node("Scan", ["x", "points"], ["same", "y"], body=body, num_scan_inputs=1)]
    assert analyse(model(nodes, {"points": points}, x=(F, ["b", 3]))).boxes == found.boxes


# Trees


def ensemble(mode: str, missing: int = 0) -> onnx.NodeProto:
    """One tree of one node: x[1] against 5."""
    return node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_values=[5.0, 0, 0],
        nodes_modes=[mode, "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[missing, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
def test_the_boxes_of_a_tree_lead_to_its_leaves(mode):
    """Whichever way it asks."""
    made = model([ensemble(mode)], x=(F, ["b", 2]))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", F, ["b", 1]))
    found = analyse(made)
    values = found.inputs["x"].columns[1]
    assert (cuts(values), values.missing, values.origins) == ([5.0], False, (Origin.THRESHOLDS,))
    rows = [[0.0, np.clip(0.0, low + 1, high - 1)] for box in found.boxes for low, high in [box["x", 1]]]  # type: ignore[operator]
    answers = ort.InferenceSession(made.SerializeToString()).run(None, {"x": np.array(rows, np.float32)})[0]
    assert sorted(answers.ravel().tolist()) == [1.0, 2.0]


@pytest.mark.parametrize("mode", ["BRANCH_EQ", "BRANCH_NEQ"])
def test_a_tree_that_looks_for_a_category(mode):
    """Exactly this value, and another one; and what is missing, where the tree has a way for it."""
    found = analyse(model([ensemble(mode, missing=1)], x=(F, ["b", 2])))
    values = found.inputs["x"].columns[1]
    assert (set(values.marks), values.missing) == ({5.0, 6.0}, True)
    assert sorted(box["x", 1] for box in found.boxes) == [(5.0, 5.0), (6.0, 6.0)]


def test_the_newest_form_of_trees():
    """Leaves apart from nodes, and sets of members."""
    tensor = helper.make_tensor
    nodes = [
        node(
            "TreeEnsemble",
            ["x"],
            ["y"],
            domain=ML,
            n_targets=1,
            tree_roots=[0],
            nodes_featureids=[0, 1],
            nodes_splits=tensor("s", F, [2], [3.5, 0.0]),
            nodes_modes=tensor("m", U8, [2], [0, 6]),
            nodes_truenodeids=[1, 1],
            nodes_trueleafs=[0, 1],
            nodes_falsenodeids=[0, 2],
            nodes_falseleafs=[1, 1],
            leaf_targetids=[0, 0, 0],
            leaf_weights=tensor("w", F, [3], [1.0, 2.0, 3.0]),
            membership_values=tensor("v", F, [2], [7.0, 8.0]),
        )
    ]
    found = analyse(model(nodes, opsets={ML: 5}, x=(F, ["b", 2])))
    assert cuts(found.inputs["x"].columns[0]) == [3.5]
    assert set(found.inputs["x"].columns[1].marks) == {7.0, 8.0, 9.0}
    assert len(found.boxes) == 3


# Converted models


def test_a_pipeline_is_read_back_to_its_raw_columns(tmp_path):
    """Columns of an imputer, a scaler and two encoders; rows for every leaf of a forest on top."""
    pd = pytest.importorskip("pandas")
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rng = np.random.default_rng(0)
    data = pd.DataFrame({"age": rng.normal(50, 10, 300), "income": rng.normal(5e4, 1e4, 300)}, dtype=np.float32)
    data["city"] = rng.choice(["Ulm", "Bonn", "Kiel"], 300)
    target = data.age + data.income / 1e3 + (data.city == "Bonn") * 30
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [("n", numbers, ["age", "income"]), ("c", OneHotEncoder(handle_unknown="ignore"), ["city"])]
    )
    pipe = make_pipeline(columns, RandomForestRegressor(4, max_depth=5, random_state=0)).fit(data, target)
    types = [("age", FloatTensorType([None, 1])), ("income", FloatTensorType([None, 1]))]
    made = skl2onnx.convert_sklearn(pipe, initial_types=[*types, ("city", StringTensorType([None, 1]))])
    found = analyse(made)

    age, income, city = (found.inputs[name].columns[0] for name in ("age", "income", "city"))
    assert (age.missing, income.missing) == (True, True)
    assert (age.centre, income.spread) == pytest.approx((data.age.mean(), data.income.std(ddof=0)), rel=1e-4)
    assert (sorted(map(str, city.choices)), city.unusual) == (["Bonn", "Kiel", "Ulm"], ("unknown",))
    assert age.cuts and all(data.age.min() < cut.at < data.age.max() and cut.reach >= 49 for cut in age.cuts)

    usual = {"age": 50.0, "income": 5e4, "city": "Kiel"}
    rows = [
        {name: between(*box[name, 0]) if (name, 0) in box else usual[name] for name in usual} for box in found.boxes
    ]
    leaves = pipe[-1].apply(pipe[:-1].transform(pd.DataFrame(rows)))
    for number, tree in enumerate(pipe[-1].estimators_):
        every_leaf = set(np.flatnonzero(tree.tree_.children_left < 0))
        assert set(leaves[:, number]) == every_leaf


def between(low: Any, high: Any) -> Any:
    """A value inside of what a box says of a column."""
    if low == high:
        return low
    if np.isfinite(low) and np.isfinite(high):
        return (low + high) / 2
    return low + 1e-3 if np.isfinite(low) else high - 1e-3


@pytest.mark.extras
def test_trees_of_a_booster(tmp_path):
    """Both sides of each threshold give different answers, and missing values are asked for."""
    lightgbm = pytest.importorskip("lightgbm")
    onnxmltools = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    rng = np.random.default_rng(0)
    x = rng.normal(1000, 50, (400, 3))
    x[::7, 1] = np.nan
    y = np.where(np.isnan(x[:, 1]), 5.0, x[:, 1] / 100) + x[:, 0] / 50
    booster = lightgbm.LGBMRegressor(n_estimators=2, num_leaves=4, verbose=-1).fit(x, y)
    made = onnxmltools.convert_lightgbm(booster, initial_types=[("x", FloatTensorType([None, 3]))])
    found = analyse(made)
    columns = found.inputs["x"].columns
    assert columns[1].missing
    thresholds = {round(cut.at, 3) for values in columns.values() for cut in values.cuts}
    dumped = booster.booster_.trees_to_dataframe().threshold.dropna()
    assert thresholds == {round(float(np.float32(each)), 3) for each in dumped}


@pytest.mark.extras
def test_words_of_a_vectorizer():
    """Each alone and some together, and texts that hold none of them."""
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2)).fit(["red wine from Spain", "white wine"])
    made = skl2onnx.to_onnx(vectorizer, initial_types=[("t", StringTensorType([None, 1]))])
    values = analyse(made).inputs["t"].columns[0]
    assert set(vectorizer.get_feature_names_out()) <= set(values.choices)
    assert {"", "unknown"} <= set(values.marks)
    assert values.origins == (Origin.VOCABULARY,)


@pytest.mark.filterwarnings("ignore")
def test_a_transformer_with_positions_and_a_mask(tmp_path):
    """Rows of three tables, 0 and 1, and the longest sequence."""
    torch = pytest.importorskip("torch")

    class Encoder(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(50, 8, padding_idx=1)
            self.places = torch.nn.Embedding(16, 8)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, ids: Any, mask: Any) -> Any:
            h = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            scores = h @ h.transpose(1, 2) + (1.0 - mask[:, None, :].float()) * -1e9
            return self.head((scores.softmax(-1) @ h * mask[..., None]).sum(1))

    example = (torch.zeros(3, 7, dtype=torch.int64), torch.ones(3, 7, dtype=torch.int64))
    program = torch.onnx.export(
        Encoder().eval(),
        example,
        dynamo=True,
        input_names=["ids", "mask"],
        dynamic_shapes=[{0: "batch", 1: "seq"}] * 2,
        verbose=False,
    )
    program.save(tmp_path / "m.onnx")
    found = analyse(tmp_path / "m.onnx")
    assert (every(found, "ids").low, every(found, "ids").high) == (0, 49)
    assert (every(found, "mask").choices, every(found, "mask").never_empty) == ((0, 1), True)
    assert found.longest == {"seq": 16}


# All sorts


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_graph_of_the_standard_breaks_the_analysis():
    """Real exports, and the examples of operators that have a part in it: nodes of every kind, none raises."""
    found = [
        case.model_dir
        for kind in ("simple", "pytorch-converted", "pytorch-operator")
        for case in load_model_tests(kind=kind)
    ]
    paths = [path for folder in found if folder and (path := Path(folder) / "model.onnx").exists()]
    # Importing all of them, as the loader does, takes as long as the rest of this file.
    for name in (
        "gather",
        "slice",
        "cast",
        "ai_onnx_ml.tree_ensemble",
        "ai_onnx_ml.label_encoder",
        "tfidfvectorizer",
        "mod",
        "where",
        "loop",
        "if_",
    ):
        importlib.import_module(f"{node_cases.__name__}.{name}")
    cases = [case.model for case in node_cases._NodeTestCases]
    models: list[Any] = [*paths, *(made for made in cases if made is not None)]
    assert len(models) >= 200
    for made in models:
        assert isinstance(analyse(made), Domains)


def test_what_cant_be_read_says_nothing(tmp_path):
    """A file that isn't there or isn't one; a node that its operator doesn't allow is left out alone."""
    assert domains_of(tmp_path / "none.onnx") == NOTHING_KNOWN
    (tmp_path / "m.onnx").write_bytes(b"\xff\x00 no model")
    assert domains_of(tmp_path / "m.onnx") == NOTHING_KNOWN
    nodes = [node("Transpose", ["x"], ["a"], perm=[5, 9]), node("Less", ["x", "t"], ["y"])]
    assert cuts(every(domains_of(model(nodes, {"t": np.float32(2)}, x=(F, ["b", 2]))))) == [2.0]


def test_weights_outside_of_the_models_folder_are_not_read(tmp_path):
    """A model is no way to have somebody else's file read."""
    (tmp_path / "secret.bin").write_bytes(np.float32(7).tobytes())
    made = model([node("Less", ["x", "t"], ["y"])], {"t": np.zeros((), np.float32)}, x=(F, ["b", 2]))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for location, expected in (("../secret.bin", []), ("own.bin", [7.0])):
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=location)
        (tmp_path / "m").mkdir(exist_ok=True)
        (tmp_path / "m" / "own.bin").write_bytes(np.float32(7).tobytes())
        onnx.save(made, tmp_path / "m" / "m.onnx")
        found = domains_of(tmp_path / "m" / "m.onnx")
        assert ([cut.at for cut in every(found).cuts] if found.inputs else []) == expected


def test_a_large_graph_is_read_quickly():
    """1,000 nodes, each of which changes every column."""
    nodes = [node("Add", [f"v{n}" if n else "x", "w"], [f"v{n + 1}"]) for n in range(1000)]
    made = model([*nodes, node("Less", ["v1000", "w"], ["y"])], {"w": np.ones(8, np.float32)}, x=(F, ["b", 8]))
    start = time.process_time()
    found = analyse(made)
    assert time.process_time() - start < 2
    assert cuts(found.inputs["x"].columns[3]) == [-999]


def test_a_forest_keeps_to_its_rows():
    """Some of each tree, the same in every run."""
    depth, trees = 10, 20
    size = 2**depth - 1
    ids = np.arange(size)
    leaf = ids >= size // 2
    forest = node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        nodes_treeids=np.repeat(np.arange(trees), size).tolist(),
        nodes_nodeids=np.tile(ids, trees).tolist(),
        nodes_featureids=np.tile(np.log2(ids + 1).astype(int), trees).tolist(),
        nodes_values=np.random.default_rng(0).normal(0, 3, size * trees).astype(np.float32).tolist(),
        nodes_modes=np.tile(np.where(leaf, "LEAF", "BRANCH_LEQ"), trees).tolist(),
        nodes_truenodeids=np.tile(np.where(leaf, 0, 2 * ids + 1), trees).tolist(),
        nodes_falsenodeids=np.tile(np.where(leaf, 0, 2 * ids + 2), trees).tolist(),
    )
    made = model([forest], x=(F, ["b", depth]))
    found = analyse(made)
    assert len(found.boxes) == MOST_BOXES
    assert found == analyse(made)
