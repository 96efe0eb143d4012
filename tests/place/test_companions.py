"""A node whose answers are wrong in one output is wrong in the others too, even if these rows don't show it."""

from __future__ import annotations

import joblib
import numpy as np
import onnx
import onnxruntime
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from xgboost import XGBClassifier

from onnx_gate.vocabulary import Status
from tests.conftest import run_manifest


def test_labels_of_the_same_wrong_trees_are_mended_too(tmp_path):
    """All labels of the data agree, and only probabilities differ; of other rows, some labels differ."""
    rows = np.random.default_rng(3).normal(size=(600, 4)).astype(np.float32)
    right, other = (
        XGBClassifier(n_estimators=20, max_depth=3, learning_rate=rate).fit(
            rows[:150], rows[:150, 0] + rows[:150, 1] > 0
        )
        for rate in (0.3, 0.9)
    )
    joblib.dump(right, tmp_path / "x.joblib")
    onnx.save(
        convert_xgboost(other, initial_types=[("X", FloatTensorType([None, 4]))], target_opset=15), tmp_path / "x.onnx"
    )
    agree = right.predict(rows) == other.predict(rows)
    assert np.count_nonzero(~agree) > 0
    np.save(tmp_path / "x.npy", rows[agree][:200])
    run = run_manifest(
        tmp_path,
        "version: 1\nmodels:\n  - {id: x, source: x.joblib, onnx: x.onnx, data: x.npy, batches: [64], "
        "inputs: {X: {dtype: float32, shape: [batch, 4]}}}\n",
    )
    model = run["x"]
    assert model.verdict is Status.DIVERGED
    assert model.mended and model.mended.passes, (model.advice, model.mended)
    session = onnxruntime.InferenceSession(str(run.output / "repro/x/mended.onnx"), providers=["CPUExecutionProvider"])
    label, _ = session.run(None, {"X": rows})
    assert np.array_equal(label.ravel(), right.predict(rows))
