"""Exchanges for a part that was exported with the weights of another module of the same form.

Training code keeps such copies: averaged weights, the best checkpoint, a network for deployment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_gate.worker.place.bench import Array, Bench, Node
from onnx_gate.worker.place.exchanges.differences import kind_of
from onnx_gate.worker.place.exchanges.exchange import Several, StoredExchange
from onnx_gate.worker.place.values import Layout, layouts

MOST_SIBLINGS = 8
"""Most modules that are tried in place of others."""
LARGEST = 64 * 1024 * 1024
"""Most bytes of weights that are compared."""


@dataclass(frozen=True, kw_only=True)
class _Held:
    """A stored tensor that is a parameter of the source."""

    node: Node
    name: str
    array: Array
    true: str
    layout: Layout


def of_siblings(bench: Bench, ours: Sequence[Node], parameters: Mapping[str, Array]) -> list[Several]:
    """For all weights of one module at once: those of another module, with the same names and shapes.

    The modules with the most weights come first.
    """
    held = list(_held(bench, ours, parameters))
    inside = {one.true for one in held}
    modules = {prefix for one in held for prefix in _above(one.true)}
    groups = {module: [one for one in held if one.true.startswith(module)] for module in modules}
    # A module that only wraps another one holds the same weights: the inner one has the shorter names.
    own = {tuple(id(one) for one in groups[module]): module for module in sorted(modules, key=len)}
    found: dict[tuple[str, ...], Several] = {}
    for module in sorted(own.values(), key=lambda module: (-len(groups[module]), module)):
        for other in _others(module, groups[module], parameters):
            if not any(name.startswith(other) for name in inside):
                parts = tuple(_parts(groups[module], module, other, parameters))
                found.setdefault(tuple(part.true for part in parts), Several(parts=parts))
        if len(found) >= MOST_SIBLINGS:
            break
    return [each for each in found.values() if each.parts][:MOST_SIBLINGS]


def _held(bench: Bench, ours: Sequence[Node], parameters: Mapping[str, Array]) -> Iterator[_Held]:
    left = LARGEST
    names: dict[tuple[int, float], list[str]] = {}
    for name, value in parameters.items():
        names.setdefault(_key(value), []).append(name)
    for node in ours:
        for name in node.stored:
            array = bench.constant(name)
            if array is None or array.dtype.kind != "f" or not array.size:
                continue
            left -= array.nbytes
            if left < 0:
                return
            likely = names.get(_key(array), ())
            for true in sorted(likely, key=lambda one, own=name: one != own):
                if (layout := _layout(parameters[true], array)) is not None:
                    yield _Held(node=node, name=name, array=array, true=true, layout=layout)
                    break


def _key(value: Array) -> tuple[int, float]:
    """The same for a tensor in any layout."""
    return value.size, float(np.abs(value).max(initial=0))


def _layout(parameter: Array, stored: Array) -> Layout | None:
    ways = layouts(parameter.shape, stored.shape)
    return next((way for way in ways if np.array_equal(way.of(parameter), stored)), None)


def _above(name: str) -> list[str]:
    """All modules around a parameter, each with the dot behind it; the model itself is empty."""
    parts = name.split(".")[:-1]
    return ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts) + 1)]


def _others(module: str, held: Sequence[_Held], parameters: Mapping[str, Array]) -> Iterator[str]:
    """Other modules that have each of the held parameters, with the same shape."""
    shapes = {one.true.removeprefix(module): parameters[one.true].shape for one in held}
    first = next(iter(shapes))
    for name in parameters:
        other = name.removesuffix(first)
        whole = name.endswith(first) and (not other or other.endswith("."))
        if (
            whole
            and other != module
            and all(other + own in parameters and parameters[other + own].shape == shapes[own] for own in shapes)
        ):
            yield other


def _parts(held: Sequence[_Held], module: str, other: str, parameters: Mapping[str, Array]) -> Iterator[StoredExchange]:
    for one in held:
        true = other + one.true.removeprefix(module)
        after = one.layout.of(parameters[true])
        if not np.array_equal(after, one.array):
            yield StoredExchange(
                kind=kind_of(one.array), node=one.node, name=one.name, true=true, before=one.array, after=after
            )
