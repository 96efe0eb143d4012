"""Tables with missing values, and texts: what reaches a step decides which cause is named."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import NMF, MiniBatchNMF
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from onnx_gate.frameworks.sklearn.inputs import rows_of
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

ROWS = 300
SCHEMA = "{age: {dtype: float32, shape: [batch, 1]}, fee: {dtype: float32, shape: [batch, 1]}}"


def _table() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"age": rng.normal(4e4, 9.0, ROWS), "fee": rng.gamma(2.0, 30.0, ROWS)}).astype(np.float32)
    target = (table["age"] > 4e4) ^ (table["fee"] > 50)
    table.loc[::9, "fee"] = np.nan
    return table, target


REVIEWS = (
    *("great product works well", "does not work at all", "bad quality product", "great quality and works"),
    *("not a great buy", "works with my phone", "well made and cheap", "never buy bad product"),
)
LOCALE = "convert: {options: {TfidfVectorizer: {locale: C.UTF-8}}}"
PLAIN = "[a-zA-Z0-9_]+"
REVIEWERS: dict[str, dict[str, Any]] = {
    "pairs": {"ngram_range": (1, 2)},
    "pairs-stopped": {"ngram_range": (1, 2), "stop_words": "english", "token_pattern": PLAIN},
    "pairs-plain": {"ngram_range": (1, 2), "token_pattern": PLAIN},
    "words-stopped": {"stop_words": "english"},
}


def _reviewer(**keys: Any) -> Any:
    return make_pipeline(TfidfVectorizer(**keys), LogisticRegression()).fit(REVIEWS, np.arange(8) % 2)


def _texts() -> Any:
    return pd.DataFrame({"city": ["Bern", np.nan, "Rome", "Oslo"] * 10})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder: Path = tmp_path_factory.mktemp("tables")
    table, target = _table()
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = make_column_transformer((numbers, ["age", "fee"]))
    scaled = make_pipeline(columns, RandomForestClassifier(30, random_state=0))
    joblib.dump(scaled.fit(table, target), folder / "scaled.joblib")
    table.to_csv(folder / "rows.csv", index=False)
    texts = _texts()
    first = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False))
    city = make_pipeline(make_column_transformer((first, ["city"])), RandomForestClassifier(3, random_state=0))
    joblib.dump(city.fit(texts, np.arange(40) % 2), folder / "city.joblib")
    for name, keys in REVIEWERS.items():
        joblib.dump(_reviewer(**keys), folder / f"{name}.joblib")
    schema = "inputs: {X: {dtype: string, shape: [batch]}}"
    reviewers = "\n".join(f"  - {{id: {name}, source: {name}.joblib, {schema}, {LOCALE}}}" for name in REVIEWERS)
    manifest = f"""
        version: 1
        models:
          - {{id: scaled, source: scaled.joblib, data: rows.csv, inputs: {SCHEMA}}}
          - {{id: city, source: city.joblib, inputs: {{city: {{dtype: string, shape: [batch, 1]}}}}}}
    """
    return run_manifest(folder, dedent(manifest).rstrip() + "\n" + reviewers)


def test_a_nan_that_an_imputer_replaces_is_not_blamed(models: Run) -> None:
    """The imputer and the scaler are inside a ColumnTransformer; the scaler's rounding moves rows across splits."""
    model = models["scaled"]
    assert model.verdict is Status.DIVERGED
    assert model.cause is Cause.PRECISION, model.advice
    assert "A scaler before RandomForestClassifier" in model.advice


def test_an_imputer_of_texts_says_what_onnx_can_impute(models: Run) -> None:
    """Texts can't be NaN in ONNX."""
    assert models["city"].verdict is Status.ERROR
    assert "SimpleImputer(missing_values='', …)" in models["city"].error


@pytest.mark.parametrize(
    ("name", "words"), [("pairs", "drops words of one letter"), ("pairs-stopped", "removes stop words before")]
)
def test_terms_of_several_words_are_interrupted(models: Run, name: str, words: str) -> None:
    """Without data: a letter or a stop word stands between the words of a known term."""
    assert models[name].verdict is Status.DIVERGED
    assert models[name].cause is Cause.PREPROCESSING
    assert words in models[name].advice


@pytest.mark.parametrize("name", ["pairs-plain", "words-stopped"])
def test_what_the_advice_says_passes(models: Run, name: str) -> None:
    """The conversion cuts such texts as scikit-learn does."""
    assert models[name].verdict is Status.PASSED, models[name].advice


@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans, BisectingKMeans, NMF, MiniBatchNMF])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_estimators_that_take_one_dtype_get_it(kind, dtype):
    """The dtype that they were fitted on, also at the end of a pipeline; the feed may have the other one."""
    rows = np.abs(np.random.default_rng(0).normal(size=(30, 4)))
    source = make_pipeline(MinMaxScaler(clip=True), kind(2)).fit(rows.astype(dtype))
    given = InputSpec(name="X", dtype="float32", shape=("batch", 4))
    spec = ModelSpec(id="m", line=1, framework="sklearn", folder="/", source=Location(), inputs=(given,))
    for fed in (np.float32, np.float64):
        taken = rows_of(source, spec, {"X": rows.astype(fed)})
        assert taken.dtype == dtype
        assert len(source.transform(taken)) == len(rows)
        assert not hasattr(source, "predict") or len(source.predict(taken)) == len(rows)
