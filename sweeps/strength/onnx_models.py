"""Healthy .onnx files as users ship them: there is no source, but its answers to some rows were recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sweeps.strength.sklearn_models import SEED
from sweeps.strength.tables import rows
from sweeps.wrong_models.entry import Entry, Model, Random, floats


def _recorded(name: str, estimator: Any) -> Entry:
    def build(random: Random) -> Model:
        given = rows(name, random)
        fitted = estimator.fit(given.fit, given.fit_target)
        file = to_onnx(fitted, given.fit[:1], options={"zipmap": False})
        answers = (fitted.predict(given.test), fitted.predict_proba(given.test).astype(np.float32))
        outputs = dict(zip((output.name for output in file.graph.output), answers, strict=True))
        return Model(source=file, inputs={"X": floats(given.fit.shape[1])}, own={"X": given.test, **outputs})

    return Entry(framework="onnx", place=f"{name}, with recorded outputs", build=build)


MODELS = {
    "recorded_perceptron": _recorded(
        "cancer",
        make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(16,), max_iter=60, random_state=SEED)),
    ),
    "recorded_forest": _recorded("wine", RandomForestClassifier(10, max_depth=5, random_state=SEED)),
}
"""Entries by name."""
