"""A copy of an ONNX file whose inner values can be read, and replaced, while it runs.

onnx-gate adds an Identity node before each output and before each input of a node that reads weights. If the file lacks
an operation, such as a last activation or a first scaling, the gap is then *between* two values, and has a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from onnx_gate.records.asked import ProviderSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft
from onnx_gate.worker.place.values import same_content

Array = npt.NDArray[Any]
Feed = dict[str, Any]
Values = dict[str, Array]
MARK = "onnx-gate:"
"""Prefix of the names of nodes and values that onnx-gate added, and that are not in the file itself."""
LARGEST = 16 * 1024 * 1024
"""Most bytes of one value; a larger value is not read."""
SLICE = 64 * 1024 * 1024
"""Most bytes of all values that are read in one run, and of the values that are kept."""
LEARNT = {
    *("MatMul", "Gemm", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN", "Gather", "BatchNormalization"),
    *("LayerNormalization", "GroupNormalization", "InstanceNormalization", "PRelu", "MatMulInteger", "QLinearConv"),
    *("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble", "LinearClassifier", "LinearRegressor"),
    *("SVMClassifier", "SVMRegressor", "Einsum", "RMSNormalization", "SimplifiedLayerNormalization"),
}
"""Operators that hold learnt parameters: as stored tensors among their inputs, or as attributes."""

LEARNT_ATTRIBUTES = (
    *("nodes_", "class_", "target_", "leaf_", "tree_", "base_values"),
    *("coefficients", "intercepts", "support_vectors"),
)
"""Prefixes of the attributes that hold learnt parameters."""
COMPARISONS = "nodes_modes"
"""The attribute that says how trees compare; training does not change it."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node of the main graph."""

    at: int
    """Position of the node in the order of the graph."""
    proto: Any
    reads: tuple[str, ...]
    """Values that the node and its sub-graphs read; stored tensors are not among them."""
    stored: tuple[str, ...]
    """Stored tensors that the node reads."""

    @property
    def own(self) -> bool:
        """Whether the node is from the file, and not added by onnx-gate."""
        return not self.proto.name.startswith(MARK)


class Bench:
    """A graph that can be run with any of its values shown or replaced."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self._folded: dict[str, Array | None] = {}
        self.model = onnx.ModelProto()
        """The graph, with the nodes that onnx-gate added."""
        self.model.CopyFrom(blueprint.model)
        self._fold()
        self._mark()
        graph = self.model.graph
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.stored = set(self._tensors)
        """Names of stored tensors."""
        self.inputs = [value.name for value in graph.input if value.name not in self.stored]
        self.outputs = [value.name for value in graph.output]
        self.nodes = [self._node(at, proto) for at, proto in enumerate(graph.node)]
        self.made_by = {name: node for node in self.nodes for name in node.proto.output if name}
        """Value → the node that computes it."""
        self.live = self._reached()
        """Values that depend on the inputs, in the order in which they are computed."""

    def _node(self, at: int, proto: Any) -> Node:
        names = [*dict.fromkeys((*proto.input, *_outer(proto)))]
        known = [name for name in names if name]
        return Node(
            at=at,
            proto=proto,
            reads=tuple(name for name in known if name not in self.stored),
            stored=tuple(name for name in known if name in self.stored),
        )

    def _reached(self) -> list[str]:
        reached = dict.fromkeys(self.inputs)
        for node in self.nodes:
            if any(name in reached for name in node.reads):
                reached.update(dict.fromkeys(name for name in node.proto.output if name))
        return list(reached)

    def _fold(self) -> None:
        """Store the values that do not depend on the inputs: a weight behind an Identity or a Transpose is a weight."""
        graph = self.model.graph
        stored = {tensor.name for tensor in graph.initializer}
        live = {value.name for value in graph.input if value.name not in stored}
        fixed = []
        for node in graph.node:
            if live.intersection((*node.input, *_outer(node))) or _graphs(node) or node.op_type.startswith("Random"):
                live.update(node.output)
            else:
                fixed.append(node)
        wanted = [name for node in fixed for name in node.output if name]
        if not wanted:
            return
        copy = Draft(self.blueprint)
        copy.model.CopyFrom(self.model)
        del copy.model.graph.output[:]
        del copy.model.graph.input[:]
        kept = [_copy(node) for node in fixed]
        del copy.model.graph.node[:]
        copy.model.graph.node.extend(kept)
        _show(copy.model.graph, wanted)
        answers = self.blueprint.open(copy, optimize=False).run({})
        values = {name: found.value for name, found in answers.items() if isinstance(found.value, np.ndarray)}
        ends = {output.name for output in graph.output}
        folded = {name for name, value in values.items() if value.nbytes <= LARGEST and name not in ends}
        rest = [_copy(node) for node in graph.node if not node.output or not folded.issuperset(node.output)]
        del graph.node[:]
        graph.node.extend(rest)
        for name in sorted(folded):
            graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values[name]), name))

    def constant(self, name: str) -> Array | None:
        """The content of a stored tensor; None if numpy does not have its type."""
        found = self.blueprint.array(name)
        if found is not None or name not in self.stored:
            return found
        if name not in self._folded:
            tensor = self._tensors[name]
            self._folded[name] = None if tensor.data_location else onnx.numpy_helper.to_array(tensor)
        return self._folded[name]

    def _mark(self) -> None:
        """Add an Identity node at each place where the file may lack an operation."""
        graph = self.model.graph
        stored = {tensor.name for tensor in graph.initializer}
        nodes: list[Any] = []
        marks: dict[str, str] = {}
        for at, node in enumerate(graph.node):
            if learns(node, stored):
                for place, name in enumerate(node.input):
                    if name and name not in stored:
                        # An operation that is missing before one reader is missing before all readers of the value.
                        if name not in marks:
                            marks[name] = f"{MARK}{at}.{place}"
                            nodes.append(_same(name, marks[name]))
                        node.input[place] = marks[name]
            nodes.append(_copy(node))
        ends = {output.name: f"{MARK}end.{output.name}" for output in graph.output}
        made = {name for node in nodes for name in node.output}
        ends = {name: fresh for name, fresh in ends.items() if name in made}
        for node in nodes:
            node.input[:] = [ends.get(name, name) for name in node.input]
            node.output[:] = [ends.get(name, name) for name in node.output]
            _rename_outer(node, ends)
        nodes += [_same(fresh, name) for name, fresh in ends.items()]
        del graph.node[:]
        graph.node.extend(nodes)

    @property
    def opset(self) -> int:
        """The opset version of ONNX's own operators."""
        return int(max(entry.version for entry in self.model.opset_import if entry.domain in ("", "ai.onnx")))

    def label(self, name: str) -> str:
        """The name of a value in the file; a value that onnx-gate added has the name of the value that it passes on."""
        node = self.made_by.get(name)
        while node is not None and not node.own and node.proto.name.startswith(f"{MARK}same.{MARK}"):
            name = node.proto.input[0]
            node = self.made_by.get(name)
        return name.removeprefix(f"{MARK}end.")

    def draft(self) -> Draft:
        """A copy of the graph that can be changed."""
        draft = Draft(self.blueprint)
        draft.model.CopyFrom(self.model)
        return draft

    def run(
        self,
        feed: Feed,
        look: Iterable[str] = (),
        given: Mapping[str, Array] | None = None,
        draft: Draft | None = None,
        on: ProviderSpec | None = None,
    ) -> Values:
        """The values named in `look`, with the `given` values in place of computed ones; on the CPU, or on `on`.

        A given value that is also in `look` is still computed; only the nodes that read it read the given value.
        """
        wanted = list(dict.fromkeys(look))
        copy = Draft(self.blueprint)
        changed = draft.model if draft else self.model
        copy.model.CopyFrom(_part(changed, wanted, given or {}))
        copy.weights = draft.weights if draft else {}
        handed = _give(copy.model.graph, given or {})
        _show(copy.model.graph, wanted, alone=True)
        session = self.blueprint.open(copy, optimize=False, on=on)
        # Read once: the session builds the list again on each access.
        inputs = session.inputs
        answers = session.run({name: value for name, value in {**feed, **handed}.items() if name in inputs})
        return {name: answers[name].value for name in wanted if isinstance(answers[name].value, np.ndarray)}

    def cut(self, end: str, given: Mapping[str, Array], draft: Draft | None = None) -> Any:
        """A separate model: the nodes that compute a value from the given ones, with their weights."""
        model, weights = (draft.model, draft.weights) if draft else (self.model, {})
        part = _part(model, [end], given)
        part.graph.name = "place"
        made = {name for node in part.graph.node for name in node.output}
        read = {name for node in part.graph.node for name in (*node.input, *_outer(node))}
        fed = {value.name for value in part.graph.input}
        for name, value in given.items():
            if name in read and name not in made and name not in fed:
                kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                part.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, list(value.shape)))
        for tensor in part.graph.initializer:
            array = weights.get(tensor.name)
            if array is None and self.blueprint.stored(tensor.name):
                array = self.blueprint.array(tensor.name)
            if array is not None:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(array, order="C"), tensor.name))
        _show(part.graph, [end], alone=True)
        return part

    def holds(self, array: Array) -> bool:
        """Whether a stored tensor has this content, in any layout; tensors are read one by one."""
        alike = [name for name, tensor in self._tensors.items() if int(np.prod(list(tensor.dims))) == array.size]
        return any(same_content(array, own) for name in alike if (own := self.constant(name)) is not None)

    def stored_numbers(self, nodes: Iterable[Node]) -> int:
        """How many numbers the stored tensors hold that these nodes read."""
        names = {name for node in nodes for name in node.stored}
        return sum(int(np.prod(list(self._tensors[name].dims))) for name in names)

    def sizes(self, feed: Feed, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """The shape of each value on a feed; the values themselves are not kept."""
        copy = self.draft()
        graph = copy.model.graph
        for name in names:
            graph.node.append(onnx.helper.make_node("Shape", [name], [f"{MARK}shape.{name}"], f"{MARK}shape.{name}"))
        _show(graph, [f"{MARK}shape.{name}" for name in names], alone=True)
        answers = self.blueprint.open(copy, optimize=False).run(feed)
        return {name: tuple(int(size) for size in answers[f"{MARK}shape.{name}"].value) for name in names}

    def behind(self, start: str) -> list[Node]:
        """The nodes that are computed from a value, in graph order."""
        reached, found = {start}, []
        for node in self.nodes:
            if reached.intersection(node.reads):
                reached.update(node.proto.output)
                found.append(node)
        return found

    def between(self, end: str, starts: Iterable[str]) -> list[Node]:
        """The nodes that compute a value from others, in graph order."""
        stops, found, waiting = set(starts), dict[int, Node](), [end]
        first = True
        while waiting:
            name = waiting.pop()
            node = self.made_by.get(name)
            if node is None or node.at in found or (name in stops and not first):
                continue
            first = False
            found[node.at] = node
            waiting += node.reads
        return [found[at] for at in sorted(found)]


def smallest_first(sizes: Mapping[str, int], *, largest: int = LARGEST, total: int = SLICE) -> list[str]:
    """The values that fit into the limits in bytes, in their own order.

    The smallest ones are chosen, so that two graphs with the same values keep the same ones, whatever their names.
    """
    chosen: set[str] = set()
    for name in sorted(sizes, key=lambda each: sizes[each]):
        if sizes[name] > largest or total < sizes[name]:
            break
        chosen.add(name)
        total -= sizes[name]
    return [name for name in sizes if name in chosen]


def learns(node: Any, stored: Iterable[str]) -> bool:
    """Whether a node holds learnt parameters."""
    if node.op_type not in LEARNT:
        return False
    if node.op_type == "Gather":
        return node.input[0] in stored
    return node.domain not in ("", "ai.onnx") or any(name in stored for name in node.input)


def is_learnt(attribute: str) -> bool:
    """Whether an attribute of this name holds learnt parameters."""
    return attribute.startswith(LEARNT_ATTRIBUTES) and attribute != COMPARISONS


def _part(model: Any, wanted: Sequence[str], given: Iterable[str]) -> Any:
    """The model reduced to the nodes that compute these values from the given ones."""
    graph, stops = model.graph, set(given)
    needed, kept = set(wanted), []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(name for name in (*node.input, *_outer(node)) if name and name not in stops)
    part = onnx.ModelProto(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.graph.name = graph.name or "part"
    part.graph.node.extend(reversed(kept))
    part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in needed)
    part.graph.sparse_initializer.extend(graph.sparse_initializer)
    stored = {tensor.name for tensor in graph.initializer}
    part.graph.input.extend(value for value in graph.input if value.name in needed and value.name not in stored)
    return part


def _give(graph: Any, given: Mapping[str, Array]) -> Values:
    """Make all nodes that read a given value read a new input instead; returns the values for these inputs."""
    fed = {name: f"{MARK}given.{name}" for name in given}
    for node in graph.node:
        node.input[:] = [fed.get(name, name) for name in node.input]
        _rename_outer(node, fed)
    read = {name for node in graph.node for name in (*node.input, *_outer(node))}
    for name, value in given.items():
        if fed[name] not in read:
            continue
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(fed[name], kind, list(value.shape)))
    return {fed[name]: np.asarray(value, order="C") for name, value in given.items() if fed[name] in read}


def _show(graph: Any, names: Sequence[str], *, alone: bool = False) -> None:
    shown = {output.name for output in graph.output}
    fed = {value.name for value in graph.input}
    if alone:
        del graph.output[:]
    for name in names:
        if name in fed:
            # The runtime does not return an input as an output.
            continue
        if name not in shown or alone:
            graph.output.append(onnx.helper.make_empty_tensor_value_info(name))


def _same(name: str, fresh: str) -> Any:
    return onnx.helper.make_node("Identity", [name], [fresh], f"{MARK}same.{fresh}")


def _copy(node: Any) -> Any:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _graphs(node: Any) -> list[Any]:
    return [inner for attribute in node.attribute for inner in (attribute.g, *attribute.graphs) if inner.node]


def _outer(node: Any) -> list[str]:
    """Values of the outer graph that the sub-graphs of a node read."""
    return [name for inner in _graphs(node) for name in _free(inner)]


def _free(graph: Any) -> list[str]:
    own = {value.name for value in (*graph.input, *graph.initializer)}
    found: list[str] = []
    for node in graph.node:
        found += [name for name in (*node.input, *_outer(node)) if name and name not in own]
        own.update(node.output)
    return [*found, *(output.name for output in graph.output if output.name not in own)]


def _rename_outer(node: Any, renamed: Mapping[str, str]) -> None:
    for inner in _graphs(node):
        own = {value.name for value in (*inner.input, *inner.initializer)}
        own.update(name for each in inner.node for name in each.output)
        visible = {name: fresh for name, fresh in renamed.items() if name not in own}
        for each in inner.node:
            each.input[:] = [visible.get(name, name) for name in each.input]
            _rename_outer(each, visible)
        for output in inner.output:
            output.name = visible.get(output.name, output.name)
