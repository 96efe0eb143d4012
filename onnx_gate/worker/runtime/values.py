"""Values as numpy has them ↔ values as ONNX Runtime takes and gives them.

The runtime's Python API takes most arrays, lists and dicts as they are. Not so element types that numpy doesn't have
(bfloat16, float8, int4 …), which go in and out as bytes; sparse tensors, which are dense arrays on our side; and
arrays in the other byte order, which it would take for garbage without a word.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, numpy_helper

from onnx_gate.errors import CannotJudge
from onnx_gate.vocabulary import Cause, Scalar

_FOREIGN = {
    "bfloat16": TensorProto.BFLOAT16,
    "float8e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8e5m2": TensorProto.FLOAT8E5M2,
    "float8e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "uint4": TensorProto.UINT4,
    "int4": TensorProto.INT4,
    # Younger than the oldest onnx that is supported.
    **{name.lower(): code for name, code in TensorProto.DataType.items() if code > TensorProto.INT4},
}
"""Element types that numpy doesn't have, as the runtime names them."""
_ELEMENT = re.compile(r"(\w+)\)*$")


def run_session(
    session: Any, feed: dict[str, Any], *, keep_memory: bool = False, options: Any = None
) -> dict[str, Any]:
    """Feed → what the session answers, by output name: arrays, lists of them, dicts, or None."""
    if options is None:
        options = ort.RunOptions() if keep_memory else _run_options(session)
    inputs = {given.name: given.type for given in session.get_inputs()}
    outputs = {output.name: output.type for output in session.get_outputs()}
    values = {name: _to_runtime(name, value, inputs.get(name, "")) for name, value in feed.items()}
    if not any(_foreign_code(kind) for kind in outputs.values()):
        answered = session.run(list(outputs), values, options)
        return {name: _from_runtime(value) for name, value in zip(outputs, answered, strict=True)}
    answered = session.run_with_ort_values(
        list(outputs),
        {name: _as_ort_value(name, value, inputs.get(name, "")) for name, value in values.items()},
        options,
    )
    return {name: _from_ort_value(name, value) for name, value in zip(outputs, answered, strict=True)}


def _run_options(session: Any) -> Any:
    """On the CPU, memory goes back after each run: a large batch would hold it until the process ends."""
    options = ort.RunOptions()
    if session.get_providers()[0] == "CPUExecutionProvider":
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


def plain_value(value: Any) -> tuple[Any, tuple[Scalar, ...] | None]:
    """An array, a list of arrays or None; of a map or a list of maps the values, with the keys of their columns."""
    if value is None:
        return None, None
    if isinstance(value, dict):
        keys = _sorted_keys(value)
        return _map_values([value[key] for key in keys]), keys
    if not isinstance(value, list | tuple):
        return np.asarray(value), None
    if not value or not isinstance(value[0], dict):
        return [np.asarray(part) for part in value], None
    keys = _sorted_keys(value[0])
    if other := next((row for row in value if row.keys() != value[0].keys()), None):
        raise CannotJudge(
            Cause.CONTRACT,
            f"the maps of a sequence have different keys: {_show(keys)} and {_show(_sorted_keys(other))}",
            fix="a sequence of maps is compared as a matrix: give all maps the same keys, or ignore this output",
        )
    return _map_values([[row[key] for key in keys] for row in value]), keys


def _to_runtime(name: str, value: Any, kind: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        if kind.startswith("sparse_tensor"):
            return _sparse(array)
        return _foreign(array, kind) if _foreign_code(kind) else array
    if isinstance(value, list):
        if _foreign_code(kind):
            raise _no_way(name, kind)
        return [_to_runtime(name, part, "") for part in value]
    return value


def _from_runtime(value: Any) -> Any:
    return _dense(value) if isinstance(value, ort.SparseTensor) else value


def _foreign_code(kind: str) -> int:
    """ONNX's number of an element type that numpy hasn't got; 0 for all others."""
    found = _ELEMENT.search(kind)
    return _FOREIGN.get(found[1], 0) if found else 0


def _foreign(array: Any, kind: str) -> Any:
    """An array of a type that numpy doesn't have: the same bytes, with the type's name."""
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), _foreign_code(kind))
    packed = numpy_helper.from_array(array).raw_data
    ctypes.memmove(value.data_ptr(), packed, min(len(packed), value.tensor_size_in_bytes()))
    return value


def _as_ort_value(name: str, value: Any, kind: str) -> Any:
    if isinstance(value, ort.OrtValue):
        return value
    if not isinstance(value, np.ndarray):
        raise _no_way(name, kind)
    return ort.OrtValue.ortvalue_from_numpy(value)


def _from_ort_value(name: str, value: Any) -> Any:
    if value.is_sparse_tensor():
        return _dense(value.as_sparse_tensor())
    kind = value.data_type()
    if not value.is_tensor():
        raise _no_way(name, kind)
    if not _foreign_code(kind):
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    tensor = TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw)
    return onnx.numpy_helper.to_array(tensor)


def _sparse(array: Any) -> Any:
    """A dense array in coordinate form; matrices with an index a dimension, which the runtime's kernels want."""
    indices = np.argwhere(array) if array.ndim == 2 else np.flatnonzero(array)
    device = ort.OrtDevice.make("cpu", 0)
    tensor = ort.SparseTensor.sparse_coo_from_numpy(
        np.array(array.shape, np.int64), array[array != 0], np.asarray(indices, np.int64, order="C"), device
    )
    return ort.OrtValue.ort_value_from_sparse_tensor(tensor)


def _dense(tensor: Any) -> Any:
    """A sparse tensor that the runtime answered as the dense array it stands for."""
    indices = tensor.as_coo_view().indices()
    dense = np.zeros(tensor.dense_shape(), tensor.values().dtype)
    if indices.ndim == 2:
        dense[tuple(indices.T)] = tensor.values()
    else:
        dense.reshape(-1)[indices] = tensor.values()
    return dense


def _map_values(values: list[Any]) -> Any:
    """The runtime's maps hold float32, int64 or text, and Python's numbers don't tell which width."""
    array = np.array(values)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    return array.astype(object) if array.dtype.kind in "US" else array


def _sorted_keys(value: dict[Any, Any]) -> tuple[Scalar, ...]:
    return tuple(sorted(value))


def _show(keys: tuple[Scalar, ...]) -> str:
    return ", ".join(map(repr, keys[:8])) + (" …" if len(keys) > 8 else "")


def _no_way(name: str, kind: str) -> CannotJudge:
    return CannotJudge(
        Cause.UNSUPPORTED_OPERATOR,
        f"{name!r} is {kind} beside values that numpy has no type for: ONNX Runtime's Python API can't pass both",
        fix="cast to float32 within the model, or ignore this output",
    )
