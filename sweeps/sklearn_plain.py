"""A plain second check of a converted estimator: skl2onnx, one session, numpy; no code of the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import skl2onnx
from skl2onnx.common import data_types
from sklearn.base import is_regressor

TYPES = {
    "float32": data_types.FloatTensorType,
    "float64": data_types.DoubleTensorType,
    "int64": data_types.Int64TensorType,
    "string": data_types.StringTensorType,
}

NARROW = ("OneHotEncoder", "OrdinalEncoder", "RandomForestClassifier", "RandomTreesEmbedding")
"""Estimators whose converters output float32 whatever the declared type is."""


def judge_plainly(model: Any, file: Path, rows: Any, dtype: str, *, batch: int, rtol: float, atol: float) -> str:
    """`passed`, `diverged`, or `error: ` with the reason why it can't be compared."""
    try:
        content = file.read_bytes() if file.exists() else _convert(model, rows, dtype)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"error: {type(error).__name__}"
    given = rows if dtype == "string" else rows.astype(dtype)
    (declared,) = session.get_inputs()
    names = [output.name for output in session.get_outputs()]
    same = True
    for start in range(0, len(given), batch):
        feed = given[start : start + batch]
        fed = feed.reshape(-1, 1) if len(declared.shape) == 2 and feed.ndim == 1 else feed
        try:
            actuals = session.run(names, {declared.name: fed})
            references = [_reference(model, name, feed) for name in names]
        except Exception as error:
            return f"error: {type(error).__name__}"
        same &= all(map(_close(rtol, atol), references, actuals)) and _wide_enough(model, dtype, actuals)
    return "passed" if same else "diverged"


def _convert(model: Any, rows: Any, dtype: str) -> bytes:
    """Convert again if the gate left no file: the conversion has to fail here too."""
    shape = [None, *rows.shape[1:]] if rows.ndim > 1 else [None, 1]
    types = [("X", TYPES[dtype](shape))]
    opsets = {"": 18, "ai.onnx.ml": 3}
    try:
        made = skl2onnx.convert_sklearn(
            model, initial_types=types, target_opset=opsets, options={id(model): {"zipmap": False}}
        )
    except NameError:
        made = skl2onnx.convert_sklearn(model, initial_types=types, target_opset=opsets)
    content: bytes = made.SerializeToString()
    return content


def _reference(model: Any, output: str, feed: Any) -> Any:
    """The estimator's own answer for an output of the ONNX model with this name."""
    rows = feed.astype(np.float64) if feed.dtype.kind == "f" else feed
    if output in ("index", "distance"):
        return model.kneighbors(rows)[output == "index"]
    methods = {
        "label": ("predict",),
        "probabilities": ("predict_proba", "decision_function"),
        "scores": ("transform", "decision_function"),
        "variable": _values_first(model),
        "GPmean": ("predict",),
        "score_samples": ("score_samples",),
    }.get(output, ("transform",))
    method = next(method for method in methods if hasattr(model, method))
    return getattr(model, method)(rows)


def _values_first(model: Any) -> tuple[str, ...]:
    return ("predict", "transform") if is_regressor(model) else ("transform", "predict")


def _close(rtol: float, atol: float) -> Callable[[Any, Any], bool]:
    def compare(reference: Any, actual: Any) -> bool:
        if isinstance(actual, list):
            return len(actual) == len(reference) and all(map(compare, reference, actual))
        if isinstance(reference, list):
            return len(actual) == len(reference) and all(map(compare, reference, actual))
        expected = np.asarray(reference.toarray() if hasattr(reference, "toarray") else reference)
        actual = np.asarray(actual)
        if not _same_shape(expected, actual):
            return False
        if actual.dtype.kind != "f":
            return bool(np.array_equal(actual.ravel().astype(str), expected.ravel().astype(actual.dtype).astype(str)))
        if expected.ndim == 1 and actual.shape[1:] == (2,):
            expected = np.c_[-expected, expected]
        expected = expected.astype(np.float64).reshape(actual.shape)
        return bool(np.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True))

    return compare


def _wide_enough(model: Any, dtype: str, actuals: list[Any]) -> bool:
    """Whether a model with declared float64 outputs float64."""
    floats = [actual for actual in actuals if isinstance(actual, np.ndarray) and actual.dtype.kind == "f"]
    narrow = any(actual.dtype != np.float64 for actual in floats)
    return dtype != "float64" or not narrow or type(model).__name__ in NARROW


def _same_shape(expected: Any, actual: Any) -> bool:
    """Whether two shapes fit: a single column may be a vector, and the scores of two classes may be two columns."""
    shape = actual.shape[:-1] if actual.ndim == 2 and actual.shape[1] in (1, 2) and expected.ndim == 1 else actual.shape
    return bool(shape == expected.shape)
