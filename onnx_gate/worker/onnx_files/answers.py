"""Changes to the order of a file's answers: its outputs, the columns of an output, the labels in an output.

Each function changes a graph in place and returns a description of the change. It raises ValueError if the graph can't
be changed like that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_KEYS = 2
"""The first version of ai.onnx.ml in which LabelEncoder has keys; before, it had a list of classes."""
_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Classes that are at other positions on their axis."""

    axis: int
    """The axis of the classes."""
    order: tuple[int, ...]
    """For each class, its position in the file's answer."""


def exchange_outputs(model: Any, under: Mapping[str, str]) -> list[str]:
    """Rename outputs that hold each other's answers; `under` maps an output to the name that its answers have now."""
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    if not made >= {*under, *under.values()}:
        raise ValueError("an output is an input or a stored tensor, and can't be renamed")
    names = {other: name for name, other in under.items()}
    for node in graph.node:
        _rename(node, names)
    places = [output.name for output in graph.output]
    for output in graph.output:
        output.name = names.get(output.name, output.name)
    by_name = {output.name: _copied(output) for output in graph.output}
    del graph.output[:]
    graph.output.extend(by_name[name] for name in places)
    del graph.value_info[:]
    told = [f"`{other}` to `{name}`" for name, other in under.items()]
    return [f"rename the output {', '.join(told[:_SHOWN])}"]


def reorder_columns(model: Any, output: str, found: Moved) -> str:
    """Put the classes of an output into the right order; the classes of a ZipMap are its keys."""
    graph = model.graph
    indices = f"{output}.order"
    graph.initializer.append(numpy_helper.from_array(np.asarray(found.order, "int64"), indices))
    maker = _maker(graph, output)
    if maker.op_type == "ZipMap":
        moved = f"{output}.in_order"
        gather = helper.make_node("Gather", [maker.input[0], indices], [moved], moved, axis=1)
        maker.input[0] = moved
        graph.node.insert(list(graph.node).index(maker), gather)
    else:
        before = _set_free(graph, output)
        graph.node.append(
            helper.make_node("Gather", [before, indices], [output], f"{output}.in_order", axis=found.axis)
        )
    return f"take the columns of `{output}` in the order {_listed([str(place) for place in found.order])}"


def exchange_labels(model: Any, output: str, right: Mapping[Any, Any]) -> str:
    """Replace each label of an output by the right one; labels that `right` doesn't contain stay as they are."""
    graph = model.graph
    before = _set_free(graph, output)
    add = _words if isinstance(next(iter(right)), str) else _numbers
    add(model, output, before, right)
    return f"in `{output}`, answer {_listed([f'{wanted} for {got}' for got, wanted in right.items()])}"


def _numbers(model: Any, output: str, before: str, right: Mapping[int, int]) -> None:
    kind = next(each for each in model.graph.output if each.name == output).type.tensor_type.elem_type
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    made = before
    for number, (got, wanted) in enumerate(right.items()):
        last = number == len(right) - 1
        fresh = output if last else f"{output}.{number}"
        key = _store(model.graph, f"{output}.got{number}", np.array(got, dtype))
        value = _store(model.graph, f"{output}.right{number}", np.array(wanted, dtype))
        model.graph.node.extend(
            [
                # Each key is compared with the original answer, not with a label that was already replaced.
                helper.make_node("Equal", [before, key], [f"{output}.is{number}"], f"{output}.is{number}"),
                helper.make_node("Where", [f"{output}.is{number}", value, made], [fresh], f"{output}.put{number}"),
            ]
        )
        made = fresh


def _words(model: Any, output: str, before: str, right: Mapping[str, str]) -> None:
    """Replace text labels by way of numbers: ONNX's Equal doesn't accept text in most versions."""
    version = next((entry.version for entry in model.opset_import if entry.domain == "ai.onnx.ml"), 0)
    if not version:
        version = _KEYS
        model.opset_import.add(domain="ai.onnx.ml", version=version)
    keys: dict[str, Any] = {"keys_strings": list(right), "values_int64s": list(range(len(right)))}
    if version < _KEYS:
        keys = {"classes_strings": list(right)}
    graph, code = model.graph, f"{output}.code"
    zero = _store(graph, f"{output}.zero", np.array(0, "int64"))
    names = _store(graph, f"{output}.right", np.array(list(right.values()), object))
    graph.node.extend(
        [
            helper.make_node("LabelEncoder", [before], [code], code, domain="ai.onnx.ml", default_int64=-1, **keys),
            helper.make_node("Less", [code, zero], [f"{code}.kept"], f"{code}.kept"),
            helper.make_node("Where", [f"{code}.kept", zero, code], [f"{code}.at"], f"{code}.at"),
            helper.make_node("Gather", [names, f"{code}.at"], [f"{code}.name"], f"{code}.name"),
            helper.make_node("Where", [f"{code}.kept", before, f"{code}.name"], [output], f"{output}.put"),
        ]
    )


def _maker(graph: Any, output: str) -> Any:
    found = next((node for node in graph.node if output in node.output), None)
    if found is None:
        raise ValueError(f"no node makes {output}")
    return found


def _set_free(graph: Any, output: str) -> str:
    """Rename the value that is an output, also where nodes read it, so that another value can become the output."""
    _maker(graph, output)
    fresh = f"{output}.as_it_was"
    for node in graph.node:
        _rename(node, {output: fresh})
    return fresh


def _rename(node: Any, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            own = {value.name for value in (*inner.input, *inner.initializer)}
            own.update(name for each in inner.node for name in each.output)
            visible = {name: fresh for name, fresh in names.items() if name not in own}
            for each in inner.node:
                _rename(each, visible)
            for output in inner.output:
                output.name = visible.get(output.name, output.name)


def _store(graph: Any, name: str, array: Any) -> str:
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _copied(value: Any) -> Any:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    return copy


def _listed(parts: Sequence[str]) -> str:
    more = len(parts) - 2 * _SHOWN
    return ", ".join(parts[: 2 * _SHOWN]) + (f" and {more} more" if more > 0 else "")
