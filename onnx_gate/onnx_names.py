"""Give the outputs of an exported graph the names that they are to have.

An exporter that is told a name which the graph already uses inside writes an invalid model and reports success. So it
is told names that nothing else can have, and these are replaced afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from onnx_gate.errors import CannotJudge


def placeholder(number: int) -> str:
    """A name for the exporter."""
    return f"onnx_gate_output_{number}"


def name_outputs(path: Path, wanted: list[str]) -> None:
    """Replace the placeholders; an inner value that has a wanted name already gets another one."""
    model = onnx.load(str(path), load_external_data=False)
    inputs = {value.name for value in model.graph.input}
    if clashing := [name for name in wanted if name in inputs]:
        raise CannotJudge(
            "conversion-failed",
            f"the name {clashing[0]!r} is that of an input and of an output, which ONNX doesn't allow",
            fix="give the outputs other names with `output_names: […]`",
        )
    renamed = {name: f"{name}_inner" for name in wanted}
    renamed |= {placeholder(number): name for number, name in enumerate(wanted)}
    _rename(model.graph, renamed)
    onnx.save(model, str(path))


def _rename(graph: Any, renamed: dict[str, str]) -> None:
    for value in (*graph.output, *graph.value_info, *graph.initializer):
        value.name = renamed.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, renamed)
