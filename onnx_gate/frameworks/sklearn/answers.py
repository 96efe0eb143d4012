"""The answers of scikit-learn, in the form and under the names that its ONNX file must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin, is_clusterer, is_outlier_detector

from onnx_gate.frameworks.sklearn.inputs import rows_of
from onnx_gate.frameworks.sklearn.options import option_of, output_names
from onnx_gate.frameworks.sklearn.parts import last_step
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer

Array = npt.NDArray[Any]
# For two classes they give one column of scores, as scikit-learn does; all others give one column per class.
_ONE_COLUMN = ("LinearSVC", "RidgeClassifier", "RidgeClassifierCV", "SVC", "NuSVC")
# They answer in float32 for inputs of every type.
_ALWAYS_SINGLE = ("RandomForestClassifier", "RandomTreesEmbedding", "OneHotEncoder", "OrdinalEncoder")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One estimator with one feed."""

    source: Any
    spec: ModelSpec
    rows: Any
    """The feed in the form that the source takes."""
    floats: str
    """The expected dtype of floats."""

    @property
    def last(self) -> Any:
        """The estimator that gives the answer."""
        return last_step(self.source)


def predict(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The answers of scikit-learn, under the names that skl2onnx gives to its outputs."""
    question = Question(source=source, spec=spec, rows=rows_of(source, spec, feed), floats=_floats_of(source, spec))
    names = _names(source, spec)
    answers: dict[str, Answer] = {}
    for name in names:
        if (ask := _ROLES.get(name) or _only(names)) is not None:
            answers[name] = ask(question)
    if len(answers) < len(names):
        answers |= _by_class(question, [name for name in names if name not in answers])
    return _renamed(answers, names, spec)


def _floats_of(source: Any, spec: ModelSpec) -> str:
    double = any(given.dtype == "float64" for given in spec.inputs or ())
    return "float64" if double and type(last_step(source)).__name__ not in _ALWAYS_SINGLE else "float32"


# The names for the last model: every call of a case needs the same names.
_asked: dict[str, tuple[Any, ModelSpec, list[str]]] = {}


def _names(source: Any, spec: ModelSpec) -> list[str]:
    known = _asked.get(spec.id)
    if known is None or known[0] is not source or known[1] is not spec:
        converts = spec.onnx is None and _answers_as_its_kind(source)
        names = (output_names(source, spec) if converts else []) or _usual_names(source)
        _asked[spec.id] = known = (source, spec, names)
    return known[2]


def _usual_names(source: Any) -> list[str]:
    """The output names for a file that the user exported, and for models that can't be converted."""
    last = last_step(source)
    if isinstance(last, ClassifierMixin) or (hasattr(last, "predict_proba") and not hasattr(last, "transform")):
        return ["label", "probabilities"]
    if is_clusterer(last) and hasattr(last, "predict"):
        return ["label", "scores"] if hasattr(last, "transform") else ["label"]
    if is_outlier_detector(last):
        return ["label", "scores"]
    return ["index", "distance"] if hasattr(last, "kneighbors") and not _gives_values(last) else ["variable"]


def _answers_as_its_kind(source: Any) -> bool:
    """Whether skl2onnx may have a converter: it has none for clusterers that only transform or give no distances."""
    last = last_step(source)
    return not is_clusterer(last) or (hasattr(last, "predict") and hasattr(last, "transform"))


def _gives_values(last: Any) -> bool:
    return hasattr(last, "predict") or hasattr(last, "transform")


def _only(names: list[str]) -> Callable[[Question], Answer] | None:
    """The values, if there is one output only: a custom converter may give it any name."""
    return _values if len(names) == 1 else None


def _renamed(answers: dict[str, Answer], names: list[str], spec: ModelSpec) -> dict[str, Answer]:
    """The answers under the names and in the types of `final_types`, which are matched by position."""
    final = spec.convert.get("final_types") if spec.onnx is None else None
    if not final or len(final) != len(names):
        return answers
    pairs = zip(final.items(), (answers.get(name) for name in names), strict=True)
    return {name: _cast(answer, given["dtype"]) for (name, given), answer in pairs if answer is not None}


def _cast(answer: Answer, dtype: str) -> Answer:
    if isinstance(answer.value, list) or dtype == "string" or answer.dtype == "string":
        return answer
    value = np.asarray(answer.value)
    kind = np.dtype(dtype).kind
    value = value.astype(np.float64) if kind == "f" else np.trunc(value).astype(np.int64) if kind in "iu" else value
    return replace(answer, value=value, dtype=dtype)


def _labels(question: Question) -> Answer:
    return _as_labels(question.source.predict(question.rows))


def _as_labels(values: Any) -> Answer:
    array = _dense(values)
    if array.dtype.kind in "OUS":
        return Answer(value=array.astype(object), dtype="string", column=True)
    return Answer(value=array.astype(np.int64), dtype="int64", column=True)


def _probabilities(question: Question) -> Answer:
    """Probabilities, or decision scores if there are no probabilities, or the share of votes."""
    source = question.source
    if hasattr(source, "predict_proba") and not option_of(source, question.spec, "raw_scores"):
        values = source.predict_proba(question.rows)
    elif hasattr(source, "decision_function"):
        values = _scores_by_class(question, np.asarray(source.decision_function(question.rows), dtype=np.float64))
    else:
        values = _votes(question)
    if isinstance(values, list):
        return _per_target(question, [np.asarray(each, dtype=np.float64) for each in values])
    value = np.asarray(_dense(values), dtype=np.float64)
    classes = _classes(source) if value.ndim == 2 else None
    named = classes if classes and value.shape[1] == len(classes) else None
    return Answer(value=value, dtype=question.floats, column=True, columns=named)


def _scores_by_class(question: Question, scores: Array) -> Array:
    """The scores with one column per class, as skl2onnx gives them; the second class comes last."""
    one = type(question.last).__name__ in _ONE_COLUMN
    return scores if scores.ndim > 1 or one else np.stack([-scores, scores], axis=1)


def _per_target(question: Question, values: list[Array]) -> Answer:
    """A sequence from a MultiOutputClassifier; else a tensor, padded where a target has fewer classes."""
    if type(question.last).__name__ == "MultiOutputClassifier":
        return Answer(value=values, dtype=question.floats)
    width = max(each.shape[1] for each in values)
    filled = [np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in values]
    return Answer(value=np.stack(filled), dtype=question.floats)


def _votes(question: Question) -> Array:
    """The share of votes for each class, in a VotingClassifier that counts votes."""
    last, classes = question.last, np.asarray(question.source.classes_)
    labels = np.searchsorted(classes, np.asarray(question.source.predict(question.rows)))
    if not hasattr(question.source, "transform"):
        return np.eye(len(classes))[labels]
    votes = np.eye(len(classes))[np.asarray(question.source.transform(question.rows), dtype=np.int64)]
    weights = getattr(last, "_weights_not_none", None)
    return np.asarray(np.average(votes, axis=1, weights=weights), dtype=np.float64)


def _scores(question: Question) -> Answer:
    """Distances to the clusters, or the outlier detector's decision function."""
    source = question.source
    values = source.transform if is_clusterer(question.last) else source.decision_function
    return _as_floats(values(question.rows), question.floats)


def _values(question: Question) -> Answer:
    """The predictions of a regressor, or the output of a transformer."""
    source, last = question.source, question.last
    predicts = hasattr(source, "predict") and (isinstance(last, RegressorMixin) or not hasattr(source, "transform"))
    values = _dense(source.predict(question.rows) if predicts else source.transform(question.rows))
    if type(last).__name__ in ("LabelEncoder", "LabelBinarizer"):
        return _as_labels(values)
    if values.dtype.kind in "OUS" and not _is_numeric(values):
        return Answer(value=values.astype(object), dtype="string", column=True)
    return _as_floats(values, question.floats)


def _is_numeric(values: Array) -> bool:
    """Whether an array of objects holds numbers: columns of several types make a table of objects."""
    return values.dtype.kind == "O" and all(isinstance(each, int | float | np.number) for each in values.ravel()[:1000])


def _as_floats(values: Any, dtype: str) -> Answer:
    return Answer(value=np.asarray(_dense(values), dtype=np.float64), dtype=dtype, column=True)


def _deviation(question: Question) -> Answer:
    _, values = question.source.predict(question.rows, return_std=True)
    return _as_floats(values, question.floats)


def _covariance(question: Question) -> Answer:
    if option_of(question.source, question.spec, "return_std"):
        return _deviation(question)
    _, values = question.source.predict(question.rows, return_cov=True)
    return _as_floats(values, question.floats)


def _neighbors(question: Question, *, place: int) -> Answer:
    found = question.source.kneighbors(question.rows)[place]
    return _as_floats(found, question.floats) if place == 0 else Answer(value=found.astype(np.int64), dtype="int64")


def _samples(question: Question) -> Answer:
    return _as_floats(question.source.score_samples(question.rows), question.floats)


def _class_labels(question: Question) -> Answer:
    return replace(_as_labels(question.source.classes_), column=False)


def _by_class(question: Question, names: list[str]) -> dict[str, Answer]:
    """The outputs of a ZipMap in columns: one output per class, in the order of the classes."""
    if option_of(question.source, question.spec, "zipmap") != "columns":
        return {}
    found = _probabilities(question)
    if isinstance(found.value, list) or found.value.ndim != 2 or found.value.shape[1] != len(names):
        return {}
    return {name: replace(found, value=found.value[:, i], columns=None) for i, name in enumerate(names)}


def _classes(source: Any) -> tuple[Any, ...] | None:
    """The class labels that the columns of the probabilities stand for."""
    classes = getattr(source, "classes_", None)
    return tuple(_as_labels(classes).value.tolist()) if isinstance(classes, np.ndarray) and classes.ndim == 1 else None


def _dense(values: Any) -> Array:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


_ROLES: dict[str, Callable[[Question], Answer]] = {
    "label": _labels,
    "output_label": _labels,
    "probabilities": _probabilities,
    "output_probability": _probabilities,
    "scores": _scores,
    "score_samples": _samples,
    "class_labels": _class_labels,
    "variable": _values,
    "GPmean": _values,
    "GPcovstd": _covariance,
    "std": _deviation,
    "index": lambda question: _neighbors(question, place=1),
    "distance": lambda question: _neighbors(question, place=0),
}
"""Name of an output in skl2onnx → the function that gives its answer."""
