"""Wrong weights: too large, with the wrong sign, with a row set to 0, or with the row of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from onnx_gate.worker.onnx_files.blueprint import SLICE, Blueprint, Draft, NodePath
from onnx_gate.worker.strength.kinds.mutants import Kind, MissingValue, Mutant, Site, TableRow
from onnx_gate.worker.strength.kinds.parts import Parts

Array = npt.NDArray[Any]
FACTOR = 1.5
_LISTS: dict[str, tuple[str, ...]] = {
    "LinearRegressor": ("coefficients", "intercepts"),
    "LinearClassifier": ("coefficients", "intercepts"),
    "SVMRegressor": ("coefficients", "rho", "support_vectors"),
    "SVMClassifier": ("coefficients", "rho", "support_vectors", "prob_a", "prob_b"),
    "Scaler": ("offset", "scale"),
    "Imputer": ("imputed_value_floats",),
    "TfIdfVectorizer": ("weights",),
    "LabelEncoder": ("values_floats",),
}
"""Attributes that hold learnt parameters."""
_COMPARING = frozenset(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Min", "Max", "Clip"))
"""Operators that compare integers with stored ones, or clip at stored ones."""


def weight_sites(blueprint: Blueprint, parts: Parts) -> Iterator[Site]:
    """Sites for all stored floats, for stored integer limits, and for learnt lists in attributes."""
    for name in blueprint.names():
        array = blueprint.array(name)
        if array is not None and array.dtype.kind == "f" and array.size:
            yield from _tensor(name, array, parts)
        elif array is not None and array.dtype.kind in "iu" and array.size and _is_compared(name, parts):
            yield _site_of_limit(name, array, parts.of_tensor(name))
    for path, node in parts.nodes:
        for attribute in _LISTS.get(node.op_type, ()):
            values = _floats(node, attribute)
            if values.size:
                yield from _list(path, node, attribute, values, parts.of_node(path))


def _tensor(name: str, array: Array, parts: Parts) -> Iterator[Site]:
    part, readers = parts.of_tensor(name), parts.readers.get(name, [])
    table = array.ndim > 1 and any(_looks_up(node, place) for _, node, place in readers)

    def whole(kind: Kind, changed: Callable[[Array], Array]) -> Site:
        return Site(kind=kind, part=part, count=1, make=lambda _: _changed(kind, part, name, array, changed))

    yield whole(Kind.SCALED, lambda values: values * values.dtype.type(FACTOR))
    yield whole(Kind.NEGATED, np.negative)
    for axis in _axes(array, readers):
        make = partial(_zeroed, part, name, array, axis, table=table and axis == 0)
        yield Site(kind=Kind.ZEROED, part=part, count=array.shape[axis] if array.ndim else 1, make=make)
    if table and len(array) > 1:
        make = partial(_replaced, part, name, array)
        yield Site(kind=Kind.REPLACED, part=part, count=len(array), make=make)
    if array.dtype.itemsize > 2:
        yield whole(Kind.HALF, _rounded)


def _axes(array: Array, readers: Sequence[tuple[NodePath, Any, int]]) -> list[int]:
    """The axes along which lines are set to 0: for a matrix, both its inputs and its outputs; else rows or elements."""
    multiplied = any(node.op_type in ("MatMul", "Gemm") and place == 1 for _, node, place in readers)
    if array.ndim < 2 or not multiplied:
        return [0]
    # On an axis of length 1, the only line would be the whole tensor.
    return [axis for axis in (array.ndim - 2, array.ndim - 1) if array.shape[axis] > 1] or [0]


def _is_compared(name: str, parts: Parts) -> bool:
    """Whether a stored tensor is only used to compare integers with it, or to clip at it."""
    readers = parts.readers.get(name, [])
    return bool(readers) and all(node.op_type in _COMPARING for _, node, _ in readers)


def _site_of_limit(name: str, array: Array, part: str) -> Site:
    """A site that makes an integer limit 1.5 times as large, rounded down; 0 and 1 get one more."""
    most = np.iinfo(array.dtype).max

    def larger(values: Array) -> Array:
        grown = np.maximum(np.abs(values.astype(np.float64)) * (FACTOR - 1), 1) * np.where(values < 0, -1, 1)
        return np.where(values > most // 2, values, values + grown.astype(values.dtype)).astype(values.dtype)

    make = partial(_changed, Kind.SCALED, part, name, array, larger)
    return Site(kind=Kind.SCALED, part=part, count=1, make=lambda _: make())


def _looks_up(node: Any, place: int) -> bool:
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    return bool(node.op_type == "Gather" and place == 0 and axis == 0)


def _rounded(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(values.dtype)


def _changed(kind: Kind, part: str, name: str, array: Array, changed: Callable[[Array], Array]) -> Mutant | None:
    some = _slice(array)
    if np.array_equal(changed(array[some]), array[some], equal_nan=True):
        return None

    def change(draft: Draft) -> None:
        copy = draft.copy(name)
        copy[some] = changed(copy[some])
        draft.put(name, copy)

    return Mutant(kind=kind, part=part, place=name, change=change)


def _slice(array: Array) -> Any:
    """The whole array, or as many rows in its middle as may be changed at once."""
    if array.nbytes <= SLICE or not array.ndim:
        return ...
    rows = max(1, SLICE * len(array) // array.nbytes)
    start = (len(array) - rows) // 2
    return slice(start, start + rows)


def _zeroed(part: str, name: str, array: Array, axis: int, line: int, *, table: bool) -> Mutant | None:
    if not np.any(np.take(array, line, axis=axis) if array.ndim else array):
        return None

    def change(draft: Draft) -> None:
        copy = draft.copy(name)
        copy[(slice(None),) * axis + (line,) if copy.ndim else ...] = 0
        draft.put(name, copy)

    word = "element" if array.ndim < 2 else "column" if axis == array.ndim - 1 else "row"
    aim = TableRow(tensor=name, row=line) if table else None
    return Mutant(kind=Kind.ZEROED, part=part, place=f"{name} ({word} {line})", change=change, aim=aim)


def _replaced(part: str, name: str, array: Array, line: int) -> Mutant | None:
    other = (line + len(array) // 2) % len(array)
    if np.array_equal(array[line], array[other], equal_nan=True):
        return None

    def change(draft: Draft) -> None:
        copy = draft.copy(name)
        copy[line] = array[other]
        draft.put(name, copy)

    aim = TableRow(tensor=name, row=line)
    return Mutant(kind=Kind.REPLACED, part=part, place=f"{name} (row {line})", change=change, aim=aim)


def _floats(node: Any, name: str) -> Array:
    for each in node.attribute:
        if each.name == name:
            return np.array(helper.get_attribute_value(each), dtype=np.float64).reshape(-1)
    return np.array([])


def _list(path: NodePath, node: Any, name: str, values: Array, part: str) -> Iterator[Site]:
    rows = _rows(node, name, values.size)
    place = f"{name} of {node.name or node.op_type}"

    def site(kind: Kind, count: int, changed: Callable[[int], Array]) -> Site:
        def make(line: int) -> Mutant | None:
            new = changed(line)
            if np.array_equal(new, values):
                return None
            shown = place if count == 1 else f"{place} (row {line})"
            aim = MissingValue() if node.op_type == "Imputer" else None
            change = partial(_set_list, path=path, name=name, values=new)
            return Mutant(kind=kind, part=part, place=shown, change=change, aim=aim)

        return Site(kind=kind, part=part, count=count, make=make)

    def without(line: int) -> Array:
        table = values.reshape(rows, -1).copy()
        table[line] = 0
        return table.reshape(-1)

    yield site(Kind.SCALED, 1, lambda _: values * FACTOR)
    yield site(Kind.NEGATED, 1, lambda _: -values)
    yield site(Kind.ZEROED, rows, without)


def _rows(node: Any, name: str, size: int) -> int:
    """The number of rows of a list: one per class, target or vector; if that is not known, one per element."""
    counts = {
        "coefficients": len(_floats(node, "intercepts")),
        "support_vectors": int(sum(_floats(node, "vectors_per_class"))) or int(sum(_floats(node, "n_supports"))),
    }
    rows = counts.get(name, 0)
    if name == "coefficients" and rows <= 1:
        return size
    return rows if rows and size % rows == 0 else size


def _set_list(draft: Draft, *, path: NodePath, name: str, values: Array) -> None:
    attribute = next(each for each in draft.node(path).attribute if each.name == name)
    del attribute.floats[:]
    attribute.floats.extend(values.tolist())
