"""Changes in one place of an .onnx file, as a faulty converter or a manual edit might make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sweeps.wrong_models.entry import Array, Random

ML_DOMAIN = "ai.onnx.ml"


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph and its sub-graphs."""
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [given.g for node in graph.node for given in node.attribute if given.type == given.GRAPH]


def nodes(model: onnx.ModelProto, *operators: str) -> list[onnx.NodeProto]:
    """All nodes of these operators, in all graphs; at least one."""
    found = [node for graph in graphs(model) for node in graph.node if node.op_type in operators]
    if not found:
        present = sorted({node.op_type for graph in graphs(model) for node in graph.node})
        raise LookupError(f"no {' or '.join(operators)} among {', '.join(present)}")
    return found


def attribute(node: onnx.NodeProto, name: str) -> Any:
    """The value of an attribute as a Python object; None if it is not set."""
    found = next((given for given in node.attribute if given.name == name), None)
    return None if found is None else helper.get_attribute_value(found)


def set_attribute(node: onnx.NodeProto, name: str, value: Any) -> None:
    """Give an attribute another value."""
    kept = [given for given in node.attribute if given.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def change_list(node: onnx.NodeProto, name: str, change: Callable[[list[Any]], None]) -> None:
    """Change a list of an attribute in place."""
    values = list(attribute(node, name))
    change(values)
    set_attribute(node, name, values)


def tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Every constant by name: initializers, and the values of Constant nodes."""
    for graph in graphs(model):
        yield from ((given.name, given) for given in graph.initializer)
        for node in graph.node:
            if node.op_type == "Constant":
                yield from ((node.output[0], given.t) for given in node.attribute if given.type == given.TENSOR)


def change_tensor(
    model: onnx.ModelProto, wanted: Callable[[str, Array], bool], change: Callable[[Array], Array | None]
) -> None:
    """Change the first constant that `wanted` accepts, in place or by another array."""
    for name, tensor in tensors(model):
        array = np.array(numpy_helper.to_array(tensor))
        if wanted(name, array):
            changed = change(array)
            tensor.CopyFrom(numpy_helper.from_array(array if changed is None else changed, tensor.name))
            return
    shown = ", ".join(f"{name} {list(tensor.dims)}" for name, tensor in tensors(model))
    raise LookupError(f"no such constant among {shown}")


def change_named(model: onnx.ModelProto, part: str, change: Callable[[Array], Array | None]) -> None:
    """Change the constant whose name contains this part."""
    change_tensor(model, lambda name, array: part in name, change)


def change_number(model: onnx.ModelProto, number: float, other: float) -> None:
    """Replace a constant that is this number, wherever it is used."""

    def is_it(name: str, array: Array) -> bool:
        return array.size == 1 and array.dtype.kind in "fiu" and bool(np.isclose(array.item(), number, rtol=1e-6))

    change_tensor(model, is_it, lambda array: np.full_like(array, other))


def swap(values: list[Any], first: int, second: int) -> None:
    """Swap two elements of a list."""
    values[first], values[second] = values[second], values[first]


def scale_leaf(model: onnx.ModelProto, random: Random, factor: float = 3.0) -> None:
    """Multiply the weights of one leaf of a tree ensemble."""
    node = nodes(model, "TreeEnsembleRegressor", "TreeEnsembleClassifier")[0]
    kind = "target" if node.op_type.endswith("Regressor") else "class"
    leaves = list(zip(attribute(node, f"{kind}_treeids"), attribute(node, f"{kind}_nodeids"), strict=True))
    chosen = leaves[int(random.integers(len(leaves)))]

    def scale(weights: list[Any]) -> None:
        for place, leaf in enumerate(leaves):
            if leaf == chosen:
                weights[place] = weights[place] * factor

    change_list(node, f"{kind}_weights", scale)


def swap_leaf_classes(model: onnx.ModelProto, random: Random) -> None:
    """Make one leaf of a classifier vote for other classes: its weights are reversed."""
    node = nodes(model, "TreeEnsembleClassifier")[0]
    leaves = list(zip(attribute(node, "class_treeids"), attribute(node, "class_nodeids"), strict=True))
    chosen = leaves[int(random.integers(len(leaves)))]
    places = [place for place, leaf in enumerate(leaves) if leaf == chosen]

    def reverse(weights: list[Any]) -> None:
        turned = [weights[place] for place in reversed(places)]
        turned = turned if len(places) > 1 else [1.0 - weights[places[0]]]
        for place, weight in zip(places, turned, strict=True):
            weights[place] = weight

    change_list(node, "class_weights", reverse)


def branches(node: onnx.NodeProto) -> list[int]:
    """The positions of a tree ensemble's nodes that aren't leaves."""
    return [place for place, mode in enumerate(attribute(node, "nodes_modes")) if mode != b"LEAF"]


def move_threshold(model: onnx.ModelProto, random: Random, factor: float = 1.25) -> None:
    """Move one threshold of a tree ensemble away from 0."""
    node = nodes(model, "TreeEnsembleRegressor", "TreeEnsembleClassifier")[0]
    chosen = int(random.choice(branches(node)))
    change_list(node, "nodes_values", lambda values: values.__setitem__(chosen, values[chosen] * factor))


def turn_missing(model: onnx.ModelProto, random: Random) -> None:
    """Send missing values the other way at one node of a tree ensemble."""
    node = nodes(model, "TreeEnsembleRegressor", "TreeEnsembleClassifier")[0]
    chosen = int(random.choice(branches(node)))
    name = "nodes_missing_value_tracks_true"
    if not attribute(node, name):
        set_attribute(node, name, [0] * len(attribute(node, "nodes_modes")))
    change_list(node, name, lambda values: values.__setitem__(chosen, 1 - values[chosen]))


def scale_one(operator: str, name: str, factor: float) -> Callable[[onnx.ModelProto, Random], None]:
    """A sabotage: multiplies one value of a list in an operator's attribute."""

    def scale(file: onnx.ModelProto, random: Random) -> None:
        def multiply(values: list[Any]) -> None:
            values[int(random.integers(len(values)))] *= factor

        change_list(nodes(file, operator)[0], name, multiply)

    return scale


def swap_two(operator: str, name: str) -> Callable[[onnx.ModelProto, Random], None]:
    """A sabotage: exchanges two values of a list in an operator's attribute."""

    def exchange(file: onnx.ModelProto, random: Random) -> None:
        chosen = nodes(file, operator)
        node = chosen[int(random.integers(len(chosen)))]
        first, second = random.choice(len(attribute(node, name)), size=2, replace=False)
        change_list(node, name, lambda values: swap(values, int(first), int(second)))

    return exchange


def scale_element(part: str, factor: float) -> Callable[[onnx.ModelProto, Random], None]:
    """A sabotage: multiplies one element of a constant, found by a part of its name."""

    def scale(file: onnx.ModelProto, random: Random) -> None:
        def multiply(array: Array) -> None:
            array.reshape(-1)[int(random.integers(array.size))] *= factor

        change_named(file, part, multiply)

    return scale


def change_row(part: str, first: int) -> Callable[[onnx.ModelProto, Random], None]:
    """A sabotage: changes one row of a table, from row `first` on; the table is found by a part of its name."""

    def change(file: onnx.ModelProto, random: Random) -> None:
        def turn(array: Array) -> None:
            row = int(random.integers(first, len(array)))
            array[row] = 0.5 - array[row]

        change_named(file, part, turn)

    return change
