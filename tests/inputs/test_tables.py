"""CSV, Parquet and DataFrames: columns by name, each in its own dtype."""

from __future__ import annotations

import datetime
import decimal
import sys
import textwrap

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.found import GraphValue
from onnx_gate.wording.installing import install
from onnx_gate.worker.inputs.data import Dataset, load_dataset

AGE = InputSpec(name="age", dtype="int64", shape=("batch",))
PAY = InputSpec(name="pay", dtype="float32", shape=("batch", 1))
CITY = InputSpec(name="city", dtype="string", shape=("batch", 1))
MEMBER = InputSpec(name="member", dtype="bool", shape=("batch", 1))
X = InputSpec(name="x", dtype="float32", shape=("batch", 2))
COLUMNS = {"age": [30, 41], "pay": [1.5, None], "city": ["", "Łódź"], "member": [True, False]}


def spec(data: Location, *inputs: InputSpec, **keys) -> ModelSpec:
    folder = str(data.file).rpartition("/")[0]
    return ModelSpec(
        id="m",
        line=1,
        framework="sklearn",
        folder=folder,
        source=Location(shown="m.pkl"),
        inputs=inputs,
        data=data,
        **keys,
    )


def of_parquet(tmp_path, table, *inputs: InputSpec, **keys) -> Dataset:
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table(table), path)
    return load_dataset(spec(Location(file=str(path), shown="d.parquet"), *inputs, **keys), ())


def of_callable(tmp_path, code: str, *inputs: InputSpec, **keys) -> Dataset:
    path = tmp_path / "made.py"
    path.write_text(textwrap.dedent(code))
    sys.modules.pop("made", None)
    data = Location(file=str(path), callable="rows", shown="made.py:rows")
    return load_dataset(spec(data, *inputs, **keys), ())


def of_frame(tmp_path, table, *inputs: InputSpec, **keys) -> Dataset:
    pd.DataFrame(table).to_pickle(tmp_path / "frame.pkl")
    code = f"import pandas\ndef rows():\n    return pandas.read_pickle({str(tmp_path / 'frame.pkl')!r})\n"
    return of_callable(tmp_path, code, *inputs, **keys)


def test_parquet_columns_feed_several_inputs_by_name(tmp_path):
    """Numbers, whole ones, text and truth values, each in its own form."""
    loaded = of_parquet(tmp_path, COLUMNS, AGE, PAY, CITY, MEMBER).inputs
    assert loaded["age"].tolist() == [30, 41]
    assert np.array_equal(loaded["pay"], np.array([[1.5], [np.nan]], np.float32), equal_nan=True)
    assert loaded["city"].tolist() == [[""], ["Łódź"]]
    assert loaded["member"].tolist() == [[True], [False]]


def test_a_frame_feeds_as_a_parquet_file_does(tmp_path):
    """What pandas makes of the same columns."""
    loaded = of_frame(tmp_path, pd.DataFrame(COLUMNS), AGE, PAY, CITY, MEMBER).inputs
    assert loaded["age"].dtype == np.int64
    assert np.array_equal(loaded["pay"], np.array([[1.5], [np.nan]], np.float32), equal_nan=True)
    assert loaded["city"].tolist() == [[""], ["Łódź"]]
    assert loaded["member"].dtype == bool


@pytest.mark.parametrize("read", [of_parquet, of_frame])
def test_columns_make_up_the_only_input(tmp_path, read):
    """Chosen, in the order of `columns`; or all but the ignored ones, which may be unreadable."""
    columns = {"when": [datetime.date(2024, 1, 1)] * 2, "b": [1, 2], "a": [0.5, 1.5]}
    assert read(tmp_path, columns, X, columns=("a", "b")).inputs["x"].tolist() == [[0.5, 1], [1.5, 2]]
    assert read(tmp_path, columns, X, ignore_data=("when",)).inputs["x"].tolist() == [[1, 0.5], [2, 1.5]]
    with pytest.raises(CannotJudge, match="there is no column 'z'"):
        read(tmp_path, columns, X, columns=("a", "z"))


@pytest.mark.parametrize(
    ("column", "given", "words"),
    [
        (pa.array([1, None, 3]), AGE, r"column 'age': a value is missing in row 1 \(counted from 0\), expected int64"),
        (pa.array(["a", None]), CITY, r"missing in row 1 \(counted from 0\), expected string"),
        (pa.array([True, None]), MEMBER, "missing in row 1 .*expected bool"),
        (pa.array(["a"]), AGE, "column 'age': it holds text, expected int64"),
        (pa.array([1]), CITY, "it holds int64, expected string"),
        (pa.array([1.5]), AGE, "age: the dtype is float64, expected int64"),
        (pa.array([datetime.datetime(2024, 1, 1)]), PAY, r"it holds timestamp\[us\], expected numbers, text"),
        (pa.array([datetime.date(2024, 1, 1)]), PAY, r"it holds date32\[day\]"),
        (pa.array([[1.0, 2.0]]), PAY, "it holds list<"),
        (pa.array([16777217, None]), PAY, r"the one in row 0 \(counted from 0\) would change"),
        (pa.array([decimal.Decimal("1.50")]), AGE, "expected int64"),
    ],
)  # fmt: skip
def test_a_parquet_column_that_does_not_fit_says_why(tmp_path, column, given, words):
    """With the row, where it is one."""
    with pytest.raises(CannotJudge, match=words) as caught:
        of_parquet(tmp_path, {given.name: column}, given)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        (pa.array(["b", "a", "b"]).dictionary_encode(), CITY, [["b"], ["a"], ["b"]]),
        (pa.array([decimal.Decimal("1.50"), None]), PAY, [[1.5], [None]]),
        (pa.array([2**53 + 1, 7]), AGE, [2**53 + 1, 7]),
        (pa.array([1, None], pa.int8()), PAY, [[1], [None]]),
        (pa.array(["x"], pa.large_string()), CITY, [["x"]]),
        (pa.array([1.5, None], pa.float32()), PAY, [[1.5], [None]]),
    ],
)
def test_parquet_types_become_what_they_mean(tmp_path, column, given, expected):
    """Dictionaries are text, decimals are floats; whole numbers never go through floats."""
    array = of_parquet(tmp_path, {given.name: column}, given).inputs[given.name]
    if given.dtype == "float32":
        expected = np.array(expected, np.float32)
        assert np.array_equal(array, expected, equal_nan=True)
    else:
        assert array.tolist() == expected


@pytest.mark.parametrize(
    ("series", "given", "expected"),
    [
        (pd.Series(["b", "a"], dtype="category"), CITY, [["b"], ["a"]]),
        (pd.Series([3, 4], dtype="category"), AGE, [3, 4]),
        (pd.Series([2**53 + 1, 7], dtype="Int64"), AGE, [2**53 + 1, 7]),
        (pd.Series([True, False], dtype="boolean"), MEMBER, [[True], [False]]),
        (pd.Series(["é"], dtype="string"), CITY, [["é"]]),
        (pd.Series([decimal.Decimal("0.5"), 2], dtype=object), PAY, [[0.5], [2]]),
    ],
)
def test_types_of_pandas_become_what_they_mean(tmp_path, series, given, expected):
    """Categories are what they are categories of."""
    assert of_frame(tmp_path, pd.DataFrame({given.name: series}), given).inputs[given.name].tolist() == expected


@pytest.mark.parametrize(
    ("series", "given", "words"),
    [
        (pd.Series([1, None], dtype="Int64"), AGE, r"made\.py:rows: column 'age': a value is missing in row 1"),
        (pd.Series(["a", None], dtype=object), CITY, "a value is missing in row 1"),
        (pd.to_datetime(pd.Series(["2024-01-01"])), PAY, "it holds datetime64"),
        (pd.Series([datetime.date(2024, 1, 1)], dtype=object), PAY, "it holds values of the type date"),
        (pd.Series([1, 2**24 + 1]), PAY, "the one in row 1"),
    ],
)
def test_a_series_that_does_not_fit_says_why(tmp_path, series, given, words):
    """As a Parquet column does."""
    with pytest.raises(CannotJudge, match=words):
        of_frame(tmp_path, pd.DataFrame({given.name: series}), given)


def test_a_callable_may_return_series_frames_and_arrays(tmp_path):
    """By the names of the inputs; one dimension becomes a column where the schema wants one."""
    code = """
    import numpy as np, pandas as pd
    def rows():
        return {"age": pd.Series([1, 2]), "pay": np.array([0.5, 1.5]), "x": pd.DataFrame({"a": [1, 2], "b": [3, 4]}),
                "id": pd.Series(pd.to_datetime(["2024-01-01"] * 2))}
    """
    loaded = of_callable(tmp_path, code, AGE, PAY, X, ignore_data=("id",)).inputs
    assert {name: array.tolist() for name, array in loaded.items()} == {
        "age": [1, 2],
        "pay": [[0.5], [1.5]],
        "x": [[1, 3], [2, 4]],
    }


def test_whole_numbers_of_a_csv_that_change_name_line_and_column(tmp_path):
    """As written; a column with fractions is one of floats, and told about."""
    path = tmp_path / "d.csv"
    path.write_text("a,b\n1,0.5\n\n16777217,1.5\n")
    data = Location(file=str(path), shown="d.csv")
    with pytest.raises(CannotJudge, match=r"d\.csv: column 'a': 1 whole .*; the one in line 4 would change"):
        load_dataset(spec(data, X), ())
    path.write_text("a,b\n1.5,0.5\n16777217,1.5\n")
    assert "1 whole numbers change in float32" in load_dataset(spec(data, X), ()).notes[0]


def test_a_gap_in_a_csv_of_whole_numbers_is_nan(tmp_path):
    """For floats only; the numbers around it are still checked."""
    path = tmp_path / "d.csv"
    path.write_text('pay\n7\n""\n16777217\n')
    data = Location(file=str(path), shown="d.csv")
    with pytest.raises(CannotJudge, match="the one in line 4"):
        load_dataset(spec(data, PAY), ())
    path.write_text('pay\n7\n""\n')
    assert np.isnan(load_dataset(spec(data, PAY), ()).inputs["pay"]).tolist() == [[False], [True]]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_truth_values_of_a_csv_are_numbers_where_numbers_are_asked_for(tmp_path, dtype):
    """Few converters take bools; a column that also holds other words stays an error."""
    path = tmp_path / "d.csv"
    data = Location(file=str(path), shown="d.csv")
    member = InputSpec(name="member", dtype=dtype, shape=("batch", 1))
    path.write_text("member\nTrue\nFalse\ntrue\n")
    assert load_dataset(spec(data, member), ()).inputs["member"].tolist() == [[1], [0], [1]]
    path.write_text("member\nTrue\nperhaps\n")
    with pytest.raises(CannotJudge, match="column 'member' holds text of 4 characters"):
        load_dataset(spec(data, member), ())


def test_a_table_with_too_many_columns_says_how_to_choose(tmp_path):
    """Such as one with the answers in it."""
    path = tmp_path / "d.csv"
    path.write_text("age,pay,bought\n1,2,0\n")
    matrix = InputSpec(name="X", dtype="float32", shape=("batch", 2))
    with pytest.raises(CannotJudge, match=r"has 3 columns \(age, pay, bought\), and the input 'X' takes 2") as caught:
        load_dataset(spec(Location(file=str(path), shown="d.csv"), matrix), ())
    assert "`columns: [age, pay]`" in caught.value.fix


def recorded_in(data: Location, **dtypes: str):
    """What is read of columns that are outputs, all of the shape [N, 1] but for those that nobody declares."""
    model = ModelSpec(**{**vars(spec(data, PAY)), "framework": "onnx"})
    outputs = tuple(
        GraphValue(name=name, dtype=dtype or "undeclared", shape=("N", 1) if dtype else None)
        for name, dtype in dtypes.items()
    )
    (part,) = load_dataset(model, outputs).recorded
    return part.outputs


def test_recorded_outputs_of_a_csv_are_what_the_file_declares(tmp_path):
    """Whole numbers are floats where the output is of floats, and digits text where it is of text."""
    path = tmp_path / "d.csv"
    path.write_text("pay,label,score,word,sure,new,text\n1.5,1,1,007,True,2,a\n")
    found = recorded_in(
        Location(file=str(path), shown="d.csv"),
        label="int64",
        score="float32",
        word="string",
        sure="bool",
        new="",
        text="",
    )
    assert {name: array.dtype.kind for name, array in found.items()} == {
        "label": "i",
        "score": "f",
        "word": "O",
        "sure": "b",
        "new": "i",
        "text": "O",
    }
    assert found["word"].tolist() == [["007"]]
    assert found["new"].shape == (1,)


def test_a_value_that_is_missing_among_recorded_outputs_is_none_that_a_model_can_meet(tmp_path):
    """A NaN among floats, an error among all else, and never a 0 that nobody recorded."""
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"pay": [1.0, 2.0], "score": [0.5, None], "label": [1, None]}), path)
    data = Location(file=str(path), shown="d.parquet")
    with pytest.raises(CannotJudge, match=r"column 'label': a value is missing in row 1"):
        recorded_in(data, score="float32", label="int64")
    parquet.write_table(pa.table({"pay": [1.0, 2.0], "score": [0.5, None]}), path)
    assert np.isnan(recorded_in(data, score="float32")["score"]).tolist() == [[False], [True]]
    with pytest.raises(CannotJudge, match=r"column 'score': a value is missing in row 1"):
        recorded_in(data, score="")


def test_the_data_as_given_is_kept_where_it_was_rounded(tmp_path):
    """And only there."""
    loaded = of_parquet(tmp_path, {"age": [1, 2], "pay": [0.1, 0.2]}, AGE, PAY)
    assert {name: array.dtype for name, array in loaded.given.items()} == {"pay": np.float64}
    given = loaded.slice_given(0, 1)
    assert given is not None
    assert given["pay"].tolist() == [[0.1]]
    assert loaded.slice(0, 1)["pay"].tolist() == [[float(np.float32(0.1))]]
    assert of_parquet(tmp_path, {"age": [1, 2], "pay": [0.5, 0.25]}, AGE, PAY).given == {}


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    """With the command to paste."""
    parquet.write_table(pa.table({"age": [1]}), tmp_path / "d.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CannotJudge, match=r"pyarrow is not installed, which \.parquet files need") as caught:
        load_dataset(spec(Location(file=str(tmp_path / "d.parquet"), shown="d.parquet"), AGE), ())
    assert caught.value.fix == install("parquet")


def test_a_broken_parquet_file_is_an_error_of_the_data(tmp_path):
    """In the library's words."""
    path = tmp_path / "d.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(CannotJudge, match=r"d\.parquet: Arrow") as caught:
        load_dataset(spec(Location(file=str(path), shown="d.parquet"), AGE), ())
    assert caught.value.cause == "load-failed"


@pytest.mark.parametrize("read", [of_parquet, of_frame])
def test_what_a_model_ignores_has_to_be_there(tmp_path, read):
    """A typo would leave a column in; what `defaults` ignore may be in other models' data."""
    columns = {"age": [1, 2], "note": ["a", "b"]}
    with pytest.raises(
        CannotJudge, match=r"`ignore_data` names 'noted': no such column is there\. Got age, note"
    ) as told:
        read(tmp_path, columns, AGE, ignore_data=("note", "noted"), own=frozenset({"ignore_data"}))
    assert "did you mean 'note'?" in str(told.value.fix)
    assert read(tmp_path, columns, AGE, ignore_data=("note", "noted")).rows == 2
    assert read(tmp_path, columns, AGE, ignore_data=("note",), own=frozenset({"ignore_data"})).rows == 2


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        ('age\n1\n""\n', AGE, "declare 'age' as `float32` or `float64`, where an empty field is NaN"),
        ("age\n1.5\n", AGE, "write a whole number, or declare 'age' as `float32`"),
        ("age\nold\n", AGE, "declare 'age' as `string`; or choose the input's columns"),
        ("member\nno\n", MEMBER, "write true or false, or declare 'member' as `string`"),
        (",age\n0,1\n", AGE, r"without its index (`index=False`), or add `ignore_data: ['']`"),
        ("age,Unnamed: 0\n0,1\n", AGE, r"without its index (`index=False`), or add `ignore_data: ['Unnamed: 0']`"),
        ("age,no\n0,1\n", AGE, "rename it, or add `ignore_data: ['no']`"),
    ],
)
def test_a_csv_that_does_not_fit_says_what_to_do(tmp_path, text, given, words):
    """What would really help."""
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(CannotJudge) as told:
        load_dataset(spec(Location(file=str(tmp_path / "d.csv"), shown="d.csv"), given), ())
    assert words in told.value.fix


def test_a_column_that_is_not_there_is_guessed(tmp_path):
    """The data is a table: of arrays nobody spoke."""
    (tmp_path / "d.csv").write_text("age,pai\n1,2\n")
    with pytest.raises(CannotJudge, match=r"d\.csv: no column for the input 'pay'; 'pai' is neither") as told:
        load_dataset(spec(Location(file=str(tmp_path / "d.csv"), shown="d.csv"), AGE, PAY), ())
    assert told.value.fix.startswith("did you mean 'pai'? Else rename the columns")
