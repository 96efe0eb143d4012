"""The outputs of a TensorFlow model: nested tuples, lists, dicts → named tensors → Answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.tensorflow.load import Source
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.names import choose_output_names, leaves_of


def name_outputs(answered: Any, source: Source, spec: ModelSpec) -> list[tuple[str, Any]]:
    """The outputs with names: `output`, `output_0`, `logits`, `aux.0`, the model's own, or the manifest's."""
    leaves = list(leaves_of(answered, _parts))
    found = [".".join(path) or "output" for path, _ in leaves]
    if source.output_names and len(source.output_names) == len(found):
        found = list(source.output_names)
    names = choose_output_names(found, spec, returned_by="the model")
    return [(name, leaf) for name, (_, leaf) in zip(names, leaves, strict=True)]


def _parts(value: Any, top: bool) -> list[tuple[str, Any]] | None:
    """The parts of a container, by name; None for a leaf."""
    if isinstance(value, Mapping):
        # Sorted: the order of a signature's answers changes with each load.
        return [(str(key), value[key]) for key in sorted(value, key=str)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, tuple | list):
        return [(f"output_{number}" if top else str(number), part) for number, part in enumerate(value)]
    return None


def require_tensor(name: str, value: Any) -> Any:
    """The value, if it is a dense tensor of a type that ONNX has; raises CannotJudge otherwise."""
    if not tf.is_tensor(value) or isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        way = {"RaggedTensor": "to_tensor()", "SparseTensor": "tf.sparse.to_dense(…)"}.get(type(value).__name__)
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"the model returns a {type(value).__name__} as {name!r}, expected dense tensors",
            fix=f"return a dense one: {way}" if way else "return tensors only",
        )
    if value.dtype.is_complex or value.dtype.is_quantized:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"the model returns {value.dtype.name} as {name!r}, which ONNX Runtime has no tensors for",
            fix="return tf.math.real(…) and tf.math.imag(…)"
            if value.dtype.is_complex
            else "return dequantised numbers",
        )
    return value


def as_answer(name: str, value: Any) -> Answer:
    """A tensor as a NumPy array; strings as text, as ONNX Runtime returns them."""
    tensor = require_tensor(name, value)
    array = np.asarray(tensor.numpy())
    if tensor.dtype == tf.string:
        return Answer(value=_as_text(array), dtype="string")
    return Answer(value=array.astype("float32") if tensor.dtype == tf.bfloat16 else array, dtype=tensor.dtype.name)


def _as_text(array: Any) -> Any:
    text = np.empty(array.shape, dtype=object)
    flat = text.reshape(-1)
    for number, entry in enumerate(array.reshape(-1)):
        flat[number] = entry.decode("utf-8", "surrogateescape") if isinstance(entry, bytes) else entry
    return flat.reshape(array.shape)
