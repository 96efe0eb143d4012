"""Exchanges that replace a part of the judged graph by the same part of the right graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, Protocol

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnx_gate.worker.onnx_files.blueprint import SMALL, Draft
from onnx_gate.worker.place.bench import MARK, Array, Bench, Node
from onnx_gate.worker.place.pairs import Pair
from onnx_gate.worker.place.values import Layout

ExchangeKind = Literal["weights", "constant", "attribute", "structure"]


class Exchange(Protocol):
    """A change of the judged graph."""

    @property
    def kind(self) -> ExchangeKind:
        """The kind of thing that is exchanged."""
        ...

    @property
    def node(self) -> Node | None:
        """The node that the exchange changes; None if it changes several."""
        ...

    def apply(self, draft: Draft) -> None:
        """Change the graph."""
        ...


@dataclass(frozen=True, kw_only=True)
class StoredExchange:
    """New content for a stored tensor, for one of the nodes that read it."""

    kind: ExchangeKind
    node: Node
    name: str
    """Name of the tensor in the judged file."""
    true: str
    """Name of the tensor in the right graph."""
    before: Array
    after: Array
    elsewhere: str = ""
    """The setting of another part of the source that the number was taken from: this part may have none."""

    def apply(self, draft: Draft) -> None:
        """Make the node read the new content; all other nodes keep reading the old tensor."""
        fresh = f"{self.name}.of_source.{self.node.at}"
        store(draft, fresh, self.after.astype(self.before.dtype, copy=False))
        proto = draft.model.graph.node[self.node.at]
        proto.input[:] = [fresh if name == self.name else name for name in proto.input]


@dataclass(frozen=True, kw_only=True)
class AttributeExchange:
    """A new value for an attribute of a node."""

    kind: ExchangeKind
    node: Node
    name: str
    before: Any
    """The value in the file; None if the file does not set it and the default is not known."""
    after: Any
    proto: Any
    """The attribute in the right graph; None if the right graph does not set it."""
    elsewhere: str = ""
    """The setting of another part of the source that the number was taken from: this part may have none."""

    def apply(self, draft: Draft) -> None:
        """Replace the attribute, or remove it if the right graph does not set it."""
        node = draft.model.graph.node[self.node.at]
        kept = [_copied(each) for each in node.attribute if each.name != self.name]
        del node.attribute[:]
        node.attribute.extend([*kept, *([_copied(self.proto)] if self.proto is not None else [])])


@dataclass(frozen=True, kw_only=True)
class Several:
    """Several exchanges that are applied together."""

    parts: tuple[StoredExchange | AttributeExchange, ...]

    @property
    def kind(self) -> ExchangeKind:
        """The kind of the parts; if they differ, the first of weights, attribute, constant."""
        kinds = {part.kind for part in self.parts}
        order: tuple[ExchangeKind, ...] = ("weights", "attribute", "constant")
        return next(kind for kind in order if kind in kinds)

    @property
    def node(self) -> Node | None:
        """The node that all parts change; None if they change several."""
        return self.parts[0].node if len({part.node.at for part in self.parts}) == 1 else None

    def apply(self, draft: Draft) -> None:
        """Apply the parts one after the other."""
        for part in self.parts:
            part.apply(draft)


@dataclass(frozen=True, kw_only=True)
class NodesExchange:
    """Nodes of the right graph, in place of the nodes that compute a value in the judged graph."""

    bench: Bench
    """The judged graph."""
    right: Bench
    nodes: tuple[Node, ...]
    """Nodes of the right graph, in graph order."""
    end: Pair
    starts: Mapping[str, Pair]
    """Name in the right graph → the pair whose value is read in its place."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of the true values."""
    kind: ExchangeKind = "structure"
    node: None = None

    def apply(self, draft: Draft) -> None:
        """Add the nodes at the end of the graph, unsorted; the old nodes stay, but nothing reads their value."""
        graph = draft.model.graph
        prefix = f"{MARK}source.{self.end.value}."
        names = {true: self._bring(graph, true, pair) for true, pair in self.starts.items()}
        for node in self.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node.proto)
            for name in node.stored:
                if name not in names:
                    names[name] = f"{prefix}{name}"
                    store(draft, names[name], self._stored(name))
            names |= {name: f"{prefix}{name}" for name in copy.output if name}
            copy.name = f"{node.proto.name or node.proto.op_type}.{self.end.value}.of_source"
            rename(copy, names)
            graph.node.append(copy)
        self._end(graph, names[self.end.true])

    def _stored(self, name: str) -> Array:
        found = self.right.constant(name)
        if found is None:
            raise ValueError(f"{name} has a type that can't be copied")
        return found

    def _bring(self, graph: Any, true: str, pair: Pair) -> str:
        """The name of a value of the judged graph, brought into the layout that it has in the right graph."""
        shape = self.shapes[true]
        if pair.layout.axes or shape != pair.layout.shape:
            return restore(graph, pair.value, shape, pair.layout, f"{MARK}bring.{self.end.value}.{true}")
        return pair.value

    def _end(self, graph: Any, made: str) -> None:
        wanted = self.end.value
        for node in graph.node:
            if wanted in node.output and not node.name.endswith(".of_source"):
                node.output[:] = [f"{MARK}before.{name}" if name == wanted else name for name in node.output]
        layout, shape = self.end.layout, self.shapes[self.end.true]
        if layout.axes or layout.shape != shape:
            made = arrange(graph, made, shape, layout, f"{MARK}form.{wanted}")
        graph.node.append(onnx.helper.make_node("Identity", [made], [wanted], f"{wanted}.of_source"))


@dataclass(frozen=True, kw_only=True)
class Removal:
    """The removal of nodes: nodes that read their output read their input instead."""

    ways: tuple[tuple[str, str], ...]
    """Pairs of names: the value that goes in, and the value that comes out."""
    nodes: tuple[Node, ...]
    """The nodes between these values, in graph order."""
    kind: ExchangeKind = "structure"

    @property
    def node(self) -> Node | None:
        """The removed node; None if there are several."""
        return self.nodes[0] if len(self.nodes) == 1 else None

    def apply(self, draft: Draft) -> None:
        """Make the last node of each path pass on the value that goes in; nothing reads the other nodes any more."""
        starts = {end: start for start, end in self.ways}
        for node in draft.model.graph.node:
            for end in starts.keys() & set(node.output):
                node.CopyFrom(onnx.helper.make_node("Identity", [starts[end]], [end], node.name))


def store(draft: Draft, name: str, array: Array) -> None:
    """Add a stored tensor; large floats are kept in memory beside the graph."""
    array = np.asarray(array, order="C")
    graph = draft.model.graph
    if any(tensor.name == name for tensor in graph.initializer):
        return
    if array.nbytes <= SMALL or array.dtype.kind != "f":
        graph.initializer.append(numpy_helper.from_array(array, name))
        return
    tensor = graph.initializer.add()
    tensor.name, tensor.data_type = name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.dims.extend(array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="in-memory")
    draft.weights[name] = array


def arrange(graph: Any, name: str, shape: tuple[int, ...], layout: Layout, fresh: str) -> str:
    """Add nodes that bring a value into another layout; returns the name of the result."""
    moved = tuple(shape[axis] for axis in layout.axes) if layout.axes else shape
    made = _transpose(graph, name, layout.axes, f"{fresh}.t")
    return _reshape(graph, made, moved, layout.shape, f"{fresh}.r")


def restore(graph: Any, name: str, shape: tuple[int, ...], layout: Layout, fresh: str) -> str:
    """Add nodes that undo `arrange`, back to a value of this shape; returns the name of the result."""
    moved = tuple(shape[axis] for axis in layout.axes) if layout.axes else shape
    made = _reshape(graph, name, layout.shape, moved, f"{fresh}.r")
    return _transpose(graph, made, tuple(int(axis) for axis in np.argsort(layout.axes)), f"{fresh}.t")


def _transpose(graph: Any, name: str, axes: tuple[int, ...], fresh: str) -> str:
    if not axes:
        return name
    graph.node.append(onnx.helper.make_node("Transpose", [name], [fresh], fresh, perm=axes))
    return fresh


def _reshape(graph: Any, name: str, shape: tuple[int, ...], wanted: tuple[int, ...], fresh: str) -> str:
    """Add a Reshape; sizes that do not change stay dynamic: the file takes other batches and lengths than this feed."""
    if shape == wanted:
        return name
    same = [at < len(shape) and shape[at] == size for at, size in enumerate(wanted)]
    sizes = [0 if kept else size for kept, size in zip(same, wanted, strict=True)]
    # ONNX can infer one changed size. It is the first one, because rows are joined into the first axis.
    if same and not same[0]:
        sizes[0] = -1
    read = _sizes(graph, name, sizes, _last_kept(shape, wanted, same), fresh)
    graph.node.append(onnx.helper.make_node("Reshape", [name, read], [fresh], fresh))
    return fresh


def _last_kept(shape: tuple[int, ...], wanted: tuple[int, ...], same: Sequence[bool]) -> int:
    """How many of the last sizes are the same, counted from the end, if they are at another place from the start."""
    if len(shape) == len(wanted):
        return 0
    pairs = zip(reversed(shape), reversed(wanted), reversed(same), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1] and not pair[2], pairs))


def _sizes(graph: Any, name: str, sizes: list[int], kept: int, fresh: str) -> str:
    """The name of the new sizes; the last `kept` ones are read from the value itself."""
    first = sizes[: len(sizes) - kept]
    graph.initializer.append(numpy_helper.from_array(np.array(first, "int64"), f"{fresh}.shape"))
    if not kept:
        return f"{fresh}.shape"
    for end, at in (("from", -kept), ("to", np.iinfo("int64").max)):
        graph.initializer.append(numpy_helper.from_array(np.array([at], "int64"), f"{fresh}.{end}"))
    own, last, whole = f"{fresh}.own", f"{fresh}.last", f"{fresh}.sizes"
    graph.node.extend(
        [
            onnx.helper.make_node("Shape", [name], [own], own),
            onnx.helper.make_node("Slice", [own, f"{fresh}.from", f"{fresh}.to"], [last], last),
            onnx.helper.make_node("Concat", [f"{fresh}.shape", last], [whole], whole, axis=0),
        ]
    )
    return whole


def rename(node: Any, names: Mapping[str, str]) -> None:
    """Rename the values of a copied node to their names in the graph that it is copied into."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, "") for name in node.output]
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            for each in inner.node:
                each.input[:] = [names.get(name, name) for name in each.input]


def sort_nodes(graph: Any) -> None:
    """Sort the nodes so that each value is computed before it is read; raises ValueError if that is impossible."""
    made_by = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
    needs = [{made_by[name] for name in _needs(node) if name in made_by} for node in graph.node]
    try:
        order = list(TopologicalSorter(dict(enumerate(needs))).static_order())
    except CycleError as error:
        raise ValueError("the graph reads a value before it is computed") from error
    ordered = [graph.node[at] for at in order]
    copies = [_node(node) for node in ordered]
    del graph.node[:]
    graph.node.extend(copies)


def _needs(node: Any) -> list[str]:
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            own = {name for each in inner.node for name in each.output}
            names += [name for each in inner.node for name in each.input if name and name not in own]
    return names


def _node(node: Any) -> Any:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _copied(attribute: Any) -> Any:
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    return copy


def all_of(exchanges: Sequence[Exchange], draft: Draft) -> None:
    """Apply the exchanges; those of structure last, because the others find a node by its position."""
    for exchange in sorted(exchanges, key=lambda one: one.kind == "structure"):
        exchange.apply(draft)
    if any(isinstance(exchange, NodesExchange) for exchange in exchanges):
        sort_nodes(draft.model.graph)


def parts_of(exchanges: Iterable[Exchange]) -> list[StoredExchange | AttributeExchange | NodesExchange | Removal]:
    """The single exchanges, with each `Several` replaced by its parts."""
    found: list[StoredExchange | AttributeExchange | NodesExchange | Removal] = []
    for exchange in exchanges:
        if isinstance(exchange, Several):
            found += exchange.parts
        elif isinstance(exchange, StoredExchange | AttributeExchange | NodesExchange | Removal):
            found.append(exchange)
    return found
