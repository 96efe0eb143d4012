"""scikit-learn, converted by skl2onnx."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import skl2onnx
from skl2onnx.common import data_types
from sklearn.base import is_classifier, is_clusterer, is_regressor
from sklearn.exceptions import InconsistentVersionWarning

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.widths import in_double
from onnx_gate.records import Answer, ModelSpec, Triage
from onnx_gate.sources import call, describe, failed, kind_of, prepare_import_path, require_content

# The newest version of the domain that every supported runtime loads; tree converters would write 5 by default.
ML_OPSET = 3
_SAVED_FROM_MAIN = (
    "its class was defined in the script or notebook that saved it: move it to a module beside the manifest, "
    "and save it again"
)
_TYPES = {
    "float32": data_types.FloatTensorType,
    "float64": data_types.DoubleTensorType,
    "int64": data_types.Int64TensorType,
    "int32": data_types.Int32TensorType,
    "bool": data_types.BooleanTensorType,
    "string": data_types.StringTensorType,
}


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


def load(spec: ModelSpec) -> Any:
    """An estimator from a pickle, a joblib file or a factory."""
    source = spec.source
    if source.callable:
        model = call(source, spec.folder)
    else:
        model = _unpickle(spec)
    if isinstance(model, type) or not any(hasattr(model, method) for method in ("predict", "transform")):
        raise CannotJudge(
            "load-failed",
            f"{source.shown}: got {kind_of(model)}, expected a fitted estimator with predict or transform",
            fix="return the estimator" if source.callable else "save the estimator itself",
        )
    return model


def _unpickle(spec: ModelSpec) -> Any:
    path, shown = str(spec.source.file), spec.source.shown
    require_content(path, shown)
    prepare_import_path(spec.folder, path)
    with warnings.catch_warnings():
        # Such a model may load and predict differently, in a way that its ONNX agrees with.
        warnings.simplefilter("error", InconsistentVersionWarning)
        try:
            return joblib.load(path)
        except MemoryError:
            raise
        except InconsistentVersionWarning as error:
            raise CannotJudge(
                "load-failed",
                f"{shown}: {error.estimator_name} was saved by scikit-learn {error.original_sklearn_version}, "
                f"and {error.current_sklearn_version} is installed",
                fix=f"install scikit-learn=={error.original_sklearn_version}, or save the model again",
            ) from error
        except (pickle.UnpicklingError, EOFError) as error:
            raise failed(
                "load-failed", shown, error, fix="is it a whole pickle or joblib file? Save it again"
            ) from error
        except BaseException as error:
            fix = _SAVED_FROM_MAIN if "Can't get attribute" in str(error) else ""
            raise failed("load-failed", shown, error, fix=fix) from error


def predict(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """What scikit-learn answers, by the names that skl2onnx gives its outputs."""
    (given,) = spec.inputs or ()
    # A copy: an estimator may write into its input, and the other side gets the same feed. Floats are widened:
    # some estimators refuse float32, and nothing is lost.
    rows = np.array(feed[given.name], dtype=np.float64 if feed[given.name].dtype.kind == "f" else None)
    floats = given.dtype if given.dtype.startswith("float") else "float32"
    if is_classifier(source):
        scores = source.predict_proba(rows) if hasattr(source, "predict_proba") else source.decision_function(rows)
        return {"label": _labels(source.predict(rows)), "probabilities": _floats(scores, floats, _classes(source))}
    if is_clusterer(source):
        answers = {"label": _labels(source.predict(rows))}
        return answers | ({"scores": _floats(source.transform(rows), floats)} if hasattr(source, "transform") else {})
    answered = source.predict(rows) if is_regressor(source) or hasattr(source, "predict") else source.transform(rows)
    return {"variable": _floats(answered, floats)}


def _labels(values: Any) -> Answer:
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        return Answer(value=array.astype(object), dtype="string")
    return Answer(value=array.astype(np.int64), dtype="int64")


def _classes(source: Any) -> tuple[Any, ...] | None:
    """What the columns of the probabilities stand for."""
    classes = getattr(source, "classes_", None)
    return tuple(_labels(classes).value.tolist()) if isinstance(classes, np.ndarray) and classes.ndim == 1 else None


def _floats(values: Any, dtype: str, columns: tuple[Any, ...] | None = None) -> Answer:
    if isinstance(values, list):
        raise CannotJudge("load-failed", "multi-output classifiers are not served by this version of onnx-gate")
    dense = values.toarray() if hasattr(values, "toarray") else values
    return Answer(value=np.asarray(dense, dtype=np.float64), dtype=dtype, column=True, columns=columns)


def convert(source: Any, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Write the ONNX file, with ZipMap off unless the manifest asks for it."""
    (given,) = spec.inputs or ()
    if given.dtype not in _TYPES:
        raise CannotJudge(
            "conversion-failed",
            f"inputs.{given.name}.dtype: skl2onnx takes no {given.dtype}, expected one of {', '.join(_TYPES)}",
            fix="declare the input as float32",
        )
    shape = [None if isinstance(size, str) else size for size in given.shape]
    arguments: dict[str, Any] = {
        "name": spec.id,
        "initial_types": [(given.name, _TYPES[given.dtype](shape))],
        "target_opset": {"": spec.convert.get("opset", 18), "ai.onnx.ml": ML_OPSET},
    }
    zipmap = spec.convert.get("zipmap", False)
    options = {"options": {id(source): {"zipmap": zipmap}}} if is_classifier(source) else {}
    try:
        try:
            converted = skl2onnx.convert_sklearn(source, **arguments, **options)
        except NameError as error:
            # Some classifiers have no such option, and get no ZipMap either; a pipeline sets it on them by
            # itself, unless they have options of their own.
            if "zipmap" not in str(error) or zipmap:
                raise
            steps = [step for _, step in getattr(source, "steps", ())]
            converted = skl2onnx.convert_sklearn(source, **arguments, options={id(step): {} for step in steps})
    except MemoryError:
        raise
    except Exception as error:
        raise _conversion_failed(spec, error) from error
    path.write_bytes(converted.SerializeToString())
    return []


def _conversion_failed(spec: ModelSpec, error: Exception) -> CannotJudge:
    unsupported = "MissingShapeCalculator" in type(error).__name__ or "MissingConverter" in type(error).__name__
    return CannotJudge(
        "unsupported-operator" if unsupported else "conversion-failed",
        f"{spec.source.shown}: skl2onnx can't convert it: {describe(error)}",
        fix="export it yourself and name the file as `onnx:`, or choose an estimator that skl2onnx supports",
    )


def widen(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None:
    """scikit-learn computes in float64 anyway."""
    return source, in_double(spec)


def known_cause(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """Nothing is known to go wrong."""
    return None
