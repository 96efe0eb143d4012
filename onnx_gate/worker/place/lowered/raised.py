"""A file of lower precision, raised to float32 with the source's own weights: what is wrong then has another reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.worker.onnx_files.blueprint import nodes_in
from onnx_gate.worker.onnx_files.precision.lowered import is_lowered
from onnx_gate.worker.place.bench import Array, Bench
from onnx_gate.worker.place.values import layouts

MOST_BYTES = 50 * 1024 * 1024
"""Largest size of a file that is raised."""
_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
RAISED = ".raised"
"""End of the name of a raised tensor."""
_ROUNDED = 2.0
"""A stored tensor is a copy of the source's if it differs by at most so many steps of its precision."""
_EIGHT, _SIXTEEN, _BRAIN = 1 / 127, 2.0**-11, 2.0**-8
"""One step of each precision, as a share of the largest number of a channel, or of a number itself."""


@dataclass(frozen=True, kw_only=True)
class Raised:
    """A raised file."""

    path: Path
    bounds: tuple[str, ...]
    """Values that are stored from 0 on: tools leave out a Relu before them, because the range has its effect."""


def raise_precision(path: Path, right: Bench, folder: Path, free: Set[str] = frozenset()) -> Raised | None:
    """The raised file, with a Relu for each bound that is not `free`.

    None for a large file, and for operators that can't be raised.
    """
    if path.stat().st_size > MOST_BYTES:
        return None
    raising = _Raising(onnx.load(str(path)), right, free)
    model = raising.made()
    if model is None:
        return None
    made = folder / f"raised.{len(list(folder.glob('raised.*')))}.onnx"
    onnx.save(model, str(made))
    return Raised(path=made, bounds=tuple(raising.bounds))


class _Raising:
    """A graph whose nodes and tensors of lower precision are replaced, one by one."""

    def __init__(self, model: Any, right: Bench, free: Set[str]) -> None:
        self._model, self._graph, self._free = model, model.graph, free
        self.bounds: list[str] = []
        self._stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._wanted = [
            array
            for name in sorted(right.stored)
            if (array := right.constant(name)) is not None and array.dtype.kind == "f" and array.size
        ]
        self._fresh: dict[str, Array] = {}
        self._ones: set[str] = set()
        """Values that are a scale, and are 1 now."""

    def made(self) -> Any:
        """The raised model; None if an operator can't be raised."""
        nodes: list[Any] = []
        for node in self._graph.node:
            new = self._node(node)
            if new is None:
                return None
            nodes += new
        self._halves(nodes)
        if any(is_lowered(node) for node in _inner(self._graph)):
            return None
        del self._graph.node[:]
        del self._graph.value_info[:]
        self._graph.node.extend(nodes)
        kept = {name: array for name, array in self._stored.items() if name not in self._fresh} | self._fresh
        del self._graph.initializer[:]
        self._graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in kept.items())
        return self._model

    def _node(self, node: Any) -> list[Any] | None:
        if node.op_type == "DynamicQuantizeLinear":
            return self._dynamic(node)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            return self._plain(node)
        if node.op_type in ("MatMulInteger", "ConvInteger"):
            return self._product(node)
        if node.op_type in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat"):
            return self._fused(node)
        if node.op_type == "DynamicQuantizeLSTM":
            return self._recurrent(node)
        if node.op_type == "Cast":
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i in _HALVES:
                    attribute.i = TensorProto.FLOAT
            return [node]
        return None if is_lowered(node) else [node]

    def _dynamic(self, node: Any) -> list[Any]:
        """The value itself, with a scale of 1 and a zero point of 0."""
        value, scale, zero = node.output
        self._ones.add(scale)
        self._fresh |= {scale: np.array(1, "float32"), zero: np.array(0, "uint8")}
        return [helper.make_node("Identity", [node.input[0]], [value], node.name)]

    def _plain(self, node: Any) -> list[Any] | None:
        """The value itself; for a stored tensor, that of the source."""
        given, scale = node.input[0], self._stored.get(node.input[1])
        if scale is None:
            return None
        if given in self._stored and node.op_type == "DequantizeLinear":
            axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
            zero = self._stored.get(node.input[2]) if len(node.input) > 2 else None
            self._fresh[node.output[0]] = self._whole(self._stored[given], _along(scale, axis, given, self), zero)
            return []
        zero = self._stored.get(node.input[2]) if len(node.input) > 2 else None
        lowest = zero is not None and zero.size == 1 and int(zero.item()) == np.iinfo(zero.dtype).min
        if node.op_type == "QuantizeLinear" and lowest:
            self.bounds.append(node.output[0])
        if node.op_type == "QuantizeLinear" and lowest and node.output[0] not in self._free:
            return [helper.make_node("Relu", [given], [node.output[0]], node.name)]
        return [helper.make_node("Identity", [given], [node.output[0]], node.name)]

    def _product(self, node: Any) -> list[Any] | None:
        """The product in float32; the nodes behind it multiply it by the scales, which are 1 now."""
        weights = self._stored.get(node.input[1])
        scales = self._scales_of(node)
        if len(scales) == 2 and not self._table(node, scales[0]):
            return None
        multiplied = next((other for other in self._graph.node if self._is_scale(other)), None)
        if weights is None or multiplied is None or not scales:
            return None
        scale = scales[-1]
        zero = self._stored.get(node.input[3]) if len(node.input) > 3 else None
        per = self._stored[scale]
        wide = per if node.op_type == "MatMulInteger" or per.size == 1 else per.reshape(-1, *[1] * (weights.ndim - 1))
        fresh = f"{node.input[1]}{RAISED}"
        self._fresh |= {fresh: self._whole(weights, wide, zero), scale: np.ones_like(per)}
        made = helper.make_node(node.op_type.removesuffix("Integer"), [node.input[0], fresh], node.output, node.name)
        made.attribute.extend(node.attribute)
        return [made]

    def _is_scale(self, node: Any) -> bool:
        return node.op_type == "Mul" and any(name in self._ones for name in node.input)

    def _table(self, node: Any, scale: str) -> bool:
        """Raise the stored table that a product reads rows of, such as an embedding; False if there is none."""
        name = node.input[0]
        makers = {output: maker for maker in self._graph.node for output in maker.output}
        while name not in self._stored and name in makers:
            name = makers[name].input[0]
        if name not in self._stored:
            return False
        zero = self._stored.get(node.input[2]) if len(node.input) > 2 else None
        if name not in self._fresh:
            self._fresh[name] = self._whole(self._stored[name], self._stored[scale], zero)
        self._fresh[scale] = np.ones_like(self._stored[scale])
        self._ones.add(scale)
        return True

    def _recurrent(self, node: Any) -> list[Any] | None:
        """The same LSTM in float32; its weights are stored transposed."""
        names = [*node.input, *[""] * 12]
        inputs = names[:8]
        for at, scale, zero in ((1, 8, 9), (2, 10, 11)):
            weights, per, shift = (self._stored.get(names[each]) for each in (at, scale, zero))
            if weights is None or per is None:
                return None
            wide = self._whole(weights, _of_gates(per), None if shift is None else _of_gates(shift))
            inputs[at] = f"{names[at]}{RAISED}"
            self._fresh[inputs[at]] = np.ascontiguousarray(wide.transpose(0, 2, 1))
        made = helper.make_node("LSTM", inputs, node.output, node.name)
        made.attribute.extend(node.attribute)
        return [made]

    def _scales_of(self, node: Any) -> list[str]:
        """The stored scales of a product, that of the weights last: behind it, both are multiplied."""
        readers: dict[str, list[Any]] = {}
        for other in self._graph.node:
            for name in other.input:
                readers.setdefault(name, []).append(other)
        value = node.output[0]
        for _ in range(3):
            after = next(iter(readers.get(value, ())), None)
            if after is None:
                return []
            if after.op_type == "Mul":
                other = next(name for name in after.input if name != value)
                made = next((each for each in self._graph.node if other in each.output), None)
                return [name for name in made.input if name in self._stored] if made is not None else []
            value = after.output[0]
        return []

    def _fused(self, node: Any) -> list[Any] | None:
        """The same in one node of the runtime."""
        dynamic = node.op_type == "DynamicQuantizeMatMul"
        names = [*node.input, "", "", "", ""]
        scale, zero, bias = (names[2], names[3], names[4]) if dynamic else (names[3], names[5], names[6])
        if node.input[1] not in self._stored or scale not in self._stored:
            return None
        if not dynamic and names[2] not in self._ones:
            return None
        fresh, made = f"{node.input[1]}{RAISED}", f"{node.output[0]}{RAISED}" if bias else node.output[0]
        self._fresh[fresh] = self._whole(self._stored[node.input[1]], self._stored[scale], self._stored.get(zero))
        product = helper.make_node("MatMul", [node.input[0], fresh], [made], node.name)
        return (
            [product, helper.make_node("Add", [made, bias], [node.output[0]], f"{node.name}.bias")]
            if bias
            else [product]
        )

    def _halves(self, nodes: Sequence[Any]) -> None:
        """Float32 for all that is stored in half precision, and for inputs and outputs."""
        for name, array in self._stored.items():
            if array.dtype.name in ("float16", "bfloat16"):
                self._fresh[name] = self._of_half(array)
        for node in nodes:
            for attribute in node.attribute:
                if attribute.t.data_type in _HALVES:
                    attribute.t.CopyFrom(numpy_helper.from_array(self._of_half(numpy_helper.to_array(attribute.t))))
        for value in (*self._graph.input, *self._graph.output):
            if value.type.tensor_type.elem_type in _HALVES:
                value.type.tensor_type.elem_type = TensorProto.FLOAT

    def _of_half(self, array: Array) -> Array:
        """The source's tensor for one in half precision."""
        step = _SIXTEEN if array.dtype.name == "float16" else _BRAIN
        wide = array.astype("float32")
        return self._of_source(wide, step * np.abs(wide))

    def _whole(self, lowered: Array, scale: Array, zero: Array | None) -> Array:
        """The source's tensor for a quantised one, or what the quantised one stands for."""
        moved = lowered.astype("float64") - (_shaped(zero, scale) if zero is not None else 0)
        return self._of_source((moved * scale).astype("float32"), np.broadcast_to(scale, lowered.shape))

    def _of_source(self, wide: Array, step: Array) -> Array:
        """The nearest tensor of the source, if this one is its copy up to rounding; else the tensor itself."""
        found = [(float(np.abs(wide - way).max()), number, way) for number, way in enumerate(self._ways(wide))]
        near = [(far, number, way) for far, number, way in found if bool(np.all(np.abs(wide - way) <= _ROUNDED * step))]
        return min(near, key=lambda each: each[:2])[2].astype("float32") if near else wide

    def _ways(self, wide: Array) -> Iterator[Array]:
        for other in self._wanted:
            if other.size == wide.size:
                yield from (way.of(other) for way in layouts(other.shape, wide.shape))


def _inner(graph: Any) -> Iterator[Any]:
    """The nodes of sub-graphs."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from (each for _, each in nodes_in(inner))


def _along(scale: Array, axis: int, given: str, raised: Any) -> Array:
    """A scale per channel, in the shape that multiplies along its axis."""
    lowered = raised._stored[given]
    if scale.size == 1 or lowered.ndim == 0:
        return scale.reshape(())
    return scale.reshape([-1 if at == axis % lowered.ndim else 1 for at in range(lowered.ndim)])


def _of_gates(per: Array) -> Array:
    """A scale or a zero point per direction, or also per gate, in the shape that fits [directions, inputs, gates]."""
    return per[:, None, :] if per.ndim == 2 else per.reshape(-1, 1, 1)


def _shaped(zero: Array, scale: Array) -> Array:
    return zero.astype("float64").reshape(scale.shape) if zero.size == scale.size else zero.astype("float64")
