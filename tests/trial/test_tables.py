"""Tables through the whole gate: typed columns by name, and data that can't be what the model is to be judged by."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import doubler

ROWS = pd.DataFrame(
    {
        "age": np.arange(40) % 9 + 20.0,
        "pay": np.linspace(-1, 1, 40) ** 3,
        "city": (["Paris", "Łódź", "Oslo", "Rome"] * 10),
    }
)
SCHEMA = """{age: {dtype: float32, shape: [batch, 1]}, pay: {dtype: float32, shape: [batch, 1]},
      city: {dtype: string, shape: [batch, 1]}}"""
BLOCK = "{X: {dtype: float32, shape: [batch, 3]}}"
ABC = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"])
MANIFEST = f"""
version: 1
defaults: {{framework: sklearn, batches: [1, 7]}}
models:
  - {{id: parquet, source: people.joblib, inputs: {SCHEMA}, data: people.parquet, edges: true, ignore_data: [when]}}
  - {{id: frame, source: people.joblib, inputs: {SCHEMA}, data: people.py:rows}}
  - {{id: ids, source: people.joblib, inputs: {SCHEMA}, data: ids.csv}}
  - {{id: in-order, source: abc.joblib, inputs: {BLOCK}, data: abc.csv}}
  - {{id: backwards, source: abc.joblib, inputs: {BLOCK}, data: cba.csv}}
  - {{id: chosen, source: abc.joblib, inputs: {BLOCK}, data: cba.csv, columns: [a, b, c]}}
  - {{id: backwards-parquet, source: abc.joblib, inputs: {BLOCK}, data: cba.parquet}}
  - {{id: backwards-frame, source: abc.joblib, inputs: {BLOCK}, data: people.py:backwards}}
  - {{id: backwards-in-dict, source: abc.joblib, inputs: {BLOCK}, data: people.py:backwards_in_dict}}
  - {{id: foreign, source: abc.joblib, inputs: {BLOCK}, data: zbc.csv}}
  - {{id: nameless, source: nameless.joblib, inputs: {BLOCK}, data: cba.csv}}
  - {{id: recorded, framework: onnx, source: doubler.onnx, data: recorded.npz}}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("tables")
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "pay"]),
            ("city", OneHotEncoder(handle_unknown="ignore"), ["city"]),
        ]
    )
    joblib.dump(make_pipeline(columns, LogisticRegression()).fit(ROWS, ROWS.pay > 0), folder / "people.joblib")
    ROWS.assign(city=ROWS.city.astype("category"), when=pd.Timestamp("2024-01-01")).to_parquet(
        folder / "people.parquet"
    )
    ROWS.to_csv(folder / "rows.csv", index=False)
    (folder / "people.py").write_text(
        "from pathlib import Path\nimport pandas\n"
        "def rows():\n    return pandas.read_csv(Path(__file__).parent / 'rows.csv')\n"
        "def backwards():\n    return pandas.read_csv(Path(__file__).parent / 'cba.csv')\n"
        "def backwards_in_dict():\n    return {'X': backwards()}\n"
    )
    model = make_pipeline(StandardScaler(), LogisticRegression())
    joblib.dump(model.fit(ABC, ABC.a > 0), folder / "abc.joblib")
    joblib.dump(model.fit(ABC.to_numpy(), ABC.a > 0), folder / "nameless.joblib")
    ABC.to_csv(folder / "abc.csv", index=False)
    ABC[["c", "b", "a"]].to_csv(folder / "cba.csv", index=False)
    ABC[["c", "b", "a"]].to_parquet(folder / "cba.parquet")
    ABC.rename(columns={"a": "z"}).to_csv(folder / "zbc.csv", index=False)
    (folder / "ids.csv").write_text("age,pay,city\n1,0.5,Paris\n16777217,0.5,Oslo\n")
    doubler(folder / "doubler.onnx")
    np.savez(folder / "recorded.npz", x=np.ones((4, 3), np.float32), y=np.ones((5, 3), np.float32))
    return run_manifest(folder, MANIFEST)


@pytest.mark.parametrize("model", ["parquet", "frame"])
def test_typed_columns_feed_a_pipeline_by_name(models, model):
    """From a Parquet file, with categories and a column that is left out, and from a DataFrame."""
    assert models[model].verdict is Status.PASSED, models[model].error
    fed = [check.shape[0] for check in models.checks(model, output="label") if not check.case.startswith("edge=")]
    assert sum(fed) >= len(ROWS)


def test_edges_of_a_table_are_made_of_its_rows(models):
    """Unknown cities, empty and foreign ones beside known numbers; zeros beside known cities."""
    edges = {check.case for check in models.checks("parquet", output="label", status=Status.PASSED)}
    assert {
        f"edge={name}" for name in ("zeros", "unknown-category", "empty-string", "non-ascii", "large-batch")
    } <= edges


def test_a_source_is_really_asked_for_no_rows(models):
    """It is scikit-learn that refuses them."""
    (note,) = (note for note in models["parquet"].notes if "empty-batch" in note)
    assert "Found array with 0 sample(s)" in note


def test_an_id_that_would_change_is_an_error_of_the_inputs(models):
    """With the line and what it would become."""
    (check,) = models["ids"].checks
    assert (check.case, check.cause) == ("inputs", Cause.LOAD_FAILED)
    assert "ids.csv: column 'age': 1 whole number doesn't fit into float32; the one in line 3" in check.message
    assert "declare it as `int64` or `float64`" in check.fix


@pytest.mark.parametrize("model", ["in-order", "chosen", "nameless"])
def test_columns_that_are_those_of_the_training_are_fed(models, model):
    """As they are, as the manifest chooses them, or where the model knows no names."""
    assert models[model].verdict is Status.PASSED, models[model].error


@pytest.mark.parametrize("model", ["backwards", "backwards-parquet", "backwards-frame", "backwards-in-dict"])
def test_columns_in_another_order_than_the_models_are_refused(models, model):
    """Fed by position, both sides would agree on nonsense."""
    (check,) = models[model].checks
    assert (check.case, check.cause) == ("inputs", Cause.LOAD_FAILED)
    assert "the columns are c, b, a; the model was fitted on a, b, c" in check.message
    callable_ = "frame" in model or "dict" in model
    assert ("`frame[['a', 'b', 'c']]`" if callable_ else "`columns: [a, b, c]`") in check.fix


def test_other_columns_than_the_models_are_refused(models):
    """As many, and of the same dtype."""
    (check,) = models["foreign"].checks
    assert (check.case, check.cause) == ("inputs", Cause.LOAD_FAILED)
    assert "zbc.csv: the columns are z, b, c; the model was fitted on a, b, c" in check.message
    assert check.fix.startswith("rename the columns")


def test_outputs_recorded_for_other_rows_are_no_breach_of_the_contract(models):
    """The data is wrong, not the model."""
    (check,) = models["recorded"].checks
    assert (check.status, check.cause) == (Status.ERROR, Cause.LOAD_FAILED)
    assert "'y' is of shape [5, 3], expected 4 rows" in check.message
