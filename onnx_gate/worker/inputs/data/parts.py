"""Data of several sizes: a list of dicts, or lists of arrays → parts, each with its own sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec
from onnx_gate.vocabulary import Cause

Array = npt.NDArray[Any]
Declared = Mapping[Any, InputSpec | None]


def is_list_of_parts(answered: Any) -> bool:
    """Whether a callable's result is an iterator, or a list of dicts or arrays."""
    if isinstance(answered, Iterator):
        return True
    parts = isinstance(answered, list | tuple) and bool(answered)
    return parts and all(isinstance(part, dict | np.ndarray) for part in answered)


def is_ragged(value: Any, given: InputSpec | None) -> bool:
    """Whether the values of a tensor are a list of arrays that can't be the rows of one array."""
    if given is None or given.form != "tensor":
        return False
    if isinstance(value, np.ndarray):
        return value.dtype == object and value.ndim == 1 and all(isinstance(one, np.ndarray | list) for one in value)
    if not isinstance(value, list | tuple) or not all(isinstance(one, np.ndarray | list | tuple) for one in value):
        return False
    shapes = {_shape(one) for one in value}
    return len(shapes) > 1 or None in shapes or {len(shape or ()) for shape in shapes} == {len(given.shape)}


def split_ragged(answered: Mapping[Any, Any], inputs: Declared, shown: str) -> list[dict[str, Any]] | None:
    """One dict for each position in the ragged lists; None if there are no such lists."""
    lists = {name: list(value) for name, value in answered.items() if is_ragged(value, inputs.get(name))}
    if not lists:
        return None
    counts = {name: len(value) for name, value in lists.items()}
    if len(set(counts.values())) > 1:
        shown_counts = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: the lists of arrays are of different lengths: {shown_counts}",
            fix="give one array of each input for each call, or for each row",
        )
    count = next(iter(counts.values()))
    others = {name: value for name, value in answered.items() if name not in lists}
    return [
        {name: one[i] for name, one in lists.items()}
        | {name: _share(value, inputs.get(name), i, count) for name, value in others.items()}
        for i in range(count)
    ]


def _share(value: Any, given: InputSpec | None, place: int, count: int) -> Any:
    """The row at this position if the array has one row per part; else the whole value."""
    rows = given is None or "batch" in given.shape[:1]
    return value[place] if rows and hasattr(value, "__len__") and len(value) == count else value


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of a value; None if the value itself is ragged."""
    try:
        return tuple(np.shape(value))
    except ValueError:
        return None


def with_rows(array: Array, given: InputSpec | None) -> Array:
    """A single row as a batch of one; a list of numbers for a one-column input as a column."""
    if given is None or "batch" not in given.shape[:1] or array.ndim != len(given.shape) - 1:
        return array
    if array.ndim == 1 and given.shape[1] == 1 and array.shape != (1,):
        return array.reshape(-1, 1)
    return array[None]
