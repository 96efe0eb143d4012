"""Edge cases: which ones a schema has a place for, and what they feed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import DimLimits, InputSpec, Location, ModelSpec
from onnx_gate.vocabulary import EDGES
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.inputs.cases import plan_cases
from onnx_gate.worker.inputs.data import Dataset, Recorded
from onnx_gate.worker.inputs.edges import NEEDS, plan_edges

FLOATS = {"tiny", "huge", "negative-zero", "denormal"}
ROWS = {"empty-batch", "single-row", "odd-batch", "large-batch", "repeated-rows", "permuted-rows", "row-consistency"}
TEXT = {"unknown-category", "empty-string", "non-ascii"}
ENDS = {"lowest", "highest"}


def spec(*inputs: InputSpec, edges="all", **keys) -> ModelSpec:
    return ModelSpec(
        id="m",
        line=1,
        framework="onnx",
        folder="/",
        source=Location(shown="m.onnx"),
        inputs=inputs,
        edges=edges,
        **keys,
    )


def x(dtype: str, shape=("batch", 3), **keys) -> InputSpec:
    return InputSpec(name="x", dtype=dtype, shape=shape, **keys)


def cases_of(model: ModelSpec, dataset: Dataset | None = None) -> dict[str, Case]:
    return {case.edge: case for case in plan_edges(model, dataset)}


def call_of(model: ModelSpec, edge: str, dataset: Dataset | None = None) -> Call:
    (call,) = cases_of(model, dataset)[edge].calls()
    return call


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (x("float32"), {"zeros", "ones"} | FLOATS | ROWS),
        (x("float64"), {"zeros", "ones"} | FLOATS | ROWS),
        (x("float16"), {"zeros", "ones"} | FLOATS | ROWS),
        (x("bfloat16"), {"zeros", "ones"} | FLOATS | ROWS),
        (x("float32", range=(5, 9)), ENDS | ROWS),
        (x("float32", range=(-1, 1)), {"zeros", "ones", "tiny", "negative-zero", "denormal"} | ENDS | ROWS),
        (x("float32", values=(0, 1)), {"zeros", "ones", "negative-zero"} | ENDS | ROWS),
        (x("float32", allow=frozenset({"nan"})), {"zeros", "ones", "nan"} | FLOATS | ROWS),
        (
            x("float32", range=(5, 9), allow=frozenset({"inf"})),
            {"infinity", "negative-infinity"} | ENDS | ROWS,
        ),
        (x("int64"), {"zeros", "ones"} | ROWS),
        (x("uint8"), {"zeros", "ones"} | ROWS),
        (x("int64", range=(3, 99)), ENDS | ROWS),
        (x("int32", values=(3, 4)), {"unknown-category"} | ENDS | ROWS),
        (x("int8", values=(0, 127)), {"zeros", "unknown-category"} | ENDS | ROWS),
        (x("bool"), {"zeros", "ones"} | ROWS),
        (x("string"), TEXT | ROWS),
        (x("string", values=("a", "b")), {"unknown-category"} | ROWS),
        (x("string", values=("", "ä")), TEXT | ROWS),
        (x("float32", shape=(2, 3)), {"zeros", "ones"} | FLOATS),
        (x("float32", shape=()), {"zeros", "ones"} | FLOATS),
    ],
)
def test_a_schema_has_the_edges_that_it_has_a_place_for(given, expected):
    """In the order of the reports; each one in the schema's dtype."""
    cases = cases_of(spec(given))
    assert list(cases) == [name for name in EDGES if name in expected]
    for case in cases.values():
        for call in case.calls():
            assert str(call.feed["x"].dtype) == ("object" if given.dtype == "string" else given.dtype)
            assert len(call.feed["x"].shape) == len(given.shape)


@pytest.mark.parametrize(
    ("edge", "given", "value"),
    [
        ("zeros", x("int64"), 0),
        ("ones", x("float16"), 1),
        ("lowest", x("float32", range=(-2, 5)), -2),
        ("highest", x("int64", range=(0, 30521)), 30521),
        ("highest", x("int8", range=(0, 1000)), 127),
        ("lowest", x("int64", values=(7, 3, 5)), 3),
        ("tiny", x("float32"), np.float32(1e-30)),
        ("huge", x("float16"), 1e4),
        ("denormal", x("float64"), 1e-310),
    ],
)
def test_a_value_fills_the_whole_input(edge, given, value):
    """Of each dtype the one that it can hold."""
    array = call_of(spec(given), edge).feed["x"]
    assert (array == value).all()
    assert array.size


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_denormals_are_denormal(dtype):
    """Not 0, and below the smallest normal number."""
    import ml_dtypes

    array = call_of(spec(x(dtype)), "denormal").feed["x"]
    assert (array > 0).all()
    assert (array < ml_dtypes.finfo(array.dtype).tiny).all()


def test_a_negative_zero_keeps_its_sign():
    """Which == can't tell."""
    assert np.signbit(call_of(spec(x("float32")), "negative-zero").feed["x"]).all()


@pytest.mark.parametrize(
    ("edge", "given", "found"),
    [
        ("nan", x("float32", allow=frozenset({"nan"})), np.isnan),
        ("infinity", x("float32", allow=frozenset({"inf"})), np.isposinf),
        ("negative-infinity", x("float64", allow=frozenset({"inf"})), np.isneginf),
        ("unknown-category", x("int64", values=(1, 2)), lambda array: array == 3),
        ("unknown-category", x("string", values=("a",)), lambda array: array != "a"),
        ("empty-string", x("string"), lambda array: array == ""),
        (
            "non-ascii",
            x("string"),
            np.vectorize(lambda text: not text.isascii()),
        ),
    ],
)
def test_what_is_strange_stands_among_ordinary_rows(edge, given, found):
    """The first row is all of it, others hold some: a model that answers nothing else would hide much."""
    strange = found(call_of(spec(given), edge).feed["x"])
    assert strange[0].all()
    assert np.count_nonzero(~strange) > 0


def test_inputs_that_cannot_take_a_value_stay_ordinary():
    """`zeros` of a number beside a text."""
    word = InputSpec(name="word", dtype="string", shape=("batch",), values=("a", "b"))
    feed = call_of(spec(x("float32"), word), "zeros").feed
    assert not feed["x"].any()
    assert set(feed["word"]) <= {"a", "b"}


DATA = Dataset(
    inputs={"x": np.arange(12, dtype=np.float32).reshape(4, 3), "scale": np.ones(2, np.float32)},
    batch_axes={"x": 0},
    rows=4,
)
SCALE = InputSpec(name="scale", dtype="float32", shape=(2,))


@pytest.mark.parametrize("edge", sorted(ROWS))
def test_rows_come_from_the_data(edge):
    """As many as the edge wants, again from the first where the data has fewer; the rest whole."""
    case = cases_of(spec(x("float32"), SCALE), DATA)[edge]
    (call,) = case.calls()
    assert len(call.feed["x"]) == case.sizes["batch"]
    assert {tuple(row) for row in call.feed["x"]} <= {tuple(row) for row in DATA.inputs["x"]}
    assert call.feed["scale"].shape == (2,)


def test_edges_of_rows_have_their_sizes():
    """One, an odd number, many, none."""
    sizes = {edge: case.sizes["batch"] for edge, case in cases_of(spec(x("float32"))).items() if edge in ROWS}
    assert (sizes["empty-batch"], sizes["single-row"], sizes["odd-batch"], sizes["large-batch"]) == (0, 1, 13, 257)


def test_a_large_batch_is_bounded_by_its_elements():
    """Images of 150,528 numbers: 27 of them; and none where a row is so large itself."""
    images = cases_of(spec(x("float32", shape=("batch", 3, 224, 224))))
    assert images["large-batch"].sizes["batch"] == 27
    assert "large-batch" not in cases_of(spec(x("float32", shape=("batch", 1000, 1000))))


def test_repeated_rows_are_one_row():
    """As often as there are rows."""
    rows = call_of(spec(x("float32")), "repeated-rows").feed["x"]
    assert len(rows) > 1
    assert (rows == rows[0]).all()


def test_the_answers_to_permuted_rows_are_asked_in_their_first_order():
    """`order` leads from the one to the other."""
    call = call_of(spec(x("float32")), "permuted-rows")
    (first,) = call.asked
    assert call.order is not None
    assert np.array_equal(first["x"][list(call.order)], call.feed["x"])
    assert not np.array_equal(first["x"], call.feed["x"])


def test_the_answers_to_rows_are_asked_for_each_row_alone():
    """One feed a row, along whatever dimension the batch is; what has none goes with each."""
    given = x("float32", shape=("seq", "batch"))
    call = call_of(spec(given, SCALE, dims={"seq": (4,)}), "row-consistency")
    assert call.feed["x"].shape == (4, 5)
    assert [row["x"].shape for row in call.asked] == [(4, 1)] * 5
    assert np.array_equal(np.concatenate([row["x"] for row in call.asked], axis=1), call.feed["x"])
    assert all(row["scale"].shape == (2,) for row in call.asked)


def test_the_ends_of_each_dimension():
    """Of the sizes to try, and of the limits where those go further."""
    given = x("int64", shape=("batch", "seq", "width"))
    dims = {"seq": (16, 32), "width": (8, 24)}
    cases = cases_of(spec(given, dims=dims, dim_limits={"seq": DimLimits(min=3, max=130, multiple=8)}))
    assert [cases[edge].sizes["seq"] for edge in ("shortest", "longest")] == [8, 128]
    assert [cases[edge].sizes["width"] for edge in ("shortest", "longest")] == [8, 24]
    (call,) = cases["longest"].calls()
    assert call.feed["x"].shape[1:] == (128, 24)


@pytest.mark.parametrize("edge", EDGES)
def test_a_listed_edge_without_a_place_is_an_error(edge):
    """It says what it needs; the same from the defaults is passed by."""
    given = x("bool", shape=(2,), values=(False,)) if edge in ("ones",) else x("string", shape=(2,), values=("a",))
    if edge == "unknown-category":
        given = x("float32", shape=(2,))
    with pytest.raises(CannotJudge) as caught:
        plan_edges(spec(given, edges=(edge,), own=frozenset({"edges"})), None)
    assert str(caught.value) == f"edges: the schema has no place for `{edge}`: `{edge}` needs {NEEDS[edge]}"
    assert "remove it from `edges`" in caught.value.fix
    assert plan_edges(spec(given, edges=(edge,)), None) == []


def test_all_edges_without_a_place_are_named_at_once():
    """Nobody wants to correct one after the other."""
    model = spec(x("float32"), edges=("zeros", "nan", "shortest"), own=frozenset({"edges"}))
    with pytest.raises(CannotJudge, match="no place for `nan`, `shortest`"):
        plan_edges(model, None)


def test_only_listed_edges_are_fed():
    """And the source has to answer them, unlike those of `all`."""
    listed = plan_edges(spec(x("float32"), edges=("ones", "zeros"), own=frozenset({"edges"})), None)
    assert [(case.name, case.optional) for case in listed] == [("edge=zeros", False), ("edge=ones", False)]
    assert all(case.optional for case in plan_edges(spec(x("float32")), None))


def test_recorded_calls_have_no_edges():
    """Nobody can be asked: a note, or an error where the model lists them."""
    dataset = Dataset(recorded=(Recorded(name="recorded", inputs={}, outputs={"y": np.ones(1)}),))
    assert "edge cases were not run" in plan_cases(spec(x("float32")), dataset)[1][0]
    with pytest.raises(CannotJudge, match="made of recorded calls"):
        plan_cases(spec(x("float32"), edges=("zeros",), own=frozenset({"edges"})), dataset)


def test_feeds_are_the_same_each_time_they_are_made():
    """Only one is in memory, and every provider gets the same."""
    given = x("float32", allow=frozenset({"nan"}))
    for case in plan_edges(spec(given), None):
        first, second = (next(case.calls()).feed["x"] for _ in range(2))
        assert first is not second
        assert np.array_equal(first, second, equal_nan=True), case.name


def test_nothing_is_infinite_unless_the_schema_allows_it():
    """Nor NaN: most models have no answer to those."""
    for case in plan_edges(spec(x("float32")), None):
        for call in case.calls():
            assert math.isfinite(float(call.feed["x"].sum()))
