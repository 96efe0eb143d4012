"""Wrong sizes: those of one feed are used for every feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from onnx_gate.records.found import Actual
from onnx_gate.worker.onnx_files.blueprint import NodePath
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, Site
from onnx_gate.worker.strength.kinds.parts import Parts

ASKED = ("Shape", "Size")
"""Operators that return the size of a value."""


def shape_sites(parts: Parts, baked: Callable[[], Mapping[str, Actual]]) -> Iterator[Site]:
    """One site per node of the main graph that returns sizes; `baked` returns the sizes on one feed."""
    for path, node in parts.nodes:
        if node.op_type in ASKED and len(path) == 1:
            yield _site(path, node, parts.of_node(path), baked)


def _site(path: NodePath, node: Any, part: str, baked: Callable[[], Mapping[str, Actual]]) -> Site:
    name = node.output[0]

    def make(_: int) -> Mutant | None:
        seen = baked().get(name)
        if seen is None or not isinstance(seen.value, np.ndarray):
            return None
        value = seen.value
        place = f"{node.op_type} {node.name}".strip()
        return Mutant(kind=Kind.SHAPE, part=part, place=place, change=lambda draft: _bake(draft.node(path), value))

    return Site(kind=Kind.SHAPE, part=part, count=1, make=make)


def _bake(node: Any, value: Any) -> None:
    del node.attribute[:]
    del node.input[:]
    node.op_type, node.domain = "Constant", ""
    node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.asarray(value))))
