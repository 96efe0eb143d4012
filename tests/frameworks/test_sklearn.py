"""scikit-learn through the whole gate, trained on data sets that come with it."""

from __future__ import annotations

import pickle
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

IRIS, DIABETES, CANCER = load_iris(), load_diabetes(), load_breast_cancer()
NAMES = IRIS.target_names[IRIS.target]

MODELS = {
    "logreg": lambda: LogisticRegression(max_iter=500).fit(IRIS.data, IRIS.target),
    "words": lambda: LogisticRegression(max_iter=500).fit(IRIS.data, NAMES),
    "bools": lambda: LogisticRegression(max_iter=500).fit(IRIS.data, IRIS.target == 1),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(IRIS.data, IRIS.target),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=5).fit(IRIS.data, IRIS.target),
    "neighbours": lambda: make_pipeline(StandardScaler(), KNeighborsRegressor(3)).fit(IRIS.data, IRIS.data[:, 0]),
    "svc-pipeline": lambda: make_pipeline(StandardScaler(), LinearSVC()).fit(IRIS.data, IRIS.target),
    "scaler": lambda: StandardScaler().fit(IRIS.data),
    "kmeans": lambda: KMeans(3, n_init=1, random_state=0).fit(IRIS.data),
    "multi-output": lambda: MultiOutputClassifier(LogisticRegression(max_iter=500)).fit(
        IRIS.data, np.c_[IRIS.target, IRIS.target == 1]
    ),
    "own-function": lambda: make_pipeline(FunctionTransformer(np.log1p), LinearRegression()).fit(
        IRIS.data, IRIS.target
    ),
}
REGRESSORS = {
    "ridge": lambda: Ridge().fit(DIABETES.data, DIABETES.target),
    "two-targets": lambda: LinearRegression().fit(DIABETES.data, np.c_[DIABETES.target, -DIABETES.target]),
    "forest": lambda: RandomForestRegressor(5, random_state=0).fit(DIABETES.data, DIABETES.target),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("sklearn")
    entries = []
    np.savez(folder / "iris.npz", X=IRIS.data)
    np.savez(folder / "diabetes.npz", X=DIABETES.data)
    np.savez(folder / "cancer.npz", X=CANCER.data)
    for name, build in {**MODELS, **REGRESSORS}.items():
        joblib.dump(build(), folder / f"{name}.joblib")
        width, data = (10, "diabetes") if name in REGRESSORS else (4, "iris")
        tolerance = "{rtol: 1e-3, atol: 1e-3}" if name == "kmeans" else "{rtol: 1e-3, atol: 1e-4}"
        entries.append(
            f"  - {{id: {name}, source: {name}.joblib, data: {data}.npz, tolerance: {tolerance}, "
            f"inputs: {{X: {{dtype: float32, shape: [batch, {width}]}}}}}}"
        )
    (folder / "plain.pkl").write_bytes(pickle.dumps(MODELS["logreg"]()))
    joblib.dump(LinearDiscriminantAnalysis().fit(CANCER.data, CANCER.target), folder / "lda.joblib")
    _write_old_pickle(folder)
    schema = "inputs: {X: {dtype: float32, shape: [batch, 4]}}"
    entries += [
        f"  - {{id: plain-pickle, source: plain.pkl, {schema}, data: iris.npz}}",
        f"  - {{id: generated, source: plain.pkl, {schema}, edges: true}}",
        f"  - {{id: old-version, source: old.pkl, {schema}}}",
        "  - {id: bad-dtype, source: plain.pkl, inputs: {X: {dtype: float16, shape: [batch, 4]}}}",
        "  - {id: double, source: plain.pkl, inputs: {X: {dtype: float64, shape: [batch, 4]}}, data: iris.npz}",
        "  - {id: lda, source: lda.joblib, inputs: {X: {dtype: float32, shape: [batch, 30]}}, data: cancer.npz}",
        f"  - {{id: opset, source: plain.pkl, {schema}, convert: {{opset: 15}}, data: iris.npz}}",
    ]
    return run_manifest(folder, "version: 1\ndefaults: {batches: [1, 7, 64]}\nmodels:\n" + "\n".join(entries))


def _write_old_pickle(folder: Path) -> None:
    """A pickle that says it was saved by scikit-learn 1.2."""
    state = {**MODELS["logreg"]().__getstate__(), "_sklearn_version": "1.2.0"}
    (folder / "old.pkl").write_bytes(pickle.dumps(_WithState(state)))


class _WithState:
    """Pickles as a LogisticRegression with the given state."""

    def __init__(self, state):
        self.state = state

    def __reduce__(self):
        return LogisticRegression, (), self.state


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("logreg", {"label": "int64", "probabilities": "float32"}),
        ("words", {"label": "string", "probabilities": "float32"}),
        ("bools", {"label": "int64", "probabilities": "float32"}),
        ("pipeline", {"label": "int64", "probabilities": "float32"}),
        ("boosting", {"label": "int64", "probabilities": "float32"}),
        ("svc-pipeline", {"label": "int64", "probabilities": "float32"}),
        ("neighbours", {"variable": "float32"}),
        ("scaler", {"variable": "float32"}),
        ("kmeans", {"label": "int64", "scores": "float32"}),
        ("ridge", {"variable": "float32"}),
        ("two-targets", {"variable": "float32"}),
        ("forest", {"variable": "float32"}),
        ("plain-pickle", {"label": "int64", "probabilities": "float32"}),
        ("generated", {"label": "int64", "probabilities": "float32"}),
        ("double", {"label": "int64", "probabilities": "float64"}),
        ("opset", {"label": "int64", "probabilities": "float32"}),
        ("multi-output", {"label": "int64", "probabilities": "sequence of float32"}),
    ],
)
def test_estimators_pass_with_the_outputs_of_the_contract(models, model, outputs):
    """Names and dtypes are those that the contract promises."""
    assert models[model].verdict is Status.PASSED, [check.message for check in models[model].checks]
    assert {check.output: check.dtype for check in models[model].checks} == outputs


def test_a_conversion_to_float64_ends_where_a_tree_splits_on_missing_values_alone(tmp_path):
    """Such a split has an infinite threshold, to which skl2onnx halves the way for ever."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 2))
    rows[::4, 0] = np.nan
    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(rows, np.isnan(rows[:, 0]) * 9.0 + rows[:, 1])
    assert any(np.isinf(tree.tree_.threshold).any() for tree in model.estimators_)
    joblib.dump(model, tmp_path / "m.joblib")
    entry = "{id: m, source: m.joblib, timeout: 60, inputs: {X: {dtype: float64, shape: [batch, 2]}}}"
    found = run_manifest(tmp_path, f"version: 1\nmodels: [{entry}]")
    assert found["m"].convert is not None
    assert found["m"].cause is not Cause.TIMEOUT


def test_every_row_is_compared_at_the_largest_batch(models):
    """150 rows: two calls of 64, and the remainder of 22 as a case of its own; all of them once more as given."""
    rows = {check.case: check.shape[0] for check in models.checks("logreg", output="label")}
    assert rows == {"batch=1": 8, "batch=7": 56, "batch=64": 128, "batch=22": 22, "given": 150}


def test_a_wrong_conversion_is_found(models):
    """skl2onnx takes the sigmoid of twice the score of a binary LDA: right labels, wrong probabilities."""
    model = models["lda"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.CONVERSION)
    assert all(check.status is Status.PASSED for check in models.checks("lda", output="label"))
    assert max(check.max_abs for check in models.checks("lda", output="probabilities")) > 0.1


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("old-version", Cause.LOAD_FAILED, "was saved by scikit-learn 1.2.0, and"),
        ("bad-dtype", Cause.CONVERSION_FAILED, "skl2onnx takes no float16"),
        ("own-function", Cause.UNSUPPORTED_OPERATOR, "FunctionTransformer"),
    ],
)
def test_what_cannot_be_judged_says_why(models, model, cause, words):
    """The cause, and what to do."""
    assert (models[model].verdict, models[model].cause) == (Status.ERROR, cause), models[model].error
    assert words in models[model].error
