"""The form of an output: its dtype and shape must be those of the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.found import Actual, Answer, Breach
from onnx_gate.vocabulary import BreachKind

Array = npt.NDArray[Any]


def form_breaches(answer: Answer, given: Actual, *, lenient: bool = False) -> list[Breach]:
    """What is wrong with the form of ONNX Runtime's answer; lenient lets dtypes of one kind differ in width."""
    breaches = []
    actual: Array = given.value
    if given.columns is not None and answer.columns is not None and given.columns != answer.columns:
        sentence = f"its columns are {_show(given.columns)}, expected {_show(answer.columns)}"
        breaches.append(Breach(kind=BreachKind.COLUMNS, text=sentence))
    got, wanted = dtype_name(actual), onnx_name(answer.dtype)
    same_kind = kind_of(actual) == kind_of(answer.value)
    if got != wanted and not (lenient and same_kind):
        breaches.append(Breach(kind=BreachKind.DTYPE, text=f"the dtype is {got}, expected {wanted}"))
    shape, expected = tuple(actual.shape), tuple(answer.value.shape)
    if shape != expected and not (answer.column and _as_row(shape) == _as_row(expected)):
        also = f" or {show_shape((*_as_row(expected), 1))}" if answer.column else ""
        sentence = f"the shape is {show_shape(shape)}, expected {show_shape(expected)}{also}"
        breaches.append(Breach(kind=BreachKind.SHAPE, text=sentence))
    return breaches


def kind_of(array: Array) -> str:
    """The kind of an array, whatever its width: float, int, bool or string."""
    kinds = {"f": "float", "i": "int", "u": "int", "b": "bool", "U": "string", "S": "string", "O": "string"}
    # The types of ml_dtypes (bfloat16, float8, int4 …) have no kind of their own in numpy.
    name = str(array.dtype.name)
    return kinds.get(array.dtype.kind, "float" if "float" in name else "int" if "int" in name else name)


def dtype_name(array: Array) -> str:
    """The element type's name, `string` for text."""
    return "string" if kind_of(array) == "string" else onnx_name(str(array.dtype.name))


def onnx_name(dtype: str) -> str:
    """The name that ONNX uses for a dtype, which may differ from numpy's."""
    name = dtype.replace("_", "")
    return {"float8e8m0fnu": "float8e8m0", "float4e2m1fn": "float4e2m1"}.get(name, name)


def in_numpys_own(array: Array) -> Array:
    """The same values in a type that numpy can sort, count and print."""
    if array.dtype.kind in "fiubcUSO":
        return array
    return array.astype(np.float32 if kind_of(array) == "float" else np.int64)


def show_shape(shape: tuple[int, ...]) -> str:
    """A shape as numpy prints it: `(2, 1)`."""
    return str(tuple(int(size) for size in shape))


def _show(columns: tuple[object, ...]) -> str:
    shown = ", ".join(map(repr, columns[:8]))
    return f"{shown} …" if len(columns) > 8 else shown


def _as_row(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:-1] if len(shape) == 2 and shape[1] == 1 else shape


Pair = tuple[Answer, Actual]


def parts_of(value: Any) -> list[Array]:
    """The arrays that a value consists of."""
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def pair_parts(answer: Answer, given: Actual) -> tuple[list[Pair], Breach | None]:
    """The arrays of both sides in pairs; or the breach that prevents their comparison."""
    reference, actual = answer.value, given.value
    if isinstance(reference, list) and isinstance(actual, np.ndarray) and actual.ndim:
        # Some sources return a list of arrays where the ONNX model returns them all in one tensor.
        actual = list(actual)
    if isinstance(reference, np.ndarray) and isinstance(actual, list) and not actual and reference.shape[:1] == (0,):
        # A ZipMap of no rows returns no maps, so its columns are unknown.
        return [], None
    if _kind(reference) != _kind(actual):
        sentence = f"it is {_describe(given.value)}, expected {_describe(answer.value)}"
        return [], Breach(kind=BreachKind.TYPE, text=sentence)
    if isinstance(reference, list):
        if len(reference) != len(actual):
            sentence = f"the sequence has {_count(len(actual))}, expected {_count(len(reference))}"
            return [], Breach(kind=BreachKind.COUNT, text=sentence)
        return [(replace(answer, value=r), Actual(value=a)) for r, a in zip(reference, actual, strict=True)], None
    return ([] if reference is None else [(answer, given)]), None


def form_of(value: Any) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape as reports show them; the shape of a sequence begins with its number of elements."""
    if value is None:
        return "nothing", ()
    if not isinstance(value, list):
        return dtype_name(value), tuple(int(size) for size in value.shape)
    if not value:
        return "sequence", (0,)
    shapes = {tuple(int(size) for size in part.shape) for part in value}
    return f"sequence of {dtype_name(value[0])}", (len(value), *(shapes.pop() if len(shapes) == 1 else ()))


def _kind(value: Any) -> str:
    return "nothing" if value is None else "sequence" if isinstance(value, list) else "tensor"


def _describe(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, list):
        return f"a sequence of {_count(len(value))}"
    return f"a tensor of {dtype_name(value)} {show_shape(value.shape)}"


def _count(number: int) -> str:
    return f"{number} element{'' if number == 1 else 's'}"


def same_bits(first: Any, second: Any) -> bool:
    """Whether two answers are the same, bit by bit."""
    ours, theirs = parts_of(first), parts_of(second)
    return len(ours) == len(theirs) and all(
        one.dtype == object or one.tobytes() == other.tobytes() for one, other in zip(ours, theirs, strict=True)
    )
