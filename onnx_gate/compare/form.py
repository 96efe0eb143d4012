"""The form of an output: its dtype and shape have to be those of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records import Actual, Answer, Breach, BreachKind

Array = npt.NDArray[Any]


def form_breaches(answer: Answer, given: Actual, *, lenient: bool = False) -> list[Breach]:
    """What is wrong with the form of what ONNX Runtime answered; lenient lets floats differ in width."""
    breaches = []
    actual: Array = given.value
    if given.columns is not None and answer.columns is not None and given.columns != answer.columns:
        told = f"its columns are {_show(given.columns)}, expected {_show(answer.columns)}"
        breaches.append(Breach(kind=BreachKind.COLUMNS, text=told))
    got, wanted = dtype_name(actual), onnx_name(answer.dtype)
    same_kind = kind_of(actual) == kind_of(answer.value)
    if got != wanted and not (lenient and same_kind):
        breaches.append(Breach(kind=BreachKind.DTYPE, text=f"the dtype is {got}, expected {wanted}"))
    shape, expected = tuple(actual.shape), tuple(answer.value.shape)
    if shape != expected and not (answer.column and _as_row(shape) == _as_row(expected)):
        also = f" or {show_shape((*_as_row(expected), 1))}" if answer.column else ""
        told = f"the shape is {show_shape(shape)}, expected {show_shape(expected)}{also}"
        breaches.append(Breach(kind=BreachKind.SHAPE, text=told))
    return breaches


def kind_of(array: Array) -> str:
    """float, int, bool or string: what an output is, whatever its width."""
    kinds = {"f": "float", "i": "int", "u": "int", "b": "bool", "U": "string", "S": "string", "O": "string"}
    # The types of ml_dtypes (bfloat16, float8, int4 …) have no kind of their own in numpy.
    name = str(array.dtype.name)
    return kinds.get(array.dtype.kind, "float" if "float" in name else "int" if "int" in name else name)


def dtype_name(array: Array) -> str:
    """The element type's name, `string` for text."""
    return "string" if kind_of(array) == "string" else onnx_name(str(array.dtype.name))


def onnx_name(dtype: str) -> str:
    """A dtype as ONNX names it, where that isn't numpy's name."""
    name = dtype.replace("_", "")
    return {"float8e8m0fnu": "float8e8m0", "float4e2m1fn": "float4e2m1"}.get(name, name)


def in_numpys_own(array: Array) -> Array:
    """The same values in a type that numpy can sort, count and print."""
    if array.dtype.kind in "fiubcUSO":
        return array
    return array.astype(np.float32 if kind_of(array) == "float" else np.int64)


def show_shape(shape: tuple[int, ...]) -> str:
    """`(2, 1)`, as numpy prints it."""
    return str(tuple(int(size) for size in shape))


def _show(columns: tuple[object, ...]) -> str:
    shown = ", ".join(map(repr, columns[:8]))
    return f"{shown} …" if len(columns) > 8 else shown


def _as_row(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:-1] if len(shape) == 2 and shape[1] == 1 else shape
