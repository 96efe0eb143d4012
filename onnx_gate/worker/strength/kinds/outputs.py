"""Wrong outputs: a column is set to 0, has the wrong sign, or is swapped with another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft, OutputForm
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, OutputColumn, Site

_JUDGED = "{}_before_mutation"


def output_sites(blueprint: Blueprint, outputs: Mapping[str, OutputForm]) -> Iterator[Site]:
    """Sites for outputs that the graph computes and that are arrays of numbers."""
    made = {name for node in blueprint.model.graph.node for name in node.output}
    for output in blueprint.model.graph.output:
        form = outputs.get(output.name)
        if output.name in made and form is not None and form.dtype is not None:
            yield from _of_output(output.name, form.dtype, form.columns)


def _of_output(name: str, dtype: Any, width: int | None) -> Iterator[Site]:
    """Sites for each column, if the file fixes the number of columns: sizes of a feed must not change the plan."""
    wide, columns = width is not None, width or 1
    part = f"output {name}"

    def scaled(factor: int) -> Any:
        def make(column: int) -> Mutant:
            mask = np.ones(columns, dtype=dtype)
            mask[column] = factor
            mul = ("Mul", mask if wide else mask.reshape(()))
            return _mutant(part, name, column if wide else None, "negated" if factor else "set to 0", mul)

        return make

    def swapped(column: int) -> Mutant:
        order = np.arange(columns)
        order[[column, column + 1]] = order[[column + 1, column]]
        return _mutant(part, name, column, f"swapped with column {column + 1}", ("Gather", order))

    yield Site(kind=Kind.OUTPUT, part=part, count=columns, make=scaled(0))
    yield Site(kind=Kind.OUTPUT, part=part, count=columns, make=scaled(-1))
    if columns > 1:
        yield Site(kind=Kind.OUTPUT, part=part, count=columns - 1, make=swapped)


def _mutant(part: str, name: str, column: int | None, done: str, tail: tuple[str, Any]) -> Mutant:
    return Mutant(
        kind=Kind.OUTPUT,
        part=part,
        place=f"{name} {done}" if column is None else f"column {column} of {name} {done}",
        change=lambda draft: _append(draft, name, *tail),
        aim=OutputColumn(output=name, column=column),
    )


def _append(draft: Draft, name: str, op: str, operand: Any) -> None:
    """Add one more node behind an output; the output keeps its name."""
    graph = draft.model.graph
    judged = _JUDGED.format(name)
    _rename(graph, name, judged)
    graph.initializer.append(numpy_helper.from_array(np.asarray(operand, order="C"), f"{judged}_operand"))
    node = helper.make_node(op, [judged, f"{judged}_operand"], [name])
    if op == "Gather":
        node.attribute.append(helper.make_attribute("axis", -1))
    graph.node.append(node)


def _rename(graph: Any, name: str, new: str) -> None:
    """Rename a value in the graph and in its sub-graphs."""
    for node in graph.node:
        for names in (node.input, node.output):
            for place, each in enumerate(names):
                if each == name:
                    names[place] = new
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, name, new)
