"""Values inside an estimator: the answers of its steps, branches, members and stages.

The parts are called one by one, each with a copy of the rows that it gets in the whole: some write into their input.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import _safe_indexing

from onnx_gate.frameworks.boosters.common import library_of
from onnx_gate.frameworks.boosters.landmarks import keep_margins
from onnx_gate.frameworks.landmarks import Landmarks, spread
from onnx_gate.frameworks.sklearn.inputs import rows_of
from onnx_gate.records.asked import ModelSpec

MOST_MEMBERS = 16
"""The largest number of ensemble members that are called one by one; a larger ensemble is called as a whole."""
_ANSWERS = ("transform", "decision_function", "predict_proba", "predict")
_SAME_ROWS = ("best_estimator_", "estimator_", "regressor_")
"""Attributes in which estimators keep the one to which they pass their rows."""
_FINAL = "final_estimator"
"""The member of a stack that gets the answers of the others; these answers are kept before it is called."""


def landmarks(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Any]:
    """The values of all parts, by the path of their names, in the order of the data."""
    kept = Landmarks()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _visit(kept, source, rows_of(source, spec, feed), "")
    return kept.values()


def _visit(kept: Landmarks, model: Any, rows: Any, path: str) -> None:
    """Keep the values inside a part, and then its own; a part that refuses its rows is skipped."""
    if isinstance(model, Pipeline):
        _visit_steps(kept, model, rows, path)
        return
    for name, inner, given in _inner(model, rows):
        with contextlib.suppress(Exception):
            if name == _FINAL:
                kept.keep(_join(path, "transform"), _numbers(given, kept.most))
            _visit(kept, inner, given, _join(path, name))
    with contextlib.suppress(Exception):
        _keep_stages(kept, model, rows, path)
    _keep_answers(kept, model, rows, path)


def _visit_steps(kept: Landmarks, pipeline: Any, rows: Any, path: str) -> None:
    """Visit the steps of a pipeline; its own answer is that of its last step."""
    last = len(pipeline.steps) - 1
    for number, (name, step) in enumerate(pipeline.steps):
        if step is None or step == "passthrough":
            continue
        _visit(kept, step, rows, _join(path, name))
        if number < last:
            rows = step.transform(copy.deepcopy(rows))


def _inner(model: Any, rows: Any) -> Iterator[tuple[str, Any, Any]]:
    """The estimators inside another one that is not a pipeline, each with its name and the rows that it gets."""
    if isinstance(model, ColumnTransformer):
        yield from _branches(model, rows)
    elif isinstance(model, FeatureUnion):
        yield from ((name, each, rows) for name, each in model.transformer_list if hasattr(each, "transform"))
    else:
        for attribute in _SAME_ROWS:
            if hasattr(inner := getattr(model, attribute, None), "get_params"):
                yield attribute.rstrip("_"), inner, rows
        members = _members(model)
        if len(members) <= MOST_MEMBERS:
            subsets = getattr(model, "estimators_features_", None)
            for number, (name, member) in enumerate(members):
                yield name, member, rows if subsets is None else _safe_indexing(rows, subsets[number], axis=1)
        if hasattr(final := getattr(model, "final_estimator_", None), "get_params"):
            yield _FINAL, final, model.transform(copy.deepcopy(rows))


def _branches(model: Any, rows: Any) -> Iterator[tuple[str, Any, Any]]:
    for name, each, columns in model.transformers_:
        if hasattr(each, "transform"):
            with contextlib.suppress(Exception):
                yield name, each, _safe_indexing(rows, columns, axis=1)


def _members(model: Any) -> list[tuple[str, Any]]:
    """The members of an ensemble, by the names that the user gave them, or by number."""
    calibrated = getattr(model, "calibrated_classifiers_", None)
    if calibrated is not None:
        return [(f"calibrated {number}", each.estimator) for number, each in enumerate(calibrated)]
    named = getattr(model, "named_estimators_", None)
    fitted = getattr(model, "estimators_", None)
    if isinstance(named, dict):
        members = [(str(name), each) for name, each in named.items()]
    else:
        # Trees of gradient boosting are in a matrix, and are covered by stages.
        members = [(f"estimator {number}", each) for number, each in enumerate(fitted if type(fitted) is list else ())]
    return [(name, each) for name, each in members if hasattr(each, "get_params")]


def _keep_stages(kept: Landmarks, model: Any, rows: Any, path: str) -> None:
    """Keep the scores of gradient boosting after some of its trees."""
    if library_of(model):
        keep_margins(kept, model, np.asarray(rows), f"{path}." if path else "")
        return
    ask = getattr(model, "staged_decision_function", None) or getattr(model, "staged_predict", None)
    count = getattr(model, "n_iter_", None) or len(getattr(model, "estimators_", ()))
    if ask is None or not isinstance(count, int):
        return
    wanted = set(spread(count))
    for stage, value in enumerate(ask(copy.deepcopy(rows)), 1):
        if stage in wanted:
            kept.keep(_join(path, f"stage {stage}"), _numbers(value, kept.most))


def _keep_answers(kept: Landmarks, model: Any, rows: Any, path: str) -> None:
    """Keep the output of a transformer under its own name, and other answers under the name of the method."""
    for question in _ANSWERS:
        if not hasattr(model, question) or (question == "transform" and hasattr(model, f"{_FINAL}_")):
            continue
        with contextlib.suppress(Exception):
            name = path if path and not hasattr(model, "predict") else _join(path, question)
            answered = getattr(model, question)(copy.deepcopy(rows))
            parts = enumerate(answered) if isinstance(answered, list) else [("", answered)]
            for number, value in parts:
                kept.keep(f"{name}.{number}".rstrip("."), _numbers(value, kept.most))


def _numbers(value: Any, most: int) -> Any:
    """The value as a dense array; None for text, and for a matrix that is too large to be dense."""
    if hasattr(value, "toarray"):
        if math.prod(value.shape) * value.dtype.itemsize > most:
            return None
        value = value.toarray()
    array = np.asarray(value)
    if array.dtype.kind != "O":
        return array
    try:
        # A table whose columns have several types.
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
