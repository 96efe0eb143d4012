"""Code that LightGBM, XGBoost and CatBoost share, for models alone and as parts of scikit-learn's estimators."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import skl2onnx
from skl2onnx.common import data_types

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.boosters.trees import (
    ML_DOMAIN,
    ML_OPSET,
    Trees,
    declare_outputs,
    onnx_labels,
    set_shapes,
    write_trees,
)
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import call, describe, kind_of

Array = npt.NDArray[Any]
LIBRARIES = ("lightgbm", "xgboost", "catboost")
OWN_EXPORT = "export it yourself and name the file as `onnx:`"
_OPTIONS = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False]}
_TYPES = {
    "float32": data_types.FloatTensorType,
    "float64": data_types.DoubleTensorType,
    "int64": data_types.Int64TensorType,
    "int32": data_types.Int32TensorType,
    "bool": data_types.BooleanTensorType,
}
_NAMES = ("feature_names_in_", "feature_names_", "feature_names", "feature_name")
"""Attributes in which scikit-learn, CatBoost, XGBoost and LightGBM keep the names of their columns."""
_WIDTHS = ("n_features_in_", "num_features", "num_feature")
"""Attributes in which they keep the number of their columns."""
_MADE_UP = re.compile(r"Column_\d+|f?\d+")
"""Names that boosters give to the columns of an array."""
_read: dict[int, tuple[Any, Trees]] = {}
"""Trees by id of the model; the model is kept too, so that no other object gets the same id."""


class Ensemble:
    """A booster without a pipeline, in the form that skl2onnx takes."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.classes_ = trees.classes


def library_of(model: object) -> str | None:
    """The booster library that a model's class comes from, or inherits from."""
    roots = (base.__module__.partition(".")[0] for base in type(model).__mro__)
    return next((root for root in roots if root in LIBRARIES), None)


def trees_of(model: Any) -> Trees:
    """The trees of a fitted booster; raises CannotJudge where ONNX can't represent them."""
    if isinstance(model, Ensemble):
        return model.trees
    if id(model) not in _read:
        module = importlib.import_module(REGISTRY[str(library_of(model))].plugin)
        _read[id(model)] = (model, module.read_trees(model))
    return _read[id(model)][1]


def register_boosters(source: Any) -> list[str]:
    """Let skl2onnx convert the boosters that an estimator holds; return notes on changes to them."""
    notes: dict[str, None] = {}
    for model in find_boosters(source):
        notes |= dict.fromkeys(trees_of(model).notes)
        _register(type(model))
    return list(notes)


def find_boosters(source: Any) -> Iterator[Any]:
    """Every fitted booster in an estimator, itself included."""
    seen: set[int] = set()
    left = [source]
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if library_of(part):
            if _is_fitted(part):
                yield part
        elif isinstance(part, dict):
            left += part.values()
        elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
            left += list(np.ravel(part)) if isinstance(part, np.ndarray) else part
        elif hasattr(part, "get_params") or type(part).__module__.startswith("sklearn."):
            left += getattr(part, "__dict__", {}).values()


def fitted_columns(source: Any) -> tuple[str, ...]:
    """The column names that the model, or the first step of a pipeline, was fitted on; empty if fitted on arrays."""
    for attribute in _NAMES:
        try:
            known = getattr(source, attribute, None)
            names = tuple(map(str, known() if callable(known) else () if known is None else known))
        except Exception:  # noqa: S112
            # A pipeline asks its first step, which may have no names.
            continue
        if names and not all(_MADE_UP.fullmatch(name) for name in names):
            return names
    return ()


def takes(source: Any) -> Seen | None:
    """The number of columns that a fitted booster takes, as a description of its input."""
    for attribute in _WIDTHS:
        known = getattr(source, attribute, None)
        width = known() if callable(known) else known
        if isinstance(width, int) and width > 0:
            given = SeenInput(name="X", dtype="float32", shape=("batch", width))
            name, what = str(library_of(source)), type(source).__name__
            columns = fitted_columns(source)
            return Seen(role="model", framework=name, what=what, inputs=(given,), basis=attribute, columns=columns)
    return None


def _is_fitted(model: Any) -> bool:
    """Whether a booster is fitted: meta-estimators keep the unfitted one that they got, beside the fitted ones."""
    for name in ("is_fitted", "__sklearn_is_fitted__"):
        if callable(check := getattr(model, name, None)):
            return bool(check())
    return hasattr(model, "predict")


def _register(kind: type) -> None:
    skl2onnx.update_registered_converter(
        kind,
        f"OnnxGate{kind.__module__.partition('.')[0].title()}{kind.__name__}",
        lambda operator: set_shapes(trees_of(operator.raw_operator), operator),
        lambda scope, operator, container: write_trees(trees_of(operator.raw_operator), scope, operator, container),
        parser=lambda scope, model, inputs, custom_parsers=None: declare_outputs(trees_of(model), scope, model, inputs),
        options=_OPTIONS | ({"raw_scores": [True, False]} if hasattr(kind, "decision_function") else {}),
    )


def load_source(spec: ModelSpec, library: str, read: Any) -> Any:
    """The model of the factory, or of the file."""
    if not spec.source.callable:
        return read(str(spec.source.file), spec.source.shown)
    model = call(spec.source, spec.folder)
    if isinstance(model, type) or library_of(model) != library or not hasattr(model, "predict"):
        other = library_of(model)
        held = "sklearn" if hasattr(model, "predict") and not isinstance(model, type) else ""
        right = f"set `framework: {other or held}`" if other or held else f"return the {library} model"
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: got {kind_of(model)}, expected a model of {library}: its Booster, or an estimator",
            fix=right,
        )
    if not _is_fitted(model):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the {type(model).__name__} is not fitted",
            fix="fit it in the factory",
        )
    return model


def rows_of(spec: ModelSpec, feed: dict[str, Any], features: int) -> Array:
    """All inputs side by side as one matrix, which must have as many columns as the training data."""
    columns = []
    for given in spec.inputs or ():
        values = np.asarray(feed[given.name])
        if given.dtype not in _TYPES or values.ndim != 2:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"inputs.{given.name}: boosted trees don't take {given.dtype} with {values.ndim} dimensions; "
                f"expected {', '.join(_TYPES)} of the shape [batch, columns]",
                fix=f"write `inputs: {{{given.name}: {{dtype: float32, shape: [batch, {features}]}}}}`",
            )
        columns.append(values)
    # A copy, because the ONNX side gets the same feed.
    rows = np.concatenate(columns, axis=1) if len(columns) > 1 else np.array(columns[0])
    if rows.shape[1] != features:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the inputs have {rows.shape[1]} columns, and the model was trained on {features}",
            fix=f"make them {features} columns in all, in the order of the training data, such as "
            f"`shape: [batch, {features}]`",
        )
    return rows if rows.dtype.kind == "f" else rows.astype(np.float32)


def floats_of(spec: ModelSpec) -> str:
    """The dtype that float answers must have."""
    return "float64" if any(given.dtype == "float64" for given in spec.inputs or ()) else "float32"


def class_answers(labels: Any, probabilities: Any, spec: ModelSpec, classes: Any) -> dict[str, Answer]:
    """The answers of a classifier; a single column of probabilities belongs to the second class."""
    given, scores = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    text = given.dtype.kind in "OUS"
    if scores.ndim == 1:
        scores = np.stack([1.0 - scores, scores], axis=1)
    label = Answer(value=given.astype(object if text else np.int64), dtype="string" if text else "int64")
    columns = None if classes is None else tuple(onnx_labels(classes, spec.source.shown).tolist())
    return {"label": label, "probabilities": Answer(value=scores, dtype=floats_of(spec), column=True, columns=columns)}


def value_answers(values: Any, spec: ModelSpec) -> dict[str, Answer]:
    """The answers of a regressor or ranker."""
    return {"variable": Answer(value=np.asarray(values, dtype=np.float64), dtype=floats_of(spec), column=True)}


def convert_alone(source: Any, spec: ModelSpec, path: Path) -> list[str]:
    """Write the ONNX file of a booster that is not part of an estimator."""
    trees = trees_of(source)
    _register(Ensemble)
    ensemble = Ensemble(trees)
    opsets = {"": spec.convert.get("opset") or 18, ML_DOMAIN: ML_OPSET, **(spec.convert.get("opsets") or {})}
    notes = list(trees.notes)
    if opsets[ML_DOMAIN] > ML_OPSET:
        notes.append(
            f"asked for {ML_DOMAIN} {opsets[ML_DOMAIN]}, written with {ML_OPSET}: newer versions of it aren't loaded "
            "by every ONNX Runtime"
        )
        opsets[ML_DOMAIN] = ML_OPSET
    types = [
        (given.name, _TYPES[given.dtype]([None if isinstance(size, str) else size for size in given.shape]))
        for given in spec.inputs or ()
    ]
    zipmap = spec.convert.get("zipmap") or False
    try:
        converted = skl2onnx.convert_sklearn(
            ensemble, name=spec.id, initial_types=types, target_opset=opsets, options={id(ensemble): {"zipmap": zipmap}}
        )
    except MemoryError:
        raise
    except Exception as error:
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{spec.source.shown}: {type(source).__name__} can't be converted: {describe(error)}",
            fix=f"ask for another opset, or {OWN_EXPORT}",
        ) from error
    _import_opset(converted, opsets[""])
    path.write_bytes(converted.SerializeToString())
    return notes


def _import_opset(converted: onnx.ModelProto, opset: int) -> None:
    """Set the requested opset: skl2onnx imports the oldest one in which all of its operators are the same."""
    for entry in converted.opset_import:
        if entry.domain == "":
            entry.version = opset
    converted.ir_version = onnx.helper.find_min_ir_version_for(list(converted.opset_import))
