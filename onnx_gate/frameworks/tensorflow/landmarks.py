"""Values inside a TensorFlow source: the outputs of a Keras model's layers, or tensors of the traced function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from onnx_gate.frameworks.landmarks import Calls, Landmarks
from onnx_gate.frameworks.tensorflow.export import trace
from onnx_gate.frameworks.tensorflow.keras_models import is_keras, watched_layers
from onnx_gate.frameworks.tensorflow.load import Source, tensor_of
from onnx_gate.records.asked import ModelSpec
from onnx_gate.worker.onnx_files.names import leaves_of

MOST_TENSORS = 512
"""The largest number of tensors of a function that are evaluated; if there are more, an even selection."""
_PLAIN = frozenset({"Const", "Placeholder", "ReadVariableOp", "Identity", "NoOp", "Shape", "VarHandleOp"})
"""Operators whose values show nothing of the computation."""
_ASSIGNS = ("Assign", "Random", "StatefulPartitionedCall", "LookupTable", "While", "If")
"""Operators that a second run may change, or that keep their work in separate functions."""


def landmarks(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Any]:
    """The values by the paths of layers, or by the names of operators."""
    kept = Landmarks()
    given = [tensor_of(each, feed[each.name]) for each in spec.inputs or ()]
    tf.random.set_seed(0)
    if is_keras(source.owner):
        args, kwargs = source.pack({each.name: one for each, one in zip(spec.inputs or (), given, strict=True)})
        with watched_layers(source.owner, Calls(kept, _arrays)):
            source.function(*args, **kwargs)
        return kept.values()
    concrete = trace(source, spec)
    tensors = _inner_tensors(concrete)
    if not tensors:
        return {}
    pruned = concrete.prune(list(concrete.inputs[: len(given)]), tensors)
    for tensor, value in zip(tensors, pruned(*given), strict=True):
        kept.keep(tensor.op.name, _numbers(value))
    return kept.values()


def _inner_tensors(concrete: Any) -> list[Any]:
    """The first output of each operator that computes something; empty for a function that changes variables."""
    operators = concrete.graph.get_operations()
    if any(operator.type.startswith(_ASSIGNS) for operator in operators):
        return []
    found = [operator.outputs[0] for operator in operators if operator.outputs and operator.type not in _PLAIN]
    numbers = [
        tensor for tensor in found if tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool
    ]
    step = -(-len(numbers) // MOST_TENSORS) or 1
    return numbers[::step]


def _arrays(answered: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    return ((steps, _numbers(leaf)) for steps, leaf in leaves_of(answered, _parts))


def _parts(value: Any, top: bool) -> list[tuple[str, Any]] | None:
    if isinstance(value, dict):
        return [(str(key), part) for key, part in value.items()]
    return [(str(number), part) for number, part in enumerate(value)] if isinstance(value, tuple | list) else None


def _numbers(value: Any) -> Any:
    """A dense tensor as an array; None for other values, and for tensors of a graph that is being traced."""
    if not tf.is_tensor(value) or isinstance(value, tf.RaggedTensor | tf.SparseTensor) or not hasattr(value, "numpy"):
        return None
    try:
        array = np.asarray(value.numpy())
    except (NotImplementedError, AttributeError):
        return None
    return array.astype(np.float32) if value.dtype == tf.bfloat16 else array
