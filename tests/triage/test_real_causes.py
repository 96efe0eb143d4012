"""Causes of real divergences: models that people have, through the whole gate."""

from __future__ import annotations

import joblib
import numpy as np
import onnx
import pytest
import skl2onnx
from onnx import TensorProto, helper, numpy_helper
from skl2onnx.common.data_types import FloatTensorType
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

CANCER, DIABETES, DIGITS = load_breast_cancer(), load_diabetes(), load_digits()
DATA = {"cancer": CANCER, "diabetes": DIABETES, "digits": DIGITS}
TREE = DecisionTreeRegressor(random_state=0)
FOREST = RandomForestRegressor(20, random_state=0)

MODELS = {
    "scaled-tree": ("diabetes", "float32", make_pipeline(StandardScaler(), TREE)),
    "scaled-forest": (
        "diabetes",
        "float32",
        make_pipeline(StandardScaler(), RandomForestRegressor(20, random_state=0)),
    ),
    "kmeans": ("cancer", "float32", KMeans(8, n_init=1, random_state=0)),
    "threshold": ("cancer", "float32", TunedThresholdClassifierCV(GaussianNB(), cv=3)),
    "unseen-forest": ("cancer", "float32", RandomForestClassifier(20, random_state=1)),
    "lda": ("cancer", "float32", LinearDiscriminantAnalysis()),
    "binarizer": ("digits", "float64", Binarizer()),
}


@pytest.fixture(scope="module")
def causes(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("causes")
    entries = []
    for name, data in DATA.items():
        np.savez(folder / f"{name}.npz", X=data.data)
    for name, (data, dtype, model) in MODELS.items():
        rows, target = DATA[data].data, DATA[data].target
        # Rows that were not trained on lie nearer to the splits of a tree.
        known = (
            np.random.default_rng(1).permutation(len(rows))[: len(rows) * 3 // 4]
            if "scaled" in name or "unseen" in name
            else slice(None)
        )
        with threadpool_limits(1):
            joblib.dump(model.fit(rows[known], target[known]), folder / f"{name}.joblib")
        entries.append(_entry(name, f"{name}.joblib", data, dtype))
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(CANCER.data, CANCER.target)
    joblib.dump(scaled, folder / "scaled.joblib")
    bare = skl2onnx.convert_sklearn(
        scaled[-1], initial_types=[("X", FloatTensorType([None, 30]))], options={"zipmap": False}, target_opset=18
    )
    (folder / "bare.onnx").write_bytes(bare.SerializeToString())
    entries.append(_entry("no-scaler", "scaled.joblib", "cancer", "float32", "onnx: bare.onnx"))
    return run_manifest(folder, "version: 1\ndefaults: {batches: [64]}\nmodels:\n" + "\n".join(entries))


def _entry(name: str, source: str, data: str, dtype: str, more: str = "") -> str:
    width = DATA[data].data.shape[1]
    given = f"inputs: {{X: {{dtype: {dtype}, shape: [batch, {width}]}}}}, data: {data}.npz"
    return f"  - {{id: {name}, source: {source}, {given}{', ' if more else ''}{more}}}"


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("scaled-tree", Cause.PRECISION, "drop the scaler"),
        ("scaled-forest", Cause.PRECISION, "CastTransformer"),
        ("kmeans", Cause.PRECISION, "Converted in float64, of the mismatches all are gone"),
        ("unseen-forest", Cause.PRECISION, "are ties: their two best scores are at most 0 apart"),
        ("lda", Cause.CONVERSION, "sigmoid"),
        ("threshold", Cause.CONVERSION, "best_threshold_"),
        ("binarizer", Cause.CONVERSION, "`>=` for `>`"),
        ("no-scaler", Cause.PREPROCESSING, "file has no Scaler here, and the source has"),
    ],
)
def test_the_cause_is_the_right_one(causes, model, cause, words):
    """With the words that tell what to do."""
    found = causes[model]
    assert (found.verdict, found.cause) == (Status.DIVERGED, cause), found.advice
    assert words in found.advice
    assert found.advice.endswith(".")


def test_a_change_that_changes_nothing_is_no_preprocessing(tmp_path):
    """One answer of 400 is wrong, and what people do to images leaves a table as it is."""
    random = np.random.default_rng(0)
    weights, x = random.normal(size=(6, 400)).astype("float32"), random.normal(size=(16, 6)).astype("float32")
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 6), ("y", 400))
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "matmul")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    y = x @ weights
    y[:, 333] *= -2
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    text = "version: 1\nmodels:\n  - {id: wide, framework: onnx, source: m.onnx, data: rows.npz}"
    (model,) = run_manifest(tmp_path, text).result.models
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.CONVERSION), (model.error, model.advice)
