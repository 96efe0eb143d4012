"""Values that are no single array: a sequence is as long as the reference's, an optional value there or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.compare.form import dtype_name, show_shape
from onnx_gate.records import Actual, Answer, Breach, BreachKind

Array = npt.NDArray[Any]
Pair = tuple[Answer, Actual]


def parts_of(value: Any) -> list[Array]:
    """The arrays that a value is made of."""
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def pair_parts(answer: Answer, given: Actual) -> tuple[list[Pair], Breach | None]:
    """The arrays of both sides, one by one; or what keeps them from being compared."""
    reference, actual = answer.value, given.value
    if isinstance(reference, list) and isinstance(actual, np.ndarray) and actual.ndim:
        # Some sources answer a list of arrays where ONNX has one tensor of them all.
        actual = list(actual)
    if isinstance(reference, np.ndarray) and isinstance(actual, list) and not actual and reference.shape[:1] == (0,):
        # No maps at all: a ZipMap of no rows, whose columns nobody can tell.
        return [], None
    if _kind(reference) != _kind(actual):
        told = f"it is {_describe(given.value)}, expected {_describe(answer.value)}"
        return [], Breach(kind=BreachKind.TYPE, text=told)
    if isinstance(reference, list):
        if len(reference) != len(actual):
            told = f"the sequence has {_count(len(actual))}, expected {_count(len(reference))}"
            return [], Breach(kind=BreachKind.COUNT, text=told)
        return [(replace(answer, value=r), Actual(value=a)) for r, a in zip(reference, actual, strict=True)], None
    return ([] if reference is None else [(answer, given)]), None


def form_of(value: Any) -> tuple[str, tuple[int, ...]]:
    """dtype and shape as reports show them; a sequence counts its elements first."""
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
