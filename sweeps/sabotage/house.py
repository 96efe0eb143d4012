"""Custom estimators as people write them, with skl2onnx converters that are right or slightly wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import skl2onnx
from onnx import TensorProto
from skl2onnx.common.data_types import FloatTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression

Array = np.ndarray[Any, Any]


class Step(TransformerMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    """A transformation of columns: `centre`, `clip`, `log1p`, `safe-log` or `pick`."""

    def __init__(self, kind: str = "centre", order: Sequence[int] = ()) -> None:
        self.kind, self.order = kind, order

    def fit(self, X: Array, y: Any = None) -> Step:
        """Learn the statistics of the columns."""
        self.mean_, self.std_ = X.mean(axis=0), X.std(axis=0)
        self.low_, self.high_ = np.quantile(X, 0.1, axis=0), np.quantile(X, 0.9, axis=0)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Array) -> Array:
        """Transform the columns as `kind` says."""
        X = np.asarray(X, dtype=np.float64)
        made: Mapping[str, Callable[[], Array]] = {
            "centre": lambda: (X - self.mean_) / self.std_,
            "clip": lambda: np.clip(X, self.low_, self.high_),
            "log1p": lambda: np.log1p(np.abs(X)),
            "safe-log": lambda: np.log(np.maximum(X, 1e-3)),
            "pick": lambda: X[:, list(self.order)],
        }
        return made[self.kind]()


class Judge(ClassifierMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    """A logistic regression with a temperature, and with noise if it was left on."""

    def __init__(self, temperature: float = 1.0, noise: float = 0.0) -> None:
        self.temperature, self.noise = temperature, noise

    def fit(self, X: Array, y: Array) -> Judge:
        """Fit on all data, and keep the coefficients of a fit on the first third."""
        earlier = LogisticRegression(max_iter=500).fit(X[: len(X) // 3], y[: len(X) // 3])
        fitted = LogisticRegression(max_iter=500).fit(X, y)
        self.classes_, self.coef_, self.intercept_ = fitted.classes_, fitted.coef_, fitted.intercept_
        self.earlier_ = earlier.coef_
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X: Array) -> Array:
        """The probability of each class."""
        scores = (np.asarray(X, dtype=np.float64) @ self.coef_.T + self.intercept_) / self.temperature
        scores = scores + self.noise * np.random.default_rng().standard_normal(scores.shape)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def predict(self, X: Array) -> Array:
        """The most likely class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class Writer:
    """Writes the nodes of one converter."""

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        self.scope, self.container = scope, container
        self.value = operator.inputs[0].full_name

    def constant(self, values: Any, kind: int = TensorProto.FLOAT) -> str:
        """Add a weight; returns its name."""
        array = np.asarray(values)
        name: str = self.scope.get_unique_variable_name("house_weight")
        self.container.add_initializer(name, kind, list(array.shape), array.ravel().tolist())
        return name

    def node(self, kind: str, *more: str, to: str | None = None, **options: Any) -> None:
        """Add the next node, which reads the current value."""
        made = to or self.scope.get_unique_variable_name("house_value")
        name = self.scope.get_unique_operator_name(f"House{kind}")
        self.container.add_node(kind, [self.value, *more], made, name=name, op_version=13, **options)
        if to is None:
            self.value = made

    def cast(self, kind: int) -> None:
        """Add a Cast to another type."""
        made = self.scope.get_unique_variable_name("house_value")
        name = self.scope.get_unique_operator_name("HouseCast")
        self.container.add_node("Cast", [self.value], made, name=name, op_version=13, to=kind)
        self.value = made


def _same_shape(operator: Any) -> None:
    rows, width = operator.inputs[0].type.shape[0], operator.inputs[0].type.shape[1]
    order = operator.raw_operator.order
    operator.outputs[0].type = FloatTensorType([rows, len(order) or width])


def _convert_step(scope: Any, operator: Any, container: Any, fault: str) -> None:
    step, write, out = operator.raw_operator, Writer(scope, operator, container), operator.outputs[0].full_name
    if step.kind == "centre":
        if fault != "centre":
            write.node("Sub", write.constant(step.mean_))
        write.node("Div", write.constant(step.std_), to=out)
    elif step.kind == "clip":
        write.node("Max", write.constant(step.low_))
        if fault != "clip":
            write.node("Min", write.constant(step.high_))
        write.node("Identity", to=out)
    elif step.kind == "log1p":
        write.node("Abs")
        write.node("Add", write.constant([1e-3 if fault == "log1p" else 1.0]))
        write.node("Log", to=out)
    elif step.kind == "safe-log":
        if fault != "safe-log":
            write.node("Max", write.constant([1e-3]))
        write.node("Log", to=out)
    else:
        order = sorted(step.order) if fault == "pick" else list(step.order)
        write.node("Gather", write.constant(order, TensorProto.INT64), to=out, axis=1)


def _convert_judge(scope: Any, operator: Any, container: Any, fault: str) -> None:
    model, write = operator.raw_operator, Writer(scope, operator, container)
    label, scores = (value.full_name for value in operator.outputs)
    coef, intercept = (model.earlier_ if fault == "stale" else model.coef_), model.intercept_
    if fault == "classes":
        coef, intercept = np.roll(coef, 1, axis=0), np.roll(intercept, 1)
    if fault == "half":
        write.cast(TensorProto.FLOAT16)
        write.node("MatMul", write.constant(np.asarray(coef.T, dtype=np.float16), TensorProto.FLOAT16))
        write.cast(TensorProto.FLOAT)
    else:
        write.node("MatMul", write.constant(coef.T))
    write.node("Add", write.constant(intercept))
    if fault != "temperature":
        write.node("Div", write.constant([model.temperature]))
    write.node("ArgMax", to=label, axis=1, keepdims=0)
    write.node(
        "Identity" if fault == "softmax" else "Softmax", to=scores, **({} if fault == "softmax" else {"axis": 1})
    )


def register(fault: str = "") -> None:
    """Register converters for both estimators; `fault` makes one of them wrong."""
    skl2onnx.update_registered_converter(
        Step,
        "HouseStep",
        _same_shape,
        lambda scope, operator, container: _convert_step(scope, operator, container, fault),
        overwrite=True,
    )
    skl2onnx.update_registered_converter(
        Judge,
        "HouseJudge",
        calculate_linear_classifier_output_shapes,
        lambda scope, operator, container: _convert_judge(scope, operator, container, fault),
        options={"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]},
        overwrite=True,
    )
