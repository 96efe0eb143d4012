"""The form of an output: its dtype and shape have to be those of the reference."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from onnx_gate.records import Actual, Answer

Array = npt.NDArray[Any]


def form_breaches(answer: Answer, given: Actual, *, lenient: bool = False) -> list[str]:
    """What is wrong with the form of what ONNX Runtime answered; lenient lets floats differ in width."""
    breaches = []
    actual: Array = given.value
    if given.columns is not None and answer.columns is not None and given.columns != answer.columns:
        breaches.append(f"its columns are {_show(given.columns)}, expected {_show(answer.columns)}")
    got, wanted = dtype_name(actual), answer.dtype
    same_kind = kind_of(actual) == kind_of(answer.value)
    if got != wanted and not (lenient and same_kind):
        breaches.append(f"the dtype is {got}, expected {wanted}")
    shape, expected = tuple(actual.shape), tuple(answer.value.shape)
    if shape != expected and not (answer.column and _as_row(shape) == _as_row(expected)):
        also = f" or {show_shape((*_as_row(expected), 1))}" if answer.column else ""
        breaches.append(f"the shape is {show_shape(shape)}, expected {show_shape(expected)}{also}")
    return breaches


def kind_of(array: Array) -> str:
    """float, int, bool or string: what an output is, whatever its width."""
    kinds = {"f": "float", "i": "int", "u": "int", "b": "bool", "U": "string", "S": "string", "O": "string"}
    return kinds.get(array.dtype.kind, "float" if "float" in array.dtype.name else array.dtype.name)


def dtype_name(array: Array) -> str:
    """numpy's name, `string` for text."""
    return "string" if kind_of(array) == "string" else str(array.dtype.name)


def show_shape(shape: tuple[int, ...]) -> str:
    """`(2, 1)`, as numpy prints it."""
    return str(tuple(int(size) for size in shape))


def _show(columns: tuple[object, ...]) -> str:
    shown = ", ".join(map(repr, columns[:8]))
    return f"{shown} …" if len(columns) > 8 else shown


def _as_row(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:-1] if len(shape) == 2 and shape[1] == 1 else shape
