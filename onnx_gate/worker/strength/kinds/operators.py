"""Left-out operators: activations, normalisations, and the preprocessing next to the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from onnx_gate.worker.onnx_files.blueprint import Draft, NodePath
from onnx_gate.worker.strength.kinds.mutants import Kind, MissingValue, Mutant, Site
from onnx_gate.worker.strength.kinds.parts import Parts

_KEEP_SHAPE = frozenset(
    (
        *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Gelu", "Mish", "Softplus", "Softsign"),
        *("Sigmoid", "HardSigmoid", "HardSwish", "Swish", "Tanh", "Erf", "ThresholdedRelu", "Shrink", "Clip"),
        *("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "MeanVarianceNormalization"),
        *("LayerNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization"),
        *("RMSNormalization", "SimplifiedLayerNormalization", "LRN"),
        *("Abs", "Neg", "Sign", "Sqrt", "Exp", "Log", "Reciprocal", "Round", "Floor", "Ceil"),
        *("Sin", "Cos", "Tan", "Sinh", "Cosh", "CumSum", "Trilu", "Normalizer", "FastGelu", "BiasGelu", "QuickGelu"),
    )
)
_PREPARING = frozenset(("Scaler", "Imputer", "Sub", "Div", "Mul", "Add", "Normalizer", "StringNormalizer"))
_MOVING = frozenset(
    (
        *("Cast", "CastLike", "Identity", "Reshape", "Flatten", "Concat", "Transpose", "Squeeze", "Unsqueeze"),
        *("Slice", "Split", "Gather", "ArrayFeatureExtractor", "FeatureVectorizer", "Scaler", "Imputer"),
    )
)
"""Operators that bring values from the inputs to the preprocessing."""


def operator_sites(parts: Parts) -> Iterator[Site]:
    """One site per operator that keeps the shape of its input, or that preprocesses an input."""
    first = set(_next_to_inputs(parts))
    for path, node in parts.nodes:
        if path in first:
            yield _site(Kind.PREPROCESSING, path, node, parts)
        elif (node.op_type in _KEEP_SHAPE and not any(node.output[1:])) or _is_detour(node, parts):
            yield _site(Kind.OPERATOR, path, node, parts)


def _is_detour(node: Any, parts: Parts) -> bool:
    """Whether a Cast is only an intermediate step to another type: all nodes that read it are Casts too."""
    readers = parts.readers.get(node.output[0], [])
    return node.op_type == "Cast" and bool(readers) and all(reader.op_type == "Cast" for _, reader, _ in readers)


def _site(kind: Kind, path: NodePath, node: Any, parts: Parts) -> Site:
    part, place = parts.of_node(path), f"{node.op_type} {node.name}".strip()
    kept = _data_input(node, parts)

    aim = MissingValue() if node.op_type == "Imputer" else None

    def make(_: int) -> Mutant:
        change = partial(_leave_out, path=path, kept=kept)
        return Mutant(kind=kind, part=part, place=place, change=change, aim=aim)

    return Site(kind=kind, part=part, count=1, make=make)


def _leave_out(draft: Draft, *, path: NodePath, kept: int) -> None:
    node = draft.node(path)
    given, result = node.input[kept], node.output[0]
    del node.attribute[:]
    del node.input[:]
    del node.output[:]
    node.op_type, node.domain = "Identity", ""
    node.input.append(given)
    node.output.append(result)


def _data_input(node: Any, parts: Parts) -> int:
    """The index of the operand that comes from the inputs."""
    return 1 if len(node.input) == 2 and parts.is_stored(node.input[0]) else 0


def _next_to_inputs(parts: Parts) -> Iterator[NodePath]:
    """Nodes that preprocess the inputs: only operators that move or prepare values lie between them and an input."""
    near = set(parts.inputs)
    for path, node in parts.nodes:
        if len(path) > 1:
            continue
        others = [name for name in node.input if name and not parts.is_stored(name)]
        if not others or not near.issuperset(others):
            continue
        prepares = node.op_type in _PREPARING and len(others) == 1
        if prepares and (node.domain == "ai.onnx.ml" or len(node.input) == 2):
            yield path
        if node.op_type in _MOVING or prepares:
            near.update(node.output)
