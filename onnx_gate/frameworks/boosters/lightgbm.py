"""LightGBM: text files, Boosters and its scikit-learn estimators; onnxmltools converts the trees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.boosters.common import (
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
from onnx_gate.frameworks.plugin import Plugin, in_double
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import failed, require_content

_LINKS: dict[str, Link] = {
    "binary": "sigmoid",
    "multiclassova": "sigmoid",
    "cross_entropy": "sigmoid",
    "multiclass": "softmax",
    "cross_entropy_lambda": "softplus",
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
}
"""Objectives that are missing here answer their raw scores."""
_CLASSIFIERS = ("binary", "multiclass", "multiclassova")
_ROUNDED = (
    "thresholds were rounded down to float32, which routes every float32 row as LightGBM's float64 thresholds do. "
    "Only numbers of at most 1e-35 go another way: LightGBM takes them for 0. onnxmltools alone rounds to the nearest, "
    "and rows that lie between go the other way"
)
# Bits of a split's decision type: is it categorical, where do missing values go, which values count as missing.
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_ZERO, _MISSING_NAN = 1, 2, 4, 8


def warm_up(export: bool) -> None:
    """Convert a tree with one split, so that the converter is warm."""
    if export:
        rows = np.arange(40, dtype=np.float64).reshape(-1, 1)
        model = lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(rows, rows[:, 0] > 20), 1)
        read_trees(model)


def load(spec: ModelSpec) -> Any:
    """A Booster from a text file, or the model of a factory."""
    return load_source(spec, "lightgbm", _read_file)


def _read_file(path: str, shown: str) -> lightgbm.Booster:
    require_content(path, shown)
    fix = "name a file that Booster.save_model wrote"
    content = Path(path).read_bytes()
    if not content.startswith(b"tree"):
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{shown}: this is no LightGBM model: it doesn't start with `tree`", fix=fix
        )
    if b"end of trees" not in content:
        # LightGBM would treat the trees before the cut as the whole model.
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{shown}: the file is cut off: there is no `end of trees`", fix="save it again"
        )
    try:
        return lightgbm.Booster(model_file=path)
    except MemoryError:
        raise
    except BaseException as error:
        raise failed(Cause.LOAD_FAILED, shown, error, fix=fix) from error


def predict(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The answers of LightGBM, under the output names that the contract expects."""
    rows = rows_of(spec, feed, _booster(source).num_feature())
    if hasattr(source, "predict_proba"):
        return class_answers(source.predict(rows), source.predict_proba(rows), spec, source.classes_)
    answered = np.asarray(source.predict(rows))
    if isinstance(source, lightgbm.Booster) and _objective(source.model_to_string(num_iteration=1))[0] in _CLASSIFIERS:
        labels = answered.argmax(axis=1) if answered.ndim == 2 else answered > 0.5
        return class_answers(labels, answered, spec, range(max(2, source.num_model_per_iteration())))
    return value_answers(answered, spec)


def features(source: Any) -> int:
    """The number of columns that the model was trained on."""
    return int(_booster(source).num_feature())


def iterations(source: Any) -> int:
    """The number of iterations that take part in an answer: up to the best one, if training looked for it."""
    booster = _booster(source)
    return int(booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration())


def margins(source: Any, rows: Any, iteration: int) -> Any:
    """The raw scores after the first `iteration` iterations."""
    return _booster(source).predict(rows, raw_score=True, num_iteration=iteration)


def convert(source: Any, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Write the ONNX file."""
    return convert_alone(source, spec, path)


def widen(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None:
    """The same source: LightGBM always computes in float64."""
    return source, in_double(spec)


def categorical_features(source: Any) -> list[int]:
    """The columns that at least one tree splits by category."""
    found: set[int] = set()
    for tree in _trees(_booster(source).model_to_string()):
        splits = zip(_numbers(tree, "split_feature"), _numbers(tree, "decision_type"), strict=True)
        found |= {int(feature) for feature, kind in splits if int(kind) & _CATEGORICAL}
    return sorted(found)


def read_trees(model: Any) -> Trees:
    """The trees as a plain regression in ONNX's terms, followed by the link function of the objective."""
    booster = _booster(model)
    text = booster.model_to_string()
    _refuse(text)
    objective, options = _objective(text)
    plain = lightgbm.Booster(model_str=_as_regression(text))
    types = [("X", FloatTensorType([None, booster.num_feature()]))]
    attributes = tree_attributes(convert_lightgbm(plain, initial_types=types))
    scores = booster.num_model_per_iteration()
    factor = float(options.get("sigmoid", 1.0)) if _LINKS.get(objective) == "sigmoid" else 1.0
    averaged = "\naverage_output\n" in text
    if averaged:
        factor /= plain.num_trees() / scores
    attributes["n_targets"] = scores
    attributes["target_ids"] = [tree % scores for tree in attributes["target_treeids"]]
    attributes["target_weights"] = [weight * factor for weight in attributes["target_weights"]]
    return Trees(
        attributes=attributes,
        link="signed-square" if "sqrt" in options else _LINKS.get(objective, "identity"),
        classes=_classes(model, objective, scores),
        notes=(_ROUNDED,),
        faults=tuple(_faults(objective, options, averaged)),
    )


def _booster(model: Any) -> lightgbm.Booster:
    return model if isinstance(model, lightgbm.Booster) else model.booster_


def _classes(model: Any, objective: str, scores: int) -> Any:
    if hasattr(model, "predict_proba"):
        if objective not in _LINKS:
            named = f"the objective {objective!r}" if objective else "an objective of your own"
            raise CannotJudge(
                Cause.CONVERSION_FAILED,
                f"{type(model).__name__}: with {named}, "
                "LightGBM answers raw scores instead of labels and probabilities",
                fix="train it with the objective binary or multiclass, or as an LGBMRegressor",
            )
        return onnx_labels(model.classes_, type(model).__name__)
    native = isinstance(model, lightgbm.Booster) and objective in _CLASSIFIERS
    return np.arange(max(2, scores)) if native else None


def _objective(text: str) -> tuple[str, dict[str, str]]:
    """`multiclassova num_class:3 sigmoid:1` → its name and options; the name is empty for a user's own objective."""
    found = re.search(r"^objective=(.*)$", text, re.MULTILINE)
    name, *options = (found[1] if found else "").split() or [""]
    return name, {key: value for key, _, value in (option.partition(":") for option in options)}


def _trees(text: str) -> list[str]:
    return re.split(r"^Tree=\d+$", text.partition("\nend of trees")[0], flags=re.MULTILINE)[1:]


def _numbers(tree: str, key: str) -> list[str]:
    found = re.search(rf"^{key}=(.*)$", tree, re.MULTILINE)
    return found[1].split() if found else []


def _refuse(text: str) -> None:
    """Refuse models that ONNX's trees can't represent."""
    trees = _trees(text)
    if any("\nis_linear=1" in tree for tree in trees):
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            "the model has linear trees (`linear_tree: true`): ONNX's trees have constant leaves, and onnxmltools "
            "would leave the linear parts out in silence",
            fix="train it with `linear_tree: false`",
        )
    if any(int(kind) & _MISSING_ZERO for tree in trees for kind in _numbers(tree, "decision_type")):
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            "the model takes zeros for missing values (`zero_as_missing: true`): ONNX's trees can only route NaN, and "
            "onnxmltools would route zeros by their value in silence",
            fix="train it with `zero_as_missing: false`, and with NaN for what is missing",
        )


def _as_regression(text: str) -> str:
    """The same trees as a model whose answer is the sum of its leaves, which onnxmltools converts correctly.

    The sizes of the trees are removed because they are no longer right, and so is the text after the trees, which would
    bring the objective back.
    """
    head, *_ = text.partition("\nTree=")
    for pattern, plain in (
        (r"^objective=.*$", "objective=regression"),
        (r"^num_class=.*$", "num_class=1"),
        (r"^num_tree_per_iteration=.*$", "num_tree_per_iteration=1"),
        (r"^(average_output|tree_sizes=.*)\n", ""),
    ):
        head = re.sub(pattern, plain, head, flags=re.MULTILINE)
    if "\nobjective=" not in head:
        head = head.replace("\nfeature_names=", "\nobjective=regression\nfeature_names=", 1)
    trees = (f"Tree={number}{_with_float32_splits(tree)}" for number, tree in enumerate(_trees(text)))
    return f"{head.rstrip()}\n\n{''.join(trees)}\nend of trees\n"


def _with_float32_splits(tree: str) -> str:
    """The tree with float32 thresholds, and NaN sent where LightGBM sends it: as 0, if the training data had no NaN."""
    thresholds, kinds = [], []
    for threshold, kind in zip(_numbers(tree, "threshold"), _numbers(tree, "decision_type"), strict=True):
        value, flags = float(threshold), int(kind)
        if not flags & _CATEGORICAL:
            if not flags & _MISSING_NAN:
                flags = _MISSING_NAN | (_DEFAULT_LEFT if value >= 0 else 0)
            value = round_down(value)
        thresholds.append(repr(value) if not flags & _CATEGORICAL else threshold)
        kinds.append(str(flags))
    if not thresholds:
        return tree
    tree = re.sub(r"^threshold=.*$", f"threshold={' '.join(thresholds)}", tree, flags=re.MULTILINE)
    return re.sub(r"^decision_type=.*$", f"decision_type={' '.join(kinds)}", tree, flags=re.MULTILINE)


def round_down(value: float) -> float:
    """The largest float32 that is not above the value; no float32 lies between the two."""
    with np.errstate(over="ignore"):
        near = np.float32(value)
    # Compare as Python floats: numpy would compare the two in float32, where they are equal.
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))


def _faults(objective: str, options: dict[str, str], averaged: bool) -> list[str]:
    """Errors that onnxmltools is known to make on this model."""
    found = ["it rounds LightGBM's float64 thresholds to the nearest float32: rows between the two go the other way"]
    if averaged:
        found.insert(0, "it divides the sum of a random forest by 100, whatever the number of its trees")
    if objective == "multiclassova":
        found.insert(0, "it takes `multiclassova` for `multiclass`: a softmax instead of one sigmoid a class")
    if float(options.get("sigmoid", 1.0)) != 1.0:
        found.insert(0, "it leaves the parameter `sigmoid` out")
    if "sqrt" in options:
        found.insert(0, "it leaves the square out that `reg_sqrt` asks for")
    return found


PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    warm_up=warm_up,
    widen=widen,
    known_cause=find_known_cause,
    fitted_columns=fitted_columns,
    takes=takes,
    landmarks=landmarks,
    input_domain=input_domain,
)
