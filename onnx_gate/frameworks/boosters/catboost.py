"""CatBoost: .cbm files and its estimators; CatBoost itself exports the trees."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import catboost
import numpy as np
from catboost.utils import convert_to_onnx_object

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
from onnx_gate.worker.user_code import describe, require_content

_LINKS: dict[str, Link] = {
    **dict.fromkeys(("Logloss", "CrossEntropy", "MultiClassOneVsAll", "MultiLogloss", "MultiCrossEntropy"), "sigmoid"),
    "MultiClass": "softmax",
    **dict.fromkeys(("Poisson", "Tweedie"), "exp"),
}
"""Losses that are missing here answer their raw scores."""
_CLASSIFIERS = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll", "MultiLogloss", "MultiCrossEntropy")
_MULTILABEL = ("MultiLogloss", "MultiCrossEntropy")
_RANKERS = ("YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "QueryRMSE", "QuerySoftMax", "LambdaMart")


def warm_up(export: bool) -> None:
    """Export a tree with one split, so that the exporter is warm."""
    if export:
        rows = np.arange(8, dtype=np.float32).reshape(-1, 1)
        settings = {"iterations": 1, "depth": 1, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
        read_trees(catboost.CatBoostRegressor(**settings).fit(rows, rows[:, 0]))


def load(spec: ModelSpec) -> Any:
    """An estimator of the class that fits its loss, from a file or a factory."""
    model = load_source(spec, "catboost", _read_file)
    if type(model) is catboost.CatBoost:
        model = _as_estimator(model)
    if spec.onnx is None:
        _refuse_features(model)
    return model


def _read_file(path: str, shown: str) -> Any:
    require_content(path, shown)
    try:
        return catboost.CatBoost().load_model(path)
    except MemoryError:
        raise
    except BaseException as error:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: {describe(error)}: it is no CatBoost model, or not a whole one",
            fix="name a .cbm file that save_model wrote",
        ) from error


def _as_estimator(model: Any) -> Any:
    """The estimator for a model of the plain class, which answers raw scores; people serve labels and probabilities."""
    loss = _loss(model)
    kind = catboost.CatBoostRanker if loss in _RANKERS else catboost.CatBoostRegressor
    estimator = (catboost.CatBoostClassifier if loss in _CLASSIFIERS else kind)()
    with tempfile.TemporaryDirectory() as folder:
        # Only a model that was loaded from a file knows its loss, and so what to answer.
        model.save_model(f"{folder}/model.cbm")
        return estimator.load_model(f"{folder}/model.cbm")


def predict(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The answers of CatBoost, under the output names that the contract expects."""
    rows = rows_of(spec, feed, len(source.feature_names_))
    if hasattr(source, "predict_proba"):
        labels = np.asarray(source.predict(rows, thread_count=1))
        several = _loss(source) in _MULTILABEL
        probabilities = source.predict_proba(rows, thread_count=1)
        if several:
            return class_answers(labels, probabilities, spec, None)
        return class_answers(labels.reshape(-1), probabilities, spec, source.classes_)
    return value_answers(source.predict(rows, thread_count=1), spec)


def features(source: Any) -> int:
    """The number of columns that the model was trained on."""
    return len(source.feature_names_)


def iterations(source: Any) -> int:
    """The number of iterations that take part in an answer."""
    return int(source.tree_count_)


def margins(source: Any, rows: Any, iteration: int) -> Any:
    """The raw scores after the first `iteration` iterations."""
    return source.predict(rows, prediction_type="RawFormulaVal", ntree_end=iteration, thread_count=1)


def convert(source: Any, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Write the ONNX file."""
    return convert_alone(source, spec, path)


def categorical_features(source: Any) -> list[int]:
    """The columns that are categories."""
    return list(source.get_cat_feature_indices())


def read_trees(model: Any) -> Trees:
    """The trees of CatBoost's own export, followed by the link function of the loss."""
    _refuse_features(model)
    loss, (scale, bias) = _loss(model), model.get_scale_and_bias()
    base = list(bias) if isinstance(bias, list) else [bias]
    attributes = tree_attributes(_export(model, len(base)))
    attributes["n_targets"] = len(base)
    if loss in _CLASSIFIERS and len(base) == 1:
        _keep_second_class(attributes)
    attributes["target_weights"] = [weight * scale for weight in attributes["target_weights"]]
    attributes["base_values"] = base
    faults = []
    if loss in ("Poisson", "Tweedie"):
        faults.append(f"CatBoost's export of {loss} gives the raw scores, its predict the exponents of them")
    if loss in ("MultiClassOneVsAll", *_MULTILABEL):
        faults.append(f"CatBoost's export takes {loss} for MultiClass: a softmax instead of one sigmoid a column")
    classifier = hasattr(model, "predict_proba")
    several = loss in _MULTILABEL
    return Trees(
        attributes=attributes,
        link=_LINKS.get(loss, "identity"),
        classes=onnx_labels(model.classes_, type(model).__name__) if classifier and not several else None,
        multilabel=several,
        threshold=_threshold(model, loss),
        faults=tuple(faults),
    )


def _loss(model: Any) -> str:
    return str(json.loads(model.get_metadata()["params"])["loss_function"]["type"])


def _refuse_features(model: Any) -> None:
    """Refuse features and losses that CatBoost's export doesn't support."""
    for kind in ("cat", "text", "embedding"):
        indices = getattr(model, f"get_{kind}_feature_indices")()
        if indices:
            names = ", ".join(repr(model.feature_names_[number]) for number in indices[:5])
            kinds = {"cat": "categorical", "text": "text", "embedding": "embedding"}
            way = "one-hot or ordinal encode them in a scikit-learn pipeline before CatBoost, and train it again"
            raise CannotJudge(
                Cause.UNSUPPORTED_OPERATOR,
                f"the model has {kinds[kind]} features ({names}{' …' if len(indices) > 5 else ''}), which CatBoost's "
                "export to ONNX doesn't support",
                fix=way if kind == "cat" else "turn them into numbers before CatBoost, and train it again",
            )
    if _loss(model) == "RMSEWithUncertainty":
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            "the loss RMSEWithUncertainty answers a mean and a variance, which CatBoost's export doesn't support",
            fix="train two models, or with the loss RMSE",
        )


def _export(model: Any, scores: int) -> Any:
    """The trees alone: scale and bias are added later, and labels of every type are replaced by integers."""
    plain = model.copy()
    plain.set_scale_and_bias(1.0, [0.0] * scores)
    if "class_params" in plain.get_metadata().keys():  # noqa: SIM118 - no dict
        count = max(2, scores)
        plain.get_metadata()["class_params"] = json.dumps(
            {
                "classes_count": 0,
                "class_names": list(range(count)),
                "class_to_label": list(range(count)),
                "class_label_type": "Integer",
            }
        )
    try:
        return convert_to_onnx_object(plain)
    except catboost.CatBoostError as error:
        symmetric = "oblivious" in str(error)
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR if symmetric else Cause.CONVERSION_FAILED,
            f"CatBoost can't export the model: {describe(error)}",
            fix="train it with `grow_policy: SymmetricTree`" if symmetric else OWN_EXPORT,
        ) from error


def _keep_second_class(attributes: dict[str, Any]) -> None:
    """Keep the scores of the second class: for two classes, CatBoost writes each score twice, once negated."""
    kept = [number for number, target in enumerate(attributes["target_ids"]) if target == 1]
    for name in ("target_ids", "target_nodeids", "target_treeids", "target_weights"):
        attributes[name] = [attributes[name][number] for number in kept]
    attributes["target_ids"] = [0] * len(kept)


def _threshold(model: Any, loss: str) -> float:
    """The probability above which a row is of the second class."""
    asked = model.get_probability_threshold() if loss in ("Logloss", "CrossEntropy") else None
    return 0.5 if asked is None else float(asked)


PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    warm_up=warm_up,
    # No widen: CatBoost itself rounds its features to float32.
    known_cause=find_known_cause,
    fitted_columns=fitted_columns,
    takes=takes,
    landmarks=landmarks,
    input_domain=input_domain,
)
