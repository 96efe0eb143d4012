"""Edge cases through the whole gate: rows that have to be answered alike, and what the source itself refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import joblib
import numpy as np
import pytest
from onnx import helper
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OneHotEncoder

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.trial.reference import answers_by_row
from tests.conftest import Run, run_manifest
from tests.onnx_models import doubler, save, value

IRIS = load_iris()
MANIFEST = """
version: 1
defaults: {framework: sklearn, batches: [1], inputs: {x: {dtype: float32, shape: [batch, 3]}}}
models:
  - {id: mixes, source: row_models.py:double, onnx: add_mean.onnx, edges: [row-consistency]}
  - {id: source-mixes, source: row_models.py:add_mean, onnx: add_mean.onnx, edges: [row-consistency, permuted-rows]}
  - {id: counts, source: row_models.py:same, onnx: add_number.onnx, edges: [permuted-rows]}
  - {id: right, source: row_models.py:double, onnx: doubler.onnx, batches: [1, 2], edges: true}
  - {id: noisy, source: row_models.py:noisy, onnx: same.onnx, edges: [row-consistency], outputs: {y: exact}}
  - {id: whole-batch, source: row_models.py:column_of_labels, onnx: count.onnx, edges: [row-consistency]}
  - {id: empty, source: row_models.py:no_rows, onnx: same.onnx, edges: [empty-batch], outputs: {y: {min_cosine: 0.9}}}
  - {id: only-empty, source: row_models.py:no_rows, onnx: needs_row.onnx, edges: [empty-batch]}
  - {id: refused, source: row_models.py:no_rows, onnx: same.onnx, edges: true}
  - {id: refused-listed, source: row_models.py:no_rows, onnx: same.onnx, edges: [zeros, ones]}
  - {id: no-place, source: row_models.py:same, onnx: same.onnx, edges: [zeros, nan]}
  - {id: itself, framework: onnx, source: doubler.onnx, edges: true, batches: [2]}
  - id: strict
    source: strict.joblib
    inputs: {x: {dtype: string, shape: [batch, 1], values: [a, b]}}
    edges: true
  - id: tolerant
    source: tolerant.joblib
    inputs: {x: {dtype: string, shape: [batch, 1], values: [a, b]}}
    edges: true
  - id: missing
    source: boosting.joblib
    inputs: {x: {dtype: float32, shape: [batch, 4], range: [0, 8], allow: [nan]}}
    data: iris.npz
    edges: [nan, lowest, row-consistency, odd-batch]
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("rows")
    shutil.copy(Path(__file__).parent / "row_models.py", folder)
    doubler(folder / "doubler.onnx")
    write_onnx(folder)
    letters = np.array([["a"], ["b"], ["a"]], dtype=object)
    joblib.dump(OneHotEncoder().fit(letters), folder / "strict.joblib")
    joblib.dump(OneHotEncoder(handle_unknown="ignore").fit(letters), folder / "tolerant.joblib")
    joblib.dump(HistGradientBoostingClassifier(max_iter=5).fit(IRIS.data, IRIS.target), folder / "boosting.joblib")
    np.savez(folder / "iris.npz", x=IRIS.data.astype(np.float32))
    return run_manifest(folder, MANIFEST)


def write_onnx(folder: Path) -> None:
    """Models that agree with their sources on one row, and mix or number more of them."""
    axis = {"axis": np.array([0])}
    mean = helper.make_node("ReduceMean", ["x", "axis"], ["m"], keepdims=1)
    save(folder / "add_mean.onnx", [mean, helper.make_node("Add", ["x", "m"], ["y"])], [value("x")], [value("y")], axis)
    save(folder / "same.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value("x")], [value("y")])
    nodes = [
        helper.make_node("Mul", ["x", "zero"], ["z"]),
        helper.make_node("Add", ["z", "one"], ["o"]),
        helper.make_node("CumSum", ["o", "first"], ["n"], exclusive=1),
        helper.make_node("Add", ["x", "n"], ["y"]),
    ]
    stored = {"zero": np.float32(0), "one": np.float32(1), "first": np.array(0)}
    save(folder / "add_number.onnx", nodes, [value("x")], [value("y")], stored)
    nodes = [
        helper.make_node("Gather", ["x", "row"], ["f"]),
        helper.make_node("Mul", ["f", "zero"], ["z"]),
        helper.make_node("Add", ["x", "z"], ["y"]),
    ]
    stored = {"zero": np.float32(0), "row": np.array(0)}
    save(folder / "needs_row.onnx", nodes, [value("x")], [value("y")], stored)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Cast", ["s"], ["c"], to=1),
        helper.make_node("Unsqueeze", ["c", "axis"], ["y"]),
    ]
    save(folder / "count.onnx", nodes, [value("x")], [value("y", shape=[1, 1])], axis)


def edges(run: Run, model: str) -> set[str]:
    return {check.case.removeprefix("edge=") for check in run[model].checks if check.case.startswith("edge=")}


def test_a_model_that_mixes_rows_is_found(models):
    """At batch 1 it is right; five rows answer otherwise than each alone."""
    assert models["mixes"].verdict is Status.DIVERGED
    (alone,) = models.checks("mixes", case="edge=row-consistency")
    (one,) = models.checks("mixes", case="batch=1")
    assert (alone.status, one.status) == (Status.DIVERGED, Status.PASSED)
    assert alone.total == 15


def test_a_source_that_mixes_rows_is_not_held_against_the_conversion(models):
    """Its answers to the same batch are compared, and a note says so."""
    assert models["source-mixes"].verdict is Status.PASSED
    notes = [note for note in models["source-mixes"].notes if "depends on the other rows" in note]
    assert [note.partition(":")[0] for note in notes] == ["edge=row-consistency"]


def test_a_model_that_counts_rows_is_found(models):
    """Rows in another order get other answers."""
    (check,) = models.checks("counts", case="edge=permuted-rows")
    assert check.status is Status.DIVERGED


def test_a_right_model_passes_every_edge(models):
    """Each a named case of its own, with nothing left out."""
    assert models["right"].verdict is Status.PASSED
    assert edges(models, "right") == {
        *("zeros", "ones", "tiny", "huge", "negative-zero", "denormal"),
        *("empty-batch", "single-row", "odd-batch", "large-batch"),
        *("repeated-rows", "permuted-rows", "row-consistency"),
    }
    assert not [note for note in models["right"].notes if "edge" in note]


def test_rounding_is_no_mixing_of_rows(models):
    """The answers to the batch are taken then: `exact` would fail on noise of the source itself."""
    assert not [note for note in models["noisy"].notes if "rows around" in note]


def test_an_output_without_rows_is_compared_as_it_is(models):
    """One number for the whole batch."""
    assert models["whole-batch"].verdict is Status.PASSED
    assert not [note for note in models["whole-batch"].notes if "rows around" in note]


def test_an_empty_batch_is_compared_by_its_form(models):
    """No element, and no limit that could be missed."""
    assert models["empty"].verdict is Status.PASSED
    (check,) = models.checks("empty", case="edge=empty-batch")
    assert (check.status, check.shape, check.total) == (Status.PASSED, (0, 3), 0)


def test_what_the_source_answers_and_onnx_runtime_refuses_is_an_error(models):
    """As on any other feed."""
    assert models["only-empty"].verdict is Status.ERROR
    assert "which the source answers" in models["only-empty"].error


def test_what_the_source_refuses_is_left_out_with_its_reason(models):
    """One note for all that it refuses with the same words."""
    assert models["refused"].verdict is Status.PASSED
    assert not {"zeros", "negative-zero"} & edges(models, "refused")
    (note,) = [note for note in models["refused"].notes if "edge cases left out" in note]
    assert "zeros, negative-zero (ValueError: nothing but zeros)" in note


def test_what_the_source_refuses_is_an_error_where_the_model_lists_it(models):
    """The other edges are compared all the same."""
    assert models["refused-listed"].verdict is Status.ERROR
    assert "the source itself fails on edge=zeros: ValueError: nothing but zeros" in models["refused-listed"].error
    assert "remove zeros from `edges`" in models["refused-listed"].error
    (ones,) = models.checks("refused-listed", case="edge=ones")
    assert ones.status is Status.PASSED


def test_a_listed_edge_without_a_place_is_an_error_of_the_inputs(models):
    """With what it needs."""
    (check,) = models["no-place"].checks
    assert (check.status, check.case, check.cause) == (Status.ERROR, "inputs", Cause.LOAD_FAILED)
    assert "`nan` needs an input with `allow: [nan]`" in check.message


def test_an_onnx_source_has_edges_too(models):
    """It is asked without optimisations."""
    assert models["itself"].verdict is Status.PASSED
    assert {"empty-batch", "row-consistency"} <= edges(models, "itself")


def test_unknown_categories_are_fed_where_the_source_takes_them(models):
    """A strict encoder refuses them, and a batch without rows; that is no divergence."""
    assert models["tolerant"].verdict is models["strict"].verdict is Status.PASSED
    assert "unknown-category" in edges(models, "tolerant")
    assert "unknown-category" not in edges(models, "strict")
    left_out = " ".join(note for note in models["strict"].notes if "edge cases left out" in note)
    assert "unknown-category (ValueError: Found unknown categories" in left_out
    assert "empty-batch" in left_out


def test_missing_values_are_fed_where_the_schema_allows_them(models):
    """Among rows of the data, which holds none."""
    assert models["missing"].verdict is Status.PASSED
    assert edges(models, "missing") == {"nan", "lowest", "row-consistency", "odd-batch"}


ALONE = Call(feed={}, asked=({}, {}))
LIMIT = Tolerance(rtol=1e-3, atol=1e-5)


def answer(rows) -> Answer:
    return Answer(value=np.array(rows), dtype="float32")


@pytest.mark.parametrize(
    ("batch", "parts", "expected", "mixed"),
    [
        ([[1.0], [2.0]], [[[1.0]], [[2.00001]]], [[1.0], [2.00001]], []),
        ([[1.0], [2.0]], [[[1.0]], [[3.0]]], [[1.0], [2.0]], ["y"]),
        ([[1.0], [2.0]], [[[1.0, 1.0]], [[2.0, 2.0]]], [[1.0], [2.0]], ["y"]),
        ([[1.0, 0.0], [2.0, 0.0]], [[[1.0]], [[2.0, 0.0]]], [[1.0, 0.0], [2.0, 0.0]], ["y"]),
        ([[1.0], [2.0]], [[[1.0], [2.0]], [[1.0], [2.0]]], [[1.0], [2.0]], []),
        (5.0, [5.0, 5.0], 5.0, []),
        ([1.0, np.nan], [[1.0], [np.nan]], [1.0, np.nan], []),
    ],
    ids=["agrees", "differs", "other form", "ragged", "a table", "a scalar", "nan"],
)
def test_the_answers_to_rows_make_up_those_to_a_batch(batch, parts, expected, mixed):
    """Unless the source mixes rows, or the output has no row for each."""
    answers, found = answers_by_row({"y": answer(batch)}, [{"y": answer(part)} for part in parts], ALONE, LIMIT)
    assert np.array_equal(answers["y"].value, np.array(expected), equal_nan=True)
    assert found == mixed


def test_sequences_and_absent_values_are_left_as_they_are():
    """They have no rows."""
    batch = {"s": Answer(value=[np.ones(2)], dtype="float32"), "n": Answer(value=None, dtype="float32")}
    answers, found = answers_by_row(batch, [batch, batch], ALONE, LIMIT)
    assert (answers, found) == (batch, [])


@pytest.mark.parametrize("size", [4, 5])
def test_rows_may_be_the_second_dimension(size):
    """As of sequences that go before the batch, also where both are of one size."""
    rows = np.arange(size * 4 * 2, dtype=np.float32).reshape(size, 4, 2)
    order = (2, 1, 0, 3)
    moved = Call(feed={}, asked=({},), order=order)
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    batch = {"y": answer(rows[:, order]), "table": answer(table)}
    answers, mixed = answers_by_row(batch, [{"y": answer(rows), "table": answer(table)}], moved, LIMIT)
    assert mixed == []
    assert np.array_equal(answers["y"].value, rows[:, order])
    _, mixed = answers_by_row({"y": answer(rows)}, [{"y": answer(rows[:, order])}], moved, LIMIT)
    assert mixed == []
    _, mixed = answers_by_row({"y": answer(rows + rows[:, :1])}, [{"y": answer(rows)}], moved, LIMIT)
    assert mixed == ["y"]
