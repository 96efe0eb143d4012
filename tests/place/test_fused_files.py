"""Shipped files of pipelines after ONNX Runtime has simplified them: its nodes are not those of the converter."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnxruntime as ort
import pytest
import skl2onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest

ROWS = np.random.default_rng(5).normal(3, 2, (300, 5)).astype(np.float32)


def simplified(model: Any, path: Path) -> None:
    """Convert it, and let ONNX Runtime write what it makes of the file."""
    types = [("X", FloatTensorType([None, ROWS.shape[1]]))]
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    plain = {id(last): {"zipmap": False}} if hasattr(last, "classes_") else None
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    made = skl2onnx.convert_sklearn(model, initial_types=types, options=plain, target_opset={"": 18, "ai.onnx.ml": 3})
    ort.InferenceSession(made.SerializeToString(), options)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    """A pipeline that was fitted on other rows, and one whose scaler was not exported."""
    folder = tmp_path_factory.mktemp("fused")
    values, classes = ROWS[:, 0] * 2 + ROWS[:, 1] ** 2, (ROWS[:, 0] > ROWS[:, 2]).astype(int)
    forest = Pipeline([("scale", MinMaxScaler()), ("model", RandomForestRegressor(6, max_depth=4, random_state=0))])
    network = Pipeline([("scale", StandardScaler()), ("model", MLPClassifier((10,), max_iter=60, random_state=0))])
    forest.fit(ROWS, values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(ROWS, classes)
    files = {
        "forest": (forest, clone(forest).fit(ROWS[:150], values[:150])),
        "network": (network, network[-1]),
        "right": (network, network),
    }
    entries = []
    for name, (source, shipped) in files.items():
        joblib.dump(source, folder / f"{name}.joblib")
        simplified(shipped, folder / f"{name}.onnx")
        entries.append(
            f"  - {{id: {name}, framework: sklearn, source: {name}.joblib, onnx: {name}.onnx, data: rows.npz, "
            "inputs: {X: {dtype: float32, shape: [batch, 5]}}}"
        )
    np.savez(folder / "rows.npz", X=ROWS[:64])
    return {
        model.id: model for model in run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries)).result.models
    }


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [("forest", Cause.WEIGHTS, "TreeEnsembleRegressor"), ("network", Cause.PREPROCESSING, "In `scale`")],
)
def test_the_cause_is_named_and_mended(found: dict[str, ModelResult], name: str, cause: Cause, words: str) -> None:
    """Other trees behind another scaler are weights; a scaler before a layer that is one node here is preprocessing."""
    model = found[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, cause), (model.error, model.advice)
    assert words in model.advice
    assert model.mended and model.mended.passes


def test_the_right_file_passes(found: dict[str, ModelResult]) -> None:
    """The look-alike."""
    assert found["right"].verdict is Status.PASSED, found["right"].advice
