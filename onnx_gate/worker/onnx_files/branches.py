"""Sizes that an .onnx compares with a number: its behaviour on one side says nothing about the other side."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import onnx
from onnx import helper

from onnx_gate.records.found import SizeBranch
from onnx_gate.worker.runtime.tensors import is_external

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Equal": operator.eq,
}
_SIGNS = {"Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<=", "Equal": "=="}
_TURNED = {"Greater": "Less", "Less": "Greater", "GreaterOrEqual": "LessOrEqual", "LessOrEqual": "GreaterOrEqual"}
_ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "Greater": math.floor,
    "LessOrEqual": math.floor,
    "Less": math.ceil,
    "GreaterOrEqual": math.ceil,
}
"""How to round the number to an integer so that comparing a size with it has the same result."""
_SAME = ("Squeeze", "Unsqueeze", "Cast", "Identity", "Reshape", "ReduceMax", "ReduceMin", "ReduceSum")
"""Operators that leave a single size unchanged."""
_NUMBERS = (
    *(onnx.TensorProto.INT64, onnx.TensorProto.INT32),
    *(onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE),
)
_BOUNDED = ("Min", "Max", "Clip")
_KEPT = ("Squeeze", "Unsqueeze", "Cast", "Identity", "Reshape", "Expand", "Abs", "Floor")
"""Operators that leave positions, or the size of a difference, unchanged."""
_MOST_NUMBERS = 16
"""Most elements of a constant that is followed: a shape has few."""
Numbers = list[Fraction]


@dataclass(frozen=True, kw_only=True)
class _Size:
    """A number that depends on one dimension of an input: factor · size + more."""

    input: str
    axis: int
    factor: Fraction = Fraction(1)
    more: Fraction = Fraction(0)

    def times(self, number: Fraction) -> _Size:
        """The number after multiplying by a constant."""
        return _Size(input=self.input, axis=self.axis, factor=self.factor * number, more=self.more * number)

    def plus(self, number: Fraction) -> _Size:
        """The number after adding a constant."""
        return _Size(input=self.input, axis=self.axis, factor=self.factor, more=self.more + number)


_Item = _Size | Fraction | None
_Items = tuple[_Item, ...]
"""A shape, or some numbers of a shape; None for an unknown number."""


def size_branches(model: Any) -> tuple[SizeBranch, ...]:
    """Every comparison of a size of an input with a constant, and every size that is cut off there, in graph order."""
    return tuple(_Walk(model.graph).branches(model.graph))


class _Walk:
    """One pass over the nodes; sub-graphs see the values of the graph around them."""

    def __init__(self, graph: Any) -> None:
        self._items: dict[str, _Items] = {}
        self._positions: dict[str, _Size] = {}
        """Values that hold 0, 1, 2, … along a dimension, or differences of these: the largest one."""
        self._shapes = {value.name: tuple(_inputs_own(value)) for value in graph.input}
        named = {
            dim.dim_param: size
            for value in graph.input
            for dim, size in zip(value.type.tensor_type.shape.dim, self._shapes[value.name], strict=False)
            if dim.dim_param
        }
        for value in (each for each in graph.value_info if each.type.tensor_type.HasField("shape")):
            self._shapes.setdefault(value.name, tuple(_of_names(value, named)))

    def branches(self, graph: Any) -> Iterator[SizeBranch]:
        """The comparisons of sizes in this graph and its sub-graphs."""
        for tensor in graph.initializer:
            self._keep(tensor.name, _numbers(tensor))
        for node in graph.node:
            yield from self._counted(node)
            if node.op_type in COMPARISONS and len(node.input) == 2:
                yield from self._compared(node)
            elif node.op_type in _BOUNDED:
                yield from self._bounded(node)
            elif node.output:
                self._keep(node.output[0], self._made(node))
            for attribute in node.attribute:
                yield from self.branches(attribute.g) if attribute.HasField("g") else ()

    def _keep(self, name: str, items: Sequence[_Item] | None) -> None:
        if items is not None:
            self._items[name] = tuple(items)

    def _made(self, node: Any) -> Sequence[_Item] | None:
        """What a node computes from sizes and constants; None if it computes something else."""
        given = [self._items.get(name) for name in node.input]
        first = given[0] if given else None
        if node.op_type == "Constant":
            return _constant(node)
        if node.op_type in ("Shape", "Size"):
            return self._shape(node)
        if first is None:
            return None
        if node.op_type in _SAME:
            return first if len(first) == 1 else None
        if node.op_type == "ReduceProd":
            return [_product(first)]
        if node.op_type in ("Gather", "Slice"):
            return _picked(node.op_type, first, given[1:])
        second = given[1] if len(given) == 2 else None
        if node.op_type in ("Mul", "Add", "Sub") and second is not None and len(first) == len(second) == 1:
            return [_computed(node.op_type, first[0], second[0])]
        return None

    def _counted(self, node: Any) -> Iterator[SizeBranch]:
        """Positions that are compared with a number, cut off at it, or divided by it: no shorter size shows that."""
        if node.op_type == "Range":
            self._begin(node)
        largest = next((self._positions[name] for name in node.input if name in self._positions), None)
        if largest is None:
            return
        number = next((items[0] for name in node.input if len(items := self._items.get(name, ())) == 1), None)
        if node.op_type in _KEPT or (node.op_type == "Sub" and all(name in self._positions for name in node.input)):
            self._positions[node.output[0]] = largest
        if _is_whole(node) and largest.factor < 1:
            yield from _reached("GreaterOrEqual", largest, Fraction(1))
        if not isinstance(number, Fraction) or number <= 0:
            return
        if node.op_type == "Div":
            self._positions[node.output[0]] = largest.times(1 / number)
        elif node.op_type == "Mod":
            yield from _reached("GreaterOrEqual", largest, number)
        elif node.op_type in _BOUNDED:
            yield from _reached("Greater", largest, number)
        elif node.op_type in COMPARISONS and node.input[0] in self._positions:
            yield from _reached(node.op_type if node.op_type != "Equal" else "GreaterOrEqual", largest, number)

    def _begin(self, node: Any) -> None:
        start, end, step = (self._items.get(name, (None,))[0] for name in node.input)
        if start == 0 and step == 1 and isinstance(end, _Size):
            self._positions[node.output[0]] = end.plus(Fraction(-1))

    def _shape(self, node: Any) -> Sequence[_Item] | None:
        shape = self._shapes.get(node.input[0]) if node.input else None
        if shape is None:
            return None
        if node.op_type == "Size":
            return [_product(shape)]
        ends = {attribute.name: attribute.i for attribute in node.attribute}
        return shape[ends.get("start", 0) : ends.get("end", len(shape))]

    def _compared(self, node: Any) -> Iterator[SizeBranch]:
        left, right = (self._items.get(name) for name in node.input)
        if left is None or right is None or not len(left) == len(right) == 1:
            return
        turned = isinstance(right[0], _Size)
        size, number = (right[0], left[0]) if turned else (left[0], right[0])
        if isinstance(size, _Size) and isinstance(number, Fraction):
            yield from _solved(_TURNED.get(node.op_type, node.op_type) if turned else node.op_type, size, number)

    def _bounded(self, node: Any) -> Iterator[SizeBranch]:
        """A size that is cut off at a number goes on as another number beyond it."""
        given = [items[0] for name in node.input if (items := self._items.get(name)) and len(items) == 1]
        sizes = [item for item in given if isinstance(item, _Size)]
        for number in (item for item in given if isinstance(item, Fraction)):
            for size in sizes:
                yield from _solved("Greater", size, number)


def _solved(op: str, size: _Size, number: Fraction) -> Iterator[SizeBranch]:
    """The same comparison, solved for the dimension itself."""
    if not size.factor:
        return
    op = _TURNED.get(op, op) if size.factor < 0 else op
    bound = (number - size.more) / size.factor
    if op == "Equal" and bound.denominator != 1:
        return
    whole = _ROUNDED[op](bound) if op in _ROUNDED else int(bound)
    yield SizeBranch(input=size.input, axis=size.axis, op=op, number=whole)


def _reached(op: str, largest: _Size, number: Fraction) -> Iterator[SizeBranch]:
    """The same for positions: a longer row has those of a shorter one, so that only longer ones tell more."""
    yield from (replace(branch, longer=True) for branch in _solved(op, largest, number))


def _is_whole(node: Any) -> bool:
    """Whether a node makes integers of floats."""
    types = [attribute.i for attribute in node.attribute if attribute.name == "to"]
    return node.op_type == "Floor" or (
        node.op_type == "Cast" and types[:1] in ([onnx.TensorProto.INT32], [onnx.TensorProto.INT64])
    )


def _inputs_own(value: Any) -> Iterator[_Item]:
    """The shape of an input: fixed numbers, and sizes that vary; without a declared shape, all sizes may vary."""
    if not value.type.tensor_type.HasField("shape"):
        yield from (_Size(input=value.name, axis=axis) for axis in range(_MOST_NUMBERS))
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        yield Fraction(dim.dim_value) if dim.HasField("dim_value") else _Size(input=value.name, axis=axis)


def _of_names(value: Any, named: Mapping[str, _Item]) -> Iterator[_Item]:
    """The shape of an inner value: fixed numbers, and sizes that have the name of an input's size."""
    for dim in value.type.tensor_type.shape.dim:
        yield Fraction(dim.dim_value) if dim.HasField("dim_value") else named.get(dim.dim_param)


def _product(items: Sequence[_Item]) -> _Item:
    """The product of all items; None if more than one of them varies."""
    made: _Item = Fraction(1)
    for item in items:
        made = _computed("Mul", made, item)
    return made


def _picked(op: str, items: _Items, given: Sequence[_Items | None]) -> Sequence[_Item] | None:
    places = [[int(each) for each in part if isinstance(each, Fraction)] if part else [] for part in given]
    if op == "Gather":
        chosen = places[0] if places else []
        return [items[place] for place in chosen if -len(items) <= place < len(items)] or None
    if len(places) < 2 or not places[0] or not places[1] or any(step != [1] for step in places[3:]):
        return None
    return items[places[0][0] : places[1][0]]


def _computed(op: str, first: _Item, second: _Item) -> _Item:
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        return first * second if op == "Mul" else first + (-second if op == "Sub" else second)
    if isinstance(first, _Size) and isinstance(second, Fraction):
        return first.times(second) if op == "Mul" else first.plus(-second if op == "Sub" else second)
    if isinstance(first, Fraction) and isinstance(second, _Size):
        turned = second.times(Fraction(-1)) if op == "Sub" else second
        return turned.times(first) if op == "Mul" else turned.plus(first)
    return None


def untried_branches(
    branches: tuple[SizeBranch, ...], shapes: Mapping[str, tuple[int | str, ...]], run: Mapping[str, set[int]]
) -> list[str]:
    """Warnings about comparisons that had the same result at every size that was run."""
    warnings = []
    for branch in dict.fromkeys(branches):
        shape = shapes.get(branch.input, ())
        dim = shape[branch.axis] if branch.axis < len(shape) else 0
        tried = run.get(dim, set()) if isinstance(dim, str) else set()
        compare = COMPARISONS[branch.op]
        other = [size for size in (branch.number - 1, branch.number, branch.number + 1) if size > 0]
        seen = {compare(size, branch.number) for size in tried}
        missing = next((size for size in other if {compare(size, branch.number)} - seen), None)
        if branch.longer and missing is not None and missing < max(tried, default=0):
            continue
        if tried and missing is not None and len(seen) == 1:
            warnings.append(_tell(branch, str(dim), sorted(tried), missing))
    return warnings


def _tell(branch: SizeBranch, dim: str, tried: list[int], missing: int) -> str:
    listed = ", ".join(map(str, sorted({*tried, missing})))
    line = f"batches: [{listed}]" if dim == "batch" else f"dims: {{{dim}: [{listed}]}}"
    return (
        f"the .onnx asks whether {dim} {_SIGNS[branch.op]} {branch.number}, and all sizes that were run "
        f"({', '.join(map(str, tried))}) lie on one side: what it does on the other was not compared. Add `{line}`"
    )


def _constant(node: Any) -> Numbers | None:
    """The value of a Constant node."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return _numbers(attribute.t)
        if attribute.name in ("value_int", "value_float", "value_ints", "value_floats"):
            value = helper.get_attribute_value(attribute)
            return _fractions(list(value) if attribute.name.endswith("s") else [value])
    return None


def _numbers(tensor: Any) -> Numbers | None:
    """The numbers of a small constant; None if it is large, or can't be read."""
    if is_external(tensor) or tensor.data_type not in _NUMBERS or math.prod(tensor.dims) > _MOST_NUMBERS:
        return None
    try:
        return _fractions(onnx.numpy_helper.to_array(tensor).reshape(-1).tolist())
    except (ValueError, TypeError, IndexError):
        # The tensor is broken, and the runtime refuses it.
        return None


def _fractions(numbers: Sequence[float]) -> Numbers | None:
    return [Fraction(number) for number in numbers] if all(map(math.isfinite, numbers)) else None
