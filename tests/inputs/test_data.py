"""Data files → arrays in the schema's dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, Location, ModelSpec, ReproSpec
from onnx_gate.records.found import Graph, GraphValue
from onnx_gate.worker.inputs.cases import outputs_by_row, plan_cases
from onnx_gate.worker.inputs.data import load_dataset

X = InputSpec(name="x", dtype="float32", shape=("batch", 3))
Y = GraphValue(name="y", dtype="float32", shape=None)


def spec(path: Path, *inputs: InputSpec, **keys) -> ModelSpec:
    return ModelSpec(
        id="m",
        line=1,
        framework=keys.pop("framework", "onnx"),
        folder=str(path.parent),
        source=Location(shown="m.onnx"),
        inputs=inputs or (X,),
        data=Location(file=str(path), shown=path.name),
        **keys,
    )


@pytest.mark.parametrize(
    ("names", "offered"),
    [
        (("mask_in", "words"), "`feed: {tokens: words, mask: mask_in}`"),
        (("the_mask", "ids"), "`feed: {tokens: ids, mask: the_mask}`"),
        (("u",), "`feed: {tokens: u}`"),
        (("u", "v", "w"), "`feed: {tokens: u, mask: v}`"),
    ],
)
def test_the_offered_feed_names_every_input(tmp_path, names, offered):
    """As far as there are arrays: names that are alike come together, the others in their order."""
    arrays: dict[str, Any] = {name: np.zeros((2, 3)) for name in names}
    np.savez(tmp_path / "d.npz", **arrays)
    inputs = [InputSpec(name=name, dtype="float32", shape=("batch", 3)) for name in ("tokens", "mask")]
    with pytest.raises(CannotJudge) as refused:
        load_dataset(spec(tmp_path / "d.npz", *inputs), ())
    assert offered in refused.value.fix


@pytest.mark.parametrize("dtype", [">f4", ">f8", "<f8", "float64", "int32", "bool", "float16"])
def test_numbers_keep_their_values_in_the_schemas_dtype(tmp_path, dtype):
    """Big-endian arrays, which ONNX Runtime takes for garbage, among them."""
    array = np.array([[0, 1, 0], [1, 0, 1]]).astype(dtype)
    np.savez(tmp_path / "d.npz", x=array)
    loaded = load_dataset(spec(tmp_path / "d.npz"), ()).inputs["x"]
    assert loaded.dtype == np.dtype("float32")
    assert loaded.dtype.isnative
    assert np.array_equal(loaded, array.astype(np.float32))


def test_integers_that_do_not_fit_are_refused(tmp_path):
    """They would wrap around."""
    np.savez(tmp_path / "d.npz", x=np.full((2, 3), 300))
    narrow = InputSpec(name="x", dtype="int8", shape=("batch", 3))
    with pytest.raises(CannotJudge, match="don't fit into int8"):
        load_dataset(spec(tmp_path / "d.npz", narrow), ())


def test_a_fraction_is_no_integer(tmp_path):
    """Nothing is rounded silently."""
    np.savez(tmp_path / "d.npz", x=np.full((2, 3), 0.5))
    whole = InputSpec(name="x", dtype="int64", shape=("batch", 3))
    with pytest.raises(CannotJudge, match="the dtype is float64, expected int64"):
        load_dataset(spec(tmp_path / "d.npz", whole), ())


def test_npy_feeds_the_only_input(tmp_path):
    """And can't feed two."""
    np.save(tmp_path / "d.npy", np.ones((4, 3)))
    assert load_dataset(spec(tmp_path / "d.npy"), ()).rows == 4
    other = InputSpec(name="y", dtype="float32", shape=("batch", 3))
    with pytest.raises(CannotJudge, match=r"one array for 2 inputs \(x, y\)"):
        load_dataset(spec(tmp_path / "d.npy", X, other), ())


def test_csv_columns_make_up_the_only_input(tmp_path):
    """All of them, the chosen ones, or all but the ignored ones."""
    (tmp_path / "d.csv").write_text("id,a,b,c\nrow1,1,2,3\nrow2,4,5.5,\n")
    chosen = load_dataset(spec(tmp_path / "d.csv", columns=("a", "b", "c")), ()).inputs["x"]
    ignored = load_dataset(spec(tmp_path / "d.csv", ignore_data=("id",)), ()).inputs["x"]
    assert np.array_equal(chosen, np.array([[1, 2, 3], [4, 5.5, np.nan]], np.float32), equal_nan=True)
    assert np.array_equal(chosen, ignored, equal_nan=True)
    with pytest.raises(CannotJudge, match="there is no column 'z'; found: id, a, b, c"):
        load_dataset(spec(tmp_path / "d.csv", columns=("a", "z")), ())


def test_csv_columns_feed_several_inputs_by_name(tmp_path):
    """Each in its own dtype."""
    (tmp_path / "d.csv").write_text("age,city,note\n30,Paris,x\n41,Łódź,y\n")
    age = InputSpec(name="age", dtype="int64", shape=("batch",))
    city = InputSpec(name="city", dtype="string", shape=("batch", 1))
    loaded = load_dataset(spec(tmp_path / "d.csv", age, city, ignore_data=("note",)), ()).inputs
    assert loaded["age"].tolist() == [30, 41]
    assert loaded["city"].tolist() == [["Paris"], ["Łódź"]]


def test_whole_numbers_of_a_csv_stay_what_they_are(tmp_path):
    """Ids beyond what a float can hold; truth values in words."""
    (tmp_path / "d.csv").write_text("id,flag\n9007199254740993,true\n7.0,0\n")
    number = InputSpec(name="id", dtype="int64", shape=("batch",))
    flag = InputSpec(name="flag", dtype="bool", shape=("batch",))
    loaded = load_dataset(spec(tmp_path / "d.csv", number, flag), ()).inputs
    assert loaded["id"].tolist() == [9007199254740993, 7]
    assert loaded["flag"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,a\n1,2\n", "the column 'a' is there twice"),
        ('x\n1\n""\n', "line 3: column 'x' holds nothing, expected a whole number"),
        ("x\n1.5\n", "line 2: column 'x' holds a number, expected a whole number"),
        ("x\n\n1\n\ntwo\n", "line 5: column 'x' holds text of 3 characters, expected a whole number"),
        ("x\n1,2\n", "line 2 has 2 fields, expected 1 as in the header"),
        ("x\n99999999999999999999\n", "column 'x': the number in line 2 doesn't fit into int64"),
    ],
)
def test_a_csv_that_cannot_be_read_names_the_line(tmp_path, text, words):
    """And the kind of what stands there, not its value: that is of the user's data."""
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(CannotJudge, match=words):
        load_dataset(spec(tmp_path / "d.csv", InputSpec(name="x", dtype="int64", shape=("batch",))), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\ntwo\n", "line 2: column 'x' holds 'two', expected a whole number"),
        ("x\n99999999999999999999\n", "99999999999999999999 in line 2 doesn't fit into int64"),
    ],
)
def test_the_value_is_shown_where_the_manifest_allows_it(tmp_path, text, words):
    """With `repro: {data: true}`."""
    (tmp_path / "d.csv").write_text(text)
    whole = InputSpec(name="x", dtype="int64", shape=("batch",))
    shown = spec(tmp_path / "d.csv", whole, repro=ReproSpec(data=True))
    with pytest.raises(CannotJudge, match=words):
        load_dataset(shown, ())


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    """A quoted field may go over several; the row is named by the one that it begins in."""
    (tmp_path / "d.csv").write_text('n,x\n"one\ntwo",1\n\n"three\nfour",oops\n')
    whole = InputSpec(name="x", dtype="int64", shape=("batch",))
    with pytest.raises(CannotJudge, match=r"d\.csv: line 5: column 'x' holds text of 4 characters"):
        load_dataset(spec(tmp_path / "d.csv", whole, ignore_data=("n",)), ())


def test_one_column_feeds_an_input_of_one_dimension(tmp_path):
    """As text, say, for a vectorizer."""
    (tmp_path / "d.csv").write_text("review\ngood\nbad\n")
    text = InputSpec(name="x", dtype="string", shape=("batch",))
    assert load_dataset(spec(tmp_path / "d.csv", text), ()).inputs["x"].tolist() == ["good", "bad"]


def test_a_fixed_batch_cuts_longer_data(tmp_path):
    """Every row is fed; the remainder comes with the rows before it."""
    np.savez(tmp_path / "d.npz", x=np.arange(8 * 3).reshape(8, 3))
    fixed = InputSpec(name="x", dtype="float32", shape=(3, 3))
    model = spec(tmp_path / "d.npz", fixed)
    cases, _ = plan_cases(model, load_dataset(model, ()))
    fed = {case.name: [call.feed["x"][:, 0].astype(int).tolist() for call in case.calls()] for case in cases}
    assert fed == {"batch=3": [[0, 3, 6], [9, 12, 15]], "batch=3 (last rows)": [[15, 18, 21]]}


def test_inputs_must_agree_on_their_rows(tmp_path):
    """The message names the input and both counts."""
    other = InputSpec(name="y", dtype="float32", shape=("batch", 3))
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)), y=np.ones((5, 3)))
    with pytest.raises(CannotJudge, match="y: the dimension 'batch' is 5, and 4 in another input"):
        load_dataset(spec(tmp_path / "d.npz", X, other), ())


def test_an_input_without_batch_is_fed_whole(tmp_path):
    """In every call."""
    scale = InputSpec(name="scale", dtype="float32", shape=(2,))
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)), scale=np.array([1, 2]))
    dataset = load_dataset(spec(tmp_path / "d.npz", X, scale), ())
    assert {name: array.shape for name, array in dataset.slice(1, 3).items()} == {"x": (2, 3), "scale": (2,)}


def test_recorded_outputs_are_for_onnx_sources_only(tmp_path):
    """Beside another source a name that is no input is an error."""
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)), y=np.ones((4, 3)))
    (recorded,) = load_dataset(spec(tmp_path / "d.npz"), (Y,)).recorded
    assert recorded.outputs is not None
    assert (recorded.name, recorded.outputs["y"].shape) == ("recorded,batch=4", (4, 3))
    with pytest.raises(CannotJudge, match="'y' is neither an input nor a recorded output"):
        load_dataset(spec(tmp_path / "d.npz", framework="torch"), (Y,))


def test_outputs_recorded_for_other_rows_are_bad_data(tmp_path):
    """Not a breach of the model's contract; outputs that have no row for each are left alone."""
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)), y=np.ones((5, 3)))
    with pytest.raises(CannotJudge, match=r"'y' is of shape \[5, 3\], expected 4 rows") as caught:
        load_dataset(spec(tmp_path / "d.npz"), (Y,), batched=frozenset({"y"}))
    assert caught.value.cause == "load-failed"
    assert load_dataset(spec(tmp_path / "d.npz"), (Y,)).recorded


def test_the_file_tells_which_outputs_have_a_row_for_each():
    """Those whose first dimension is that of an input."""
    values = [
        GraphValue(name="rows", dtype="float32", shape=("N", 4)),
        GraphValue(name="found", dtype="float32", shape=("boxes", 4)),
        GraphValue(name="fixed", dtype="float32", shape=(3,)),
        GraphValue(name="scalar", dtype="float32", shape=()),
        GraphValue(name="undeclared", dtype="float32", shape=None),
    ]
    inputs = (GraphValue(name="x", dtype="float32", shape=("N", 3)), GraphValue(name="k", dtype="int64", shape=(3,)))
    graph = Graph(inputs=inputs, outputs=tuple(values), opsets={}, ir_version=9, nodes=1, size_bytes=1)
    assert outputs_by_row(graph) == {"rows"}


def test_outputs_recorded_for_more_rows_than_the_file_takes_are_bad_data(tmp_path):
    """They can't be cut as the inputs are: nobody says which of them have rows."""
    np.savez(tmp_path / "d.npz", x=np.ones((9, 3), np.float32), y=np.ones((9, 3), np.float32))
    fixed = InputSpec(name="x", dtype="float32", shape=(4, 3))
    with pytest.raises(CannotJudge, match="9 rows with recorded outputs, expected 4"):
        load_dataset(spec(tmp_path / "d.npz", fixed), (Y,))


def test_a_fixed_size_is_no_batch_where_another_input_has_one(tmp_path):
    """Else all would be run in batches of that size, and none of `batches`."""
    np.savez(tmp_path / "d.npz", x=np.ones((9, 3), np.float32), bias=np.ones((9, 3), np.float32))
    bias = InputSpec(name="bias", dtype="float32", shape=(1, 3))
    with pytest.raises(CannotJudge, match=r"bias: the shape is \[9, 3\], expected \[1, 3\]"):
        load_dataset(spec(tmp_path / "d.npz", X, bias), ())


def write_test_set(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    for name, array in (("input_0", x), ("output_0", x * 2)):
        (folder / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


def test_a_test_data_set_folder_is_inputs_and_recorded_outputs(tmp_path):
    """Alone, or several of them in a folder, in the order of their numbers."""
    for number in (0, 2, 10):
        write_test_set(tmp_path / "sets" / f"test_data_set_{number}", number + 1)
    one = load_dataset(spec(tmp_path / "sets" / "test_data_set_2"), (Y,))
    assert [(part.name, part.inputs["x"].shape) for part in one.recorded] == [("test_data_set_2", (3, 3))]
    several = load_dataset(spec(tmp_path / "sets"), (Y,))
    assert [part.name for part in several.recorded] == [f"test_data_set_{n}" for n in (0, 2, 10)]
    last = several.recorded[2]
    assert last.outputs is not None
    assert np.array_equal(last.outputs["y"], 2 * last.inputs["x"])


def test_outputs_are_recorded_in_all_test_data_sets_or_in_none(tmp_path):
    """One without would be compared with the model itself, and pass whatever it answers."""
    for number in (0, 1):
        write_test_set(tmp_path / f"test_data_set_{number}", 2)
    (tmp_path / "test_data_set_1/output_0.pb").unlink()
    with pytest.raises(CannotJudge, match="test_data_set_1: no outputs are recorded, and they are in test_data_set_0"):
        load_dataset(spec(tmp_path), (Y,))
    (tmp_path / "test_data_set_0/output_0.pb").unlink()
    assert not load_dataset(spec(tmp_path), (Y,)).holds_reference
