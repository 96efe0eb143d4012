"""What the schema's dtype can't hold: refused, or told."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec
from onnx_gate.worker.inputs.data.casting import in_schema_dtype
from tests import onnx_models
from tests.conftest import run_manifest


def fit(array, dtype: str, *, shows: bool = True):
    array = np.asarray(array)
    return in_schema_dtype(array, InputSpec(name="x", dtype=dtype, shape=("batch",)), "d.npz: x", shows=shows)


@pytest.mark.parametrize(
    ("numbers", "dtype", "words", "fix"),
    [
        ([1, 2**24 + 1], "float32", r"1 whole number .* float32; 16777217 at \[1\]", "`int64` or `float64`"),
        ([2**24 + 1], "float32", "would become 16777216", "`int64` or `float64`"),
        ([[1, 2], [3, 16777217]], "float32", r"16777217 at \[1, 1\]", "`int64` or `float64`"),
        ([2**53 + 1], "float32", "9007199254740993", "int64"),
        ([2**53 + 1], "float64", "would become 9007199254740992", "int64"),
        ([2049, 2051], "float16", "2 whole numbers don't fit into float16; 2049", "`int64` or `float64`"),
        ([257], "bfloat16", "257", "`int64` or `float64`"),
        ([70000], "float16", "70000 .* would become inf", "`int64` or `float64`"),
        ([-129], "int8", "-129 .* would become 127", "wider"),
        ([-1], "uint8", "would become 255", "wider"),
        (np.array([2**63], np.uint64), "int64", "9223372036854775808", "wider"),
    ],
)  # fmt: skip
def test_whole_numbers_that_change_are_refused(numbers, dtype, words, fix):
    """With the value, where it is, and what it would become."""
    with pytest.raises(CannotJudge, match=words) as caught:
        fit(numbers, dtype)
    assert caught.value.cause == "load-failed"
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [([2**24, -(2**24)], "float32"), ([2**60], "float32"), ([300], "int16"), ([True], "float32"), ([], "float32")],
)
def test_whole_numbers_that_stay_are_taken(numbers, dtype):
    """Large ones too, where a float holds them exactly."""
    cast, notes = fit(np.array(numbers, dtype=np.int64), dtype)
    assert cast.astype(np.int64).tolist() == numbers
    assert not notes


def test_rounding_is_normal():
    """No word about a tenth, nor about many numbers of which a few meet by chance."""
    numbers = np.random.default_rng(0).uniform(size=20_000)
    cast, notes = fit(numbers, "float32")
    assert len(set(cast.tolist())) < len(set(numbers.tolist()))
    assert notes == []
    assert fit([0.1, np.nan, np.inf], "float32")[1] == []


def test_whole_numbers_among_floats_that_change_are_told():
    """Ids that a DataFrame with a gap has turned into floats."""
    (note,) = fit([[1.0], [16777217.0], [np.nan]], "float32")[1]
    assert note == "d.npz: x: 1 whole numbers change in float32, such as 16777217.0 at [1, 0], which becomes 16777216.0"


def test_values_that_become_equal_are_told():
    """Times in seconds since 1970, half a second apart; those of one column only."""
    times = 1_700_000_000.25 + np.arange(4) / 2
    (note,) = fit(times, "float32")[1]
    assert "4 different values become equal in float32, such as 1700000000.25 and 1700000000.75" in note
    assert "subtract their smallest value before they reach the model" in note
    # Nobody knows here whether the conversion takes float64: triage tries it, and says so.
    assert "declare float64" not in note
    assert fit(np.stack([[0.1, 0.2], [0.1 + 1e-12, 0.2]]), "float32")[1] != []
    assert fit(np.array([[0.1, 0.1 + 1e-12]]), "float32")[1] == []


def test_a_source_that_gets_them_equal_too_is_a_warning(tmp_path):
    """It can't be asked about the data as given, so a pass says nothing about what rounding costs."""
    onnx_models.doubler(tmp_path / "m.onnx")
    for name, first in (("times", 1_700_000_000.25), ("plain", 0.25)):
        np.save(tmp_path / f"{name}.npy", first + np.arange(30).reshape(10, 3) / 2)
    run = run_manifest(
        tmp_path,
        "version: 1\nmodels:\n  - {id: times, source: m.onnx, data: times.npy}\n"
        "  - {id: plain, source: m.onnx, data: plain.npy}\n",
    )
    times, plain = run["times"].coverage, run["plain"].coverage
    assert times and plain
    told = [warning for warning in times.warnings if "become equal in float32" in warning]
    assert len(told) == 1 and "its answers to the data as given were not compared" in told[0]
    assert not any("become equal" in warning for warning in plain.warnings)


def test_values_that_vanish_are_told():
    """They become 0."""
    (note,) = fit([1e-50, 0.0, 1.0], "float32")[1]
    assert "1 values become 0 in float32, such as 1e-50 at [0]" in note


@pytest.mark.parametrize(
    ("numbers", "note"),
    [
        ([[1.0], [16777217.0]], "1 whole numbers change in float32, such as the one at [1, 0]"),
        ([1.0, 1e-50], "1 values become 0 in float32, such as the one at [1]"),
        ([np.nan, 1700000000.75, 3.0, 1700000000.25], "2 different values become equal in float32, such as those at "
         "[3] and at [1]: if they tell rows apart, subtract their smallest value before they reach the model"),
    ],
)  # fmt: skip
def test_a_note_names_the_place_alone_where_values_may_not_be_shown(numbers, note):
    """Notes stand in the reports of models that pass, too."""
    (found,) = fit(numbers, "float32", shows=False)[1]
    assert found.startswith(f"d.npz: x: {note}")
    assert "1700000000" not in found


@pytest.mark.parametrize(
    ("values", "dtype", "words"),
    [
        ([1, 2**24 + 1], "float32", r"1 whole number doesn't fit into float32; the one at \[1\] would change$"),
        ([-129], "int8", r"1 whole number doesn't fit into int8; the one at \[0\] would change$"),
        ([1.0, 1e39], "float32", r"1 values are too large for float32, such as the one at \[1\]$"),
        (np.array(["a", 5], object), "string", r"what stands at \[1\] is of the type int, expected text"),
        (np.array(["a", None], object), "string", r"what stands at \[1\] is None, expected text"),
        (np.array([b"\xff"]), "string", "is no text that UTF-8 can hold$"),
    ],
)
def test_an_error_names_the_place_alone_where_values_may_not_be_shown(values, dtype, words):
    """The user finds the value there; a report may be read by others."""
    with pytest.raises(CannotJudge, match=words):
        fit(values, dtype, shows=False)


def test_values_that_overflow_are_refused():
    """They would become infinite; what is so already stays."""
    with pytest.raises(CannotJudge, match=r"1 values are too large for float32, such as 1e\+39 at \[1\]"):
        fit([1.0, 1e39], "float32")
    assert np.isinf(fit([np.inf], "float32")[0]).all()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array(["a", None], object), r"at \[1\] is None, expected text"),
        (np.array(["a", np.nan], object), r"at \[1\] is nan, expected text"),
        (np.array([["a"], [5]], object), r"at \[1, 0\] is 5, expected text"),
        (np.array([b"\xff"]), "is no text that UTF-8 can hold"),
        (np.array([1.0]), "the dtype is float64, expected string"),
    ],
)
def test_what_is_no_text_is_refused(array, words):
    """ONNX Runtime would take None for the word 'None'."""
    with pytest.raises(CannotJudge, match=words):
        fit(array, "string")


@pytest.mark.parametrize("array", [np.array(["", "Łódź 🙂"]), np.array(["", "Łódź 🙂"], object)])
def test_empty_and_foreign_text_is_text(array):
    """As Python's strings, whatever numpy had; bytes are read as UTF-8."""
    cast, _ = fit(array, "string")
    assert cast.dtype == object
    assert cast.tolist() == ["", "Łódź 🙂"]
    assert fit(np.array(["Łódź".encode()]), "string")[0].tolist() == ["Łódź"]


def test_objects_are_no_numbers():
    """Even if they look so."""
    with pytest.raises(CannotJudge, match="the dtype is text, expected float32"):
        fit(np.array([1.5], object), "float32")
