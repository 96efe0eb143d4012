"""scikit-learn, converted by skl2onnx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import skl2onnx
from skl2onnx.common import data_types
from sklearn.pipeline import Pipeline

from onnx_gate.frameworks.boosters.common import fitted_columns
from onnx_gate.frameworks.plugin import Plugin, in_double
from onnx_gate.frameworks.sklearn.answers import predict
from onnx_gate.frameworks.sklearn.convert import convert
from onnx_gate.frameworks.sklearn.domain.walk import input_domain
from onnx_gate.frameworks.sklearn.files import takes
from onnx_gate.frameworks.sklearn.known import known_cause
from onnx_gate.frameworks.sklearn.landmarks import landmarks
from onnx_gate.frameworks.sklearn.load import load
from onnx_gate.frameworks.sklearn.parameters import parameters, settings
from onnx_gate.records.asked import ModelSpec


def warm_up(export: bool) -> None:
    """Convert a pipeline, so that skl2onnx has its converters registered and parsed."""
    if not export:
        return
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, [0, 0, 1, 1])
    skl2onnx.convert_sklearn(model, initial_types=[("X", data_types.FloatTensorType([None, 1]))])


def widen(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None:
    """The same source: scikit-learn always computes in float64."""
    return source, in_double(spec)


def tails(source: Any, spec: ModelSpec) -> Iterator[Any]:
    """A pipeline without its first steps."""
    if isinstance(source, Pipeline):
        yield from (source[first:] for first in range(1, len(source)))


PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    warm_up=warm_up,
    widen=widen,
    known_cause=known_cause,
    answers_by_row=True,
    fitted_columns=fitted_columns,
    takes=takes,
    tails=tails,
    parameters=parameters,
    settings=settings,
    landmarks=landmarks,
    input_domain=input_domain,
)
