"""Constants of a graph: the shape is read at no cost, the content only on request and only if it is small."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.runtime.tensors import is_external

Array = npt.NDArray[Any]
MOST_BYTES = 4 * 1024 * 1024
MOST_ELEMENTS = 262_144
MOST_STEPS = 12
"""Constants that are computed from constants are followed over this many operators."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A constant of the graph."""

    shape: tuple[int, ...] | None
    """Its shape; None if only the content would show it."""
    kind: int
    """The element type, as a number of ONNX's TensorProto; 0 if it isn't known."""
    read: Callable[[], Array | None]
    """Reads its content; None if it is too large."""
    steps: int = 0
    """How many operators computed it, one after the other."""

    @cached_property
    def array(self) -> Array | None:
        """Its content, read only once; None if it can't be read."""
        try:
            return self.read()
        except Exception:
            # The runtime refuses a constant that can't be read. This analysis only ignores it.
            return None


class Beside:
    """The files that hold a model's weights."""

    def __init__(self, path: str | None, model: Any) -> None:
        self._path, self._model = path, model

    @cached_property
    def _own(self) -> bool:
        """Whether the model has such files; raises CannotJudge if one isn't the model's own."""
        return self._path is not None and bool(external_files(self._path, self._model, Path(self._path).name))

    def read(self, tensor: Any) -> Array | None:
        """The content of a tensor that is stored in such a file."""
        if not self._own or self._path is None:
            return None
        entries = {entry.key: entry.value for entry in tensor.external_data}
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
        with (Path(self._path).parent / entries["location"]).open("rb") as file:
            file.seek(int(entries.get("offset", "0")))
            content = file.read(math.prod(tensor.dims) * dtype.itemsize)
        return np.frombuffer(content, dtype.newbyteorder("<")).reshape(tuple(tensor.dims))


def of_tensor(tensor: Any, beside: Beside) -> Stored:
    """The constant of an initializer, or of a Constant node's value."""

    def read() -> Array | None:
        if math.prod(tensor.dims) > MOST_ELEMENTS or len(tensor.raw_data) > MOST_BYTES:
            return None
        found = beside.read(tensor) if is_external(tensor) else numpy_helper.to_array(tensor)
        return _as_text(found) if tensor.data_type == onnx.TensorProto.STRING and found is not None else found

    return Stored(tuple(tensor.dims), tensor.data_type, read)


def of_array(array: Array) -> Stored:
    """The constant of an array that is already in memory."""
    known = array.dtype.kind in "fiub"
    return Stored(array.shape, helper.np_dtype_to_tensor_dtype(array.dtype) if known else 0, lambda: array)


def of_constant(node: Any, beside: Beside) -> Stored | None:
    """The value of a Constant node."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return of_tensor(attribute.t, beside)
        if attribute.name in ("value_int", "value_ints"):
            return of_array(np.array(helper.get_attribute_value(attribute), dtype=np.int64))
        if attribute.name in ("value_float", "value_floats"):
            return of_array(np.array(helper.get_attribute_value(attribute), dtype=np.float32))
        if attribute.name in ("value_string", "value_strings"):
            return of_array(_as_text(np.array(helper.get_attribute_value(attribute), dtype=object)))
    return None


def made_of(node: Any, inputs: list[Stored | None]) -> Stored | None:
    """The constant that an operator computes from constants; its content is computed only on request."""
    first = inputs[0] if inputs else None
    steps = 1 + max((each.steps for each in inputs if each is not None), default=0)
    if first is None or steps > MOST_STEPS:
        return None
    shape = first.shape if node.op_type in _SAME_SHAPE else None
    if node.op_type == "Transpose" and first.shape is not None:
        shape = _transposed(first.shape, node)
    if node.op_type not in _MAKERS:
        return Stored(shape, 0, lambda: None, steps) if shape is not None else None
    return Stored(shape, _kind_after(node, first), lambda: _make(node, inputs), steps)


def _make(node: Any, inputs: list[Stored | None]) -> Array | None:
    arrays = [None if each is None else each.array for each in inputs]
    if any(array is None for array, each in zip(arrays, inputs, strict=True) if each is not None):
        return None
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type in _BROADCAST and math.prod(np.broadcast_shapes(*(a.shape for a in arrays))) > MOST_ELEMENTS:  # type: ignore[union-attr]
        return None
    with np.errstate(all="ignore"):
        made: Array = np.asarray(_MAKERS[node.op_type](attributes, *arrays))
    return made


def _kind_after(node: Any, first: Stored) -> int:
    if node.op_type == "Cast":
        return int(next((each.i for each in node.attribute if each.name == "to"), 0))
    return first.kind if node.op_type != "DequantizeLinear" else onnx.TensorProto.FLOAT


def _transposed(shape: tuple[int, ...], node: Any) -> tuple[int, ...]:
    order = next((list(each.ints) for each in node.attribute if each.name == "perm"), None)
    return tuple(shape[axis] for axis in order) if order else shape[::-1]


def _as_text(array: Array) -> Array:
    texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in array.reshape(-1)]
    return np.array(texts, dtype=object).reshape(array.shape)


def _axes(attributes: dict[str, Any], given: Array | None) -> tuple[int, ...] | None:
    if given is not None:
        return tuple(int(axis) for axis in given.reshape(-1))
    return tuple(attributes["axes"]) if "axes" in attributes else None


def _reshaped(array: Array, shape: Array) -> Array:
    sizes = [array.shape[axis] if size == 0 else int(size) for axis, size in enumerate(shape.tolist())]
    return array.reshape(sizes)


def _dequantised(array: Array, scale: Array, zero: Array | None) -> Array:
    if scale.size != 1:
        raise ValueError("one scale for each channel")
    return (array.astype(np.float32) - (0 if zero is None else zero.astype(np.float32))) * scale


_SAME_SHAPE = {"Identity", "Cast", "Neg", "Sqrt", "Reciprocal", "Exp", "Abs", "DequantizeLinear", "CastLike"}
_BROADCAST = {"Add", "Sub", "Mul", "Div", "Pow"}
_MAKERS: dict[str, Callable[..., Any]] = {
    "Identity": lambda _, a: a,
    "Cast": lambda at, a: a.astype(helper.tensor_dtype_to_np_dtype(at["to"])),
    "CastLike": lambda _, a, like: a.astype(like.dtype),
    "Neg": lambda _, a: -a,
    "Sqrt": lambda _, a: np.sqrt(a),
    "Reciprocal": lambda _, a: 1 / a,
    "Exp": lambda _, a: np.exp(a),
    "Abs": lambda _, a: np.abs(a),
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "Div": lambda _, a, b: a / b if a.dtype.kind == "f" else a // b,
    "Pow": lambda _, a, b: a**b,
    "Reshape": lambda _, a, shape: _reshaped(a, shape),
    "Unsqueeze": lambda at, a, axes=None: np.expand_dims(a, _axes(at, axes) or 0),
    "Squeeze": lambda at, a, axes=None: np.squeeze(a, _axes(at, axes)),
    "Transpose": lambda at, a: np.transpose(a, at.get("perm")),
    "Concat": lambda at, *each: np.concatenate(each, axis=at["axis"]),
    "DequantizeLinear": lambda _, a, scale, zero=None: _dequantised(a, scale, zero),
}
