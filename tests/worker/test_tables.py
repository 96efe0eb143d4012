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

from onnx_gate.records import Cause, Status
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
MANIFEST = f"""
version: 1
defaults: {{framework: sklearn, batches: [1, 7]}}
models:
  - {{id: parquet, source: people.joblib, inputs: {SCHEMA}, data: people.parquet, edges: true, ignore_data: [when]}}
  - {{id: frame, source: people.joblib, inputs: {SCHEMA}, data: people.py:rows}}
  - {{id: ids, source: people.joblib, inputs: {SCHEMA}, data: ids.csv}}
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
    )
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


def test_an_id_that_would_change_is_an_error_of_the_inputs(models):
    """With the line and what it would become."""
    (check,) = models["ids"].checks
    assert (check.case, check.cause) == ("inputs", Cause.LOAD_FAILED)
    assert "ids.csv: column 'age': 1 whole number doesn't fit into float32; 16777217 in line 3" in check.message
    assert "declare it as `int64` or `float64`" in check.message


def test_outputs_recorded_for_other_rows_are_no_breach_of_the_contract(models):
    """The data is wrong, not the model."""
    (check,) = models["recorded"].checks
    assert (check.status, check.cause) == (Status.ERROR, Cause.LOAD_FAILED)
    assert "'y' is of shape [5, 3], expected 4 rows" in check.message
