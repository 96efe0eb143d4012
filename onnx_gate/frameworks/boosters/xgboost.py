"""XGBoost: JSON and UBJSON files, Boosters and its scikit-learn estimators; onnxmltools converts the trees."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.boosters.common import (
    OWN_EXPORT,
    class_answers,
    convert_alone,
    fitted_columns,
    load_source,
    rows_of,
    takes,
    value_answers,
)
from onnx_gate.frameworks.boosters.domain import input_domain
from onnx_gate.frameworks.boosters.known import find_known_cause
from onnx_gate.frameworks.boosters.landmarks import landmarks
from onnx_gate.frameworks.boosters.trees import Link, Trees, onnx_labels, tree_attributes
from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import require_content

_LINKS: dict[str, Link] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "sigmoid"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "exp"),
    "binary:hinge": "hinge",
}
"""Objectives that are missing here answer their raw scores."""
_RAW_KINDS = ("reg:", "rank:", "binary:logitraw")
_CLASSIFIERS = ("binary:logistic", "binary:hinge", "multi:softprob", "multi:softmax")
_ESTIMATORS = {"classifier": xgboost.XGBClassifier, "regressor": xgboost.XGBRegressor, "ranker": xgboost.XGBRanker}
_RIGHT_IN_ONNXMLTOOLS = (
    *("binary:logistic", "binary:hinge", "multi:softprob", "count:poisson", "reg:gamma", "reg:tweedie"),
    *("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror"),
)


def warm_up(export: bool) -> None:
    """Convert a tree with one split, so that the converter is warm."""
    if export:
        rows = np.arange(8, dtype=np.float32).reshape(-1, 1)
        model = xgboost.train({"nthread": 1, "max_depth": 1}, xgboost.DMatrix(rows, rows[:, 0], nthread=1), 1)
        read_trees(model)


def load(spec: ModelSpec) -> Any:
    """A Booster from a file, the estimator that was saved in it, or the model of a factory."""
    return load_source(spec, "xgboost", _read_file)


def _read_file(path: str, shown: str) -> Any:
    require_content(path, shown)
    fix = "name a file that save_model of a Booster or an XGBoost estimator wrote"
    try:
        booster = xgboost.Booster(model_file=path)
        kind = json.loads(booster.attr("scikit_learn") or "{}").get("_estimator_type")
        if kind not in _ESTIMATORS:
            return booster
        # The estimator stops at its best iteration; a Booster runs all iterations.
        estimator = _ESTIMATORS[kind]()
        estimator.load_model(path)
        return estimator
    except MemoryError:
        raise
    except BaseException as error:
        message = f"{shown}: {_first_line(error)}"
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{message}: it is no XGBoost model, or not a whole one", fix=fix
        ) from error


def _first_line(error: BaseException) -> str:
    """The last line of the message, without XGBoost's stack trace."""
    text = str(error).partition("\nStack trace")[0].strip()
    return text.splitlines()[-1][:300] if text else type(error).__name__


def predict(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The answers of XGBoost, under the output names that the contract expects."""
    rows = rows_of(spec, feed, _booster(source).num_features())
    if isinstance(source, xgboost.Booster):
        return _native_answers(source, rows, spec)
    if hasattr(source, "predict_proba"):
        labels = np.asarray(source.predict(rows))
        return class_answers(labels, source.predict_proba(rows), spec, None if labels.ndim == 2 else source.classes_)
    return value_answers(source.predict(rows), spec)


def _native_answers(booster: xgboost.Booster, rows: Any, spec: ModelSpec) -> dict[str, Answer]:
    names, types = booster.feature_names, booster.feature_types
    matrix = xgboost.DMatrix(rows, feature_names=names, feature_types=types, enable_categorical=True)
    learner = json.loads(booster.save_config())["learner"]
    objective, classes = learner["objective"]["name"], int(learner["learner_model_param"]["num_class"])
    answered = booster.predict(matrix)
    if objective == "multi:softmax":
        margin = booster.predict(matrix, output_margin=True).astype(np.float64)
        raised = np.exp(margin - margin.max(axis=1, keepdims=True))
        return class_answers(answered, raised / raised.sum(axis=1, keepdims=True), spec, range(classes))
    if objective == "multi:softprob":
        return class_answers(answered.argmax(axis=1), answered, spec, range(classes))
    if objective in _CLASSIFIERS and answered.ndim == 1:
        return class_answers(answered > 0.5, answered, spec, range(2))
    if objective in _CLASSIFIERS:
        return class_answers(answered > 0.5, answered, spec, None)
    return value_answers(answered, spec)


def features(source: Any) -> int:
    """The number of columns that the model was trained on."""
    return int(_booster(source).num_features())


def iterations(source: Any) -> int:
    """The number of iterations that take part in an answer."""
    best = _best_iteration(source)
    return int(_booster(source).num_boosted_rounds()) if best is None else best + 1


def margins(source: Any, rows: Any, iteration: int) -> Any:
    """The raw scores after the first `iteration` iterations."""
    booster = _booster(source)
    names, types = booster.feature_names, booster.feature_types
    missing = getattr(source, "missing", math.nan)
    matrix = xgboost.DMatrix(rows, missing=missing, feature_names=names, feature_types=types, enable_categorical=True)
    return booster.predict(matrix, output_margin=True, iteration_range=(0, iteration))


def convert(source: Any, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Write the ONNX file."""
    return convert_alone(source, spec, path)


def categorical_features(source: Any) -> list[int]:
    """The columns that are categories."""
    return [number for number, kind in enumerate(_booster(source).feature_types or ()) if kind == "c"]


def read_trees(model: Any) -> Trees:
    """The trees as a plain regression in ONNX's terms, followed by the link function of the objective."""
    booster = _booster(model)
    if (best := _best_iteration(model)) is not None:
        booster = booster[: best + 1]
    whole = json.loads(booster.save_raw("json"))
    learner = whole["learner"]
    trees, weights = _tree_model(learner, model)
    objective = learner["objective"]["name"]
    link = _link(objective)
    params = learner["learner_model_param"]
    scores = max(1, int(params["num_class"]), int(params.get("num_target", 1)))
    base, info = json.loads(params["base_score"]), list(trees["tree_info"])
    attributes = tree_attributes(_convert_plain(whole, trees, booster.num_features()))
    treeids = attributes["target_treeids"]
    attributes["n_targets"] = scores
    attributes["target_ids"] = [info[tree] for tree in treeids]
    values = zip(treeids, attributes["target_weights"], strict=True)
    attributes["target_weights"] = [weight * weights[tree] for tree, weight in values]
    margins = [_margin(objective, score) for score in (base if isinstance(base, list) else [base])]
    attributes["base_values"] = margins * scores if len(margins) == 1 else margins
    several = int(params.get("num_target", 1)) > 1
    classifier = hasattr(model, "predict_proba") or (isinstance(model, xgboost.Booster) and objective in _CLASSIFIERS)
    labels = getattr(model, "classes_", range(max(2, scores))) if classifier and not several else None
    return Trees(
        attributes=attributes,
        link=link,
        classes=None if labels is None else onnx_labels(labels, type(model).__name__),
        multilabel=classifier and several,
        faults=tuple(_faults(objective, trees, scores, best is not None)),
    )


def _booster(model: Any) -> xgboost.Booster:
    return model if isinstance(model, xgboost.Booster) else model.get_booster()


def _best_iteration(model: Any) -> int | None:
    """The iteration at which the estimator stops; None for a Booster, which runs all iterations."""
    try:
        return None if isinstance(model, xgboost.Booster) else int(model.best_iteration)
    except AttributeError:
        return None


def _tree_model(learner: dict[str, Any], model: Any) -> tuple[dict[str, Any], list[float]]:
    """The trees with their weights; raises CannotJudge where ONNX can't express them."""
    gradient = learner["gradient_booster"]
    missing = getattr(model, "missing", math.nan)
    if gradient["name"] == "gblinear":
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            "the booster is `gblinear`, which has no trees and which onnxmltools doesn't convert",
            fix=f"use a linear model of scikit-learn, or {OWN_EXPORT}",
        )
    if missing is not None and not math.isnan(missing):
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"the model takes {missing:g} for missing values (`missing: {missing:g}`): ONNX's trees can only route NaN",
            fix="train it with NaN for what is missing",
        )
    trees = gradient["gbtree"]["model"] if gradient["name"] == "dart" else gradient["model"]
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees["trees"]):
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            "its leaves are vectors (`multi_strategy: multi_output_tree`), which onnxmltools can't convert",
            fix="train it with `multi_strategy: one_output_per_tree`",
        )
    return trees, gradient.get("weight_drop") or [1.0] * len(trees["trees"])


def _link(objective: str) -> Link:
    if objective not in _LINKS and not objective.startswith(_RAW_KINDS):
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"the objective {objective!r} isn't known here: what it makes of the trees' scores can't be converted",
            fix=OWN_EXPORT,
        )
    return _LINKS.get(objective, "identity")


def _margin(objective: str, score: float) -> float:
    """The raw score that trees start from: XGBoost keeps the base score as an answer."""
    if _LINKS.get(objective) == "exp":
        return math.log(score)
    if objective in ("binary:logistic", "reg:logistic"):
        return math.log(score / (1.0 - score))
    return score


def _convert_plain(whole: dict[str, Any], trees: dict[str, Any], features: int) -> Any:
    """The trees alone, as the one kind of model that onnxmltools can't confuse with another."""
    learner = whole["learner"]
    params = learner["learner_model_param"]
    zero = "[0E0]" if params["base_score"].startswith("[") else "0E0"
    plain = {
        **learner,
        "attributes": {},
        "feature_names": [],
        # Names would have to be numbers. Types mark the categories: without them, trees would be read wrongly.
        "feature_types": [kind if kind == "c" else "float" for kind in learner["feature_types"]],
        "gradient_booster": {"name": "gbtree", "model": {**trees, "tree_info": [0] * len(trees["tree_info"])}},
        "learner_model_param": {**params, "num_class": "0", "num_target": "1", "base_score": zero},
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps({**whole, "learner": plain}).encode()))
    return convert_xgboost(booster, initial_types=[("X", FloatTensorType([None, features]))])


def _faults(objective: str, trees: dict[str, Any], scores: int, early: bool) -> list[str]:
    """Errors that onnxmltools is known to make on this model."""
    found = []
    if objective not in _RIGHT_IN_ONNXMLTOOLS:
        found.append(f"it doesn't know what the objective {objective!r} makes of the trees' scores")
    if int(trees["gbtree_model_param"]["num_parallel_tree"]) > 1 and (scores > 1 or early):
        found.append("it takes the parallel trees (`num_parallel_tree`) of one class for those of another")
    if scores > 1 and not objective.startswith("multi:"):
        found.append("it adds the trees of all targets to the first one")
    return found


PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    warm_up=warm_up,
    # No widen: XGBoost itself computes in float32.
    known_cause=find_known_cause,
    fitted_columns=fitted_columns,
    takes=takes,
    landmarks=landmarks,
    input_domain=input_domain,
)
