"""What the rows of a divergence share, on files whose recorded answers are known to differ in certain rows."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.found import OutputDiff
from onnx_gate.records.result import ModelResult
from onnx_gate.reports import json, junit, markdown
from onnx_gate.vocabulary import BreachKind, Status
from onnx_gate.worker.failing.stage import NO_TIME, tell_failing
from tests.conftest import Run, run_manifest
from tests.golden.records import breaches_of
from tests.onnx_models import save, value

RNG = np.random.default_rng(0)
ROWS = 128
X = RNG.normal(size=(ROWS, 4)).astype("float32")
CHOSEN = np.sort(RNG.permutation(ROWS)[:12])


def summed(path: Path) -> None:
    """y = the sum of each row."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    axes = {"axes": np.array([1], "int64")}
    save(path, nodes, [value("x", shape=["batch", 4])], [value("y", shape=["batch"])], axes)


def masked_mean(path: Path) -> None:
    """y = the mean over those that the mask names: NaN where it names none."""
    nodes = [
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "m"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "axes"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["m", "axes"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["y"]),
    ]
    inputs = [value("x", shape=["batch", 4]), value("mask", TensorProto.INT64, ["batch", 4])]
    save(path, nodes, inputs, [value("y", shape=["batch"])], {"axes": np.array([1], "int64")})


def coloured(path: Path) -> None:
    """y = a number for each colour."""
    node = helper.make_node(
        "LabelEncoder",
        ["colour"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["red", "green", "blue"],
        values_floats=[1.0, 2.0, 3.0],
    )
    save(
        path,
        [node],
        [value("colour", TensorProto.STRING, ["batch", 1])],
        [value("y", shape=["batch", 1])],
        domains={"ai.onnx.ml": 3},
    )


def cases() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Id → the file, and what is fed and recorded."""
    total = X.sum(axis=1)
    holes = X.copy()
    holes[CHOSEN, 2] = np.nan
    large = X.copy()
    large[:, 3] = np.where(np.isin(np.arange(ROWS), CHOSEN), 6 + np.abs(X[:, 3]), np.clip(X[:, 3], -3, 4))
    mask = RNG.integers(0, 2, (ROWS, 4))
    mask[:, 1] = 1
    mask[CHOSEN] = 0
    mean = (X * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
    colour = RNG.choice(["red", "green", "blue"], (ROWS, 1))
    number = np.select([colour == "red", colour == "green"], [1.5, 2.0], 3.0)
    chance = total.copy()
    chance[CHOSEN] += 1
    by_size = large.sum(axis=1) * np.where(large[:, 3] > 5, 2, 1)
    return {
        "nan": (summed, {"x": holes, "y": np.nansum(holes, axis=1)}),
        "above": (summed, {"x": large, "y": by_size}),
        "hidden": (summed, {"x": large, "y": by_size}),
        "mask": (masked_mean, {"x": X, "mask": mask, "y": mean}),
        "category": (coloured, {"colour": colour, "y": number}),
        "factor": (summed, {"x": X, "y": total / 1.7}),
        "offset": (summed, {"x": X, "y": total + 0.5}),
        "chance": (summed, {"x": X, "y": chance}),
        "many": (summed, {"x": X, "y": chance}),
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("shared")
    entries = []
    for name, (make, data) in cases().items():
        make(folder / f"{name}.onnx")
        typed = {key: array.astype("float32") if array.dtype.kind == "f" else array for key, array in data.items()}
        np.savez(folder / f"{name}.npz", **typed)
        if name == "many":
            (folder / "many").mkdir()
            for part in range(40):
                np.savez(folder / "many" / f"{part}.npz", **typed)
            entries.append("  - {id: many, source: many.onnx, data: many}")
            continue
        shown = "" if name == "hidden" else ", repro: {data: true}"
        entries.append(f"  - {{id: {name}, source: {name}.onnx, data: {name}.npz{shown}}}")
    return run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries))


def shared(model: ModelResult) -> list[tuple[str, int, int]]:
    assert model.verdict is Status.DIVERGED and model.failing is not None, model.error
    return [(one.what, one.failing, one.others) for one in model.failing.shared]


def test_a_missing_value_is_named_with_its_column(run):
    """All rows that have it fail, and no other does."""
    assert ("a NaN in column 2 of `x`", 12, 0) in shared(run["nan"]) or (("a NaN in `x`", 12, 0) in shared(run["nan"]))


def test_a_threshold_of_one_column_is_named_with_its_number(run):
    """The shortest number that tells both sides apart."""
    (what, failing, others) = shared(run["above"])[0]
    assert (what, failing, others) == ("column 3 of `x` above 5", 12, 0)


def test_a_mask_of_zeros_is_named(run):
    """Before any column of it, and before what comes out."""
    assert shared(run["mask"])[0] == ("`mask` all 0", 12, 0)
    words = "12 of 128 rows fail: all 12 failing rows have `mask` all 0; none of the 116 others has."
    assert words in markdown.render(run.result)
    assert words.replace("`", "`") in junit.render(run.result)


def test_a_category_is_named(run):
    """With the value, which may be shown."""
    (what, failing, others) = shared(run["category"])[0]
    assert what == "red in `colour`"
    assert failing > 20 and others == 0


def test_rows_that_have_nothing_in_common_are_not_explained(run):
    """A property that tells them apart by chance is none."""
    assert shared(run["chance"]) == []
    assert run["chance"].failing.failing == 12


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("factor", "the answers of `y` are 1.7 times the source's"),
        ("offset", "the answers of `y` are 0.5 below the source's"),
    ],
)
def test_what_is_the_same_in_all_differences_is_a_fact(run, name, words):
    """Where every row fails there is nothing that they share."""
    assert shared(run[name]) == []
    assert run[name].failing.facts == (words,)


def test_rows_that_were_not_looked_at_are_said_to_be(run):
    """40 files of 128 rows are more than the search looks at."""
    assert any(note.startswith("not all rows were looked at for what failing rows share") for note in run["many"].notes)
    assert not any("not all rows were looked at" in note for note in run["chance"].notes)


def test_the_time_that_the_search_for_rows_did_not_have_is_said():
    """No row fails, or nobody has looked: the reader can't tell them apart."""
    spec = SimpleNamespace(providers=(ProviderSpec(name="cpu"),), variant=None)
    prepared: Any = SimpleNamespace(spec=spec)
    wrong = OutputDiff(
        provider="cpu", case="batch=1", output="y", breaches=breaches_of(BreachKind.ELEMENTS, "it differs")
    )
    sent: list[Any] = []
    tell_failing(prepared, [wrong], sent.append, str, time.monotonic() - 1)
    assert [event.text for event in sent] == [NO_TIME]


def test_the_worst_rows_come_with_what_was_fed(run):
    """By their numbers in the data."""
    failing = run["above"].failing
    assert [row.row for row in failing.rows] and {row.row for row in failing.rows} <= set(CHOSEN.tolist())
    errors = [row.error for row in failing.rows]
    assert errors == sorted(errors, reverse=True)
    assert all(len(row.inputs[0].values) == 4 for row in failing.rows)


def test_values_of_the_data_are_shown_only_where_the_manifest_allows_it(run):
    """Columns and counts stay."""
    model = run["hidden"]
    assert model.failing.private
    assert shared(model) == [("column 3 of `x` above a certain value", 12, 0)]
    assert all(row.inputs == () for row in model.failing.rows)
    page = markdown.render(run.result).partition("`hidden`")[2]
    assert "`repro: {data: true}` shows them" in page


def test_the_record_survives_results_json(run):
    """As strictly as `merge` reads it."""
    again = json.parse_strictly(json.render(run.result).encode())
    assert [model.failing for model in again.models] == [model.failing for model in run.result.models]
