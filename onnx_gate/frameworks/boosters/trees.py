"""Boosted trees in ONNX: one TreeEnsembleRegressor for the raw scores, then nodes that turn scores into answers.

Converters of boosters know some objectives, and silently translate others as if they were one of these. Here the
trees come from the converters, and the nodes after the trees are written for each objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from skl2onnx._parse import _apply_zipmap, _get_sklearn_operator_name
from skl2onnx.common import data_types

from onnx_gate.errors import CannotJudge
from onnx_gate.vocabulary import Cause

Array = npt.NDArray[Any]
Link = Literal["identity", "exp", "sigmoid", "softmax", "softplus", "hinge", "signed-square"]
ML_DOMAIN = "ai.onnx.ml"
ML_OPSET = 3
"""The newest version of the domain that has TreeEnsembleRegressor and that every supported runtime loads."""
_SIMPLE_LINKS = {"identity": "Identity", "exp": "Exp", "sigmoid": "Sigmoid", "softplus": "Softplus"}


@dataclass(frozen=True, kw_only=True)
class Trees:
    """A booster in the form in which ONNX represents it."""

    attributes: Mapping[str, Any]
    """Attributes of the TreeEnsembleRegressor that computes the raw scores."""
    link: Link = "identity"
    """The function from a raw score to an answer."""
    classes: Array | None = None
    """The labels of a classifier, int64 or text; None for all other models."""
    multilabel: bool = False
    """Whether each column is a separate label, 0 or 1."""
    threshold: float = 0.5
    """The probability above which a row is of the second of two classes."""
    notes: tuple[str, ...] = ()
    """Changes that were made to the trees."""
    faults: tuple[str, ...] = ()
    """Errors that other converters are known to make in such a model."""

    @property
    def scores(self) -> int:
        """The number of raw scores per row."""
        return int(self.attributes["n_targets"])


def tree_attributes(converted: onnx.ModelProto) -> dict[str, Any]:
    """The attributes of the only tree ensemble of a converted model; a classifier's are renamed to a regressor's."""
    node = next((node for node in converted.graph.node if node.op_type.startswith("TreeEnsemble")), None)
    if node is None:
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            "the model has no trees: it learned nothing",
            fix="train it on more data, or longer",
        )
    given = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    labels = ("classlabels_int64s", "classlabels_strings", "post_transform", "name")
    renamed = {name.replace("class_", "target_"): value for name, value in given.items() if name not in labels}
    return {name: list(value) if not isinstance(value, int) else value for name, value in renamed.items()}


def onnx_labels(classes: Any, shown: str) -> Array:
    """The labels in ONNX's types: text, or int64, which also replaces bool and whole floats."""
    labels = np.asarray(classes)
    if labels.dtype.kind in "OUS":
        return labels.astype(str).astype(object)
    whole = labels.astype(np.int64)
    if labels.dtype.kind == "f" and (whole != labels).any():
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{shown}: its labels are {', '.join(map(str, labels[:5].tolist()))}; ONNX has labels of integers or text",
            fix="train it with whole numbers or strings as labels",
        )
    return whole


def declare_outputs(trees: Trees, scope: Any, model: Any, inputs: list[Any]) -> Any:
    """The parser for skl2onnx: the outputs of the contract, with a ZipMap where the manifest asks for one."""
    operator = scope.declare_local_operator(_get_sklearn_operator_name(type(model)), model)
    operator.inputs = inputs
    if trees.classes is None and not trees.multilabel:
        operator.outputs.append(scope.declare_local_variable("variable", _floats(inputs)()))
        return operator.outputs
    operator.outputs.append(scope.declare_local_variable("label", data_types.Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", _floats(inputs)()))
    zipmap = (scope.get_options(model, {"zipmap": True}, fail=False) or {}).get("zipmap", True)
    if zipmap is False or trees.multilabel:
        return operator.outputs
    return _apply_zipmap(zipmap, scope, model, inputs[0].type, operator.outputs)


def set_shapes(trees: Trees, operator: Any) -> None:
    """The shape calculator for skl2onnx."""
    rows, floats = operator.inputs[0].get_first_dimension(), _floats(operator.inputs)
    if trees.classes is None and not trees.multilabel:
        operator.outputs[0].type = floats([rows, trees.scores])
        return
    text = trees.classes is not None and trees.classes.dtype == object
    label = data_types.StringTensorType if text else data_types.Int64TensorType
    operator.outputs[0].type = label([rows, trees.scores] if trees.multilabel else [rows])
    operator.outputs[1].type = floats([rows, trees.scores if trees.classes is None else len(trees.classes)])


def write_trees(trees: Trees, scope: Any, operator: Any, container: Any) -> None:
    """The converter for skl2onnx."""
    graph = _Graph(scope, container)
    raw = scope.get_unique_variable_name("raw_scores")
    version = min(ML_OPSET, container.target_opset_any_domain(ML_DOMAIN))
    container.add_node(
        *("TreeEnsembleRegressor", graph.rows(operator.inputs), raw),
        op_domain=ML_DOMAIN,
        op_version=version,
        name=scope.get_unique_operator_name("TreeEnsembleRegressor"),
        **trees.attributes,
    )
    # Calibration asks for raw scores: it uses the decision function where there is one.
    options = container.get_options(operator.raw_operator, {"raw_scores": False}, fail=False) or {}
    as_they_are = bool(options.get("raw_scores"))
    answers = graph.link(trees.link, raw)
    outputs = [output.full_name for output in operator.outputs]
    if trees.multilabel:
        graph.add("Cast", [graph.above(answers, trees.threshold)], to=onnx.TensorProto.INT64, output=outputs[0])
    elif trees.classes is not None:
        answers, chosen = graph.choose(answers, raw, trees)
        labels = graph.constant(trees.classes)
        graph.add("Gather", [labels, chosen], axis=0, output=outputs[0])
        answers = graph.scores(raw, trees) if as_they_are else answers
    wide = _floats(operator.inputs) is data_types.DoubleTensorType
    graph.add("Cast", [answers], to=onnx.TensorProto.DOUBLE if wide else onnx.TensorProto.FLOAT, output=outputs[-1])


class _Graph:
    """Adds nodes to a model that skl2onnx is writing."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope = scope
        self._container = container

    def add(self, op: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        name = output or self._scope.get_unique_variable_name(op.lower())
        self._container.add_node(op, inputs, name, name=self._scope.get_unique_operator_name(op), **attributes)
        return str(name)

    def constant(self, values: Any) -> str:
        array = np.asarray(values)
        kinds = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64, "O": onnx.TensorProto.STRING}
        content = [str(value).encode() for value in array] if array.dtype == object else array.ravel().tolist()
        name = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kinds[array.dtype.kind], list(array.shape), content)
        return str(name)

    def rows(self, inputs: list[Any]) -> str:
        """All inputs as one matrix of float32, which is the type that trees take."""
        floats = [
            given.full_name
            if isinstance(given.type, data_types.FloatTensorType)
            else self.add("Cast", [given.full_name], to=onnx.TensorProto.FLOAT)
            for given in inputs
        ]
        return floats[0] if len(floats) == 1 else self.add("Concat", floats, axis=1)

    def link(self, link: Link, raw: str) -> str:
        if link in _SIMPLE_LINKS:
            return self.add(_SIMPLE_LINKS[link], [raw])
        if link == "softmax":
            return self.add("Softmax", [raw], axis=1)
        if link == "signed-square":
            return self.add("Mul", [raw, self.add("Abs", [raw])])
        return self.add("Cast", [self.above(raw, 0.0)], to=onnx.TensorProto.FLOAT)

    def above(self, answers: str, threshold: float) -> str:
        return self.add("Greater", [answers, self.constant([threshold])])

    def scores(self, raw: str, trees: Trees) -> str:
        """The raw scores of all classes."""
        return raw if trees.scores > 1 else self.add("Concat", [self.add("Neg", [raw]), raw], axis=1)

    def choose(self, answers: str, raw: str, trees: Trees) -> tuple[str, str]:
        """Probabilities of all classes, and the index of the chosen one."""
        if trees.scores > 1:
            return answers, self.add("ArgMax", [raw], axis=1, keepdims=0)
        rest = self.add("Sub", [self.constant([1.0]), answers])
        second = self.add("Cast", [self.above(answers, trees.threshold)], to=onnx.TensorProto.INT64)
        return self.add("Concat", [rest, answers], axis=1), self.add("Reshape", [second, self.constant([-1])])


def _floats(inputs: list[Any]) -> Any:
    """The type of the answers: double where an input is double."""
    wide = any(isinstance(given.type, data_types.DoubleTensorType) for given in inputs)
    return data_types.DoubleTensorType if wide else data_types.FloatTensorType
