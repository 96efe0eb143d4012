"""Files as people ship them: exported elsewhere, with names of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx


def strip_names(model: Any) -> Any:
    """Nothing in the file says where it comes from: no names, no metadata."""
    graph = model.graph
    ends = {value.name for value in (*graph.input, *graph.output)}
    renamed: dict[str, str] = {}
    for number, tensor in enumerate(graph.initializer):
        renamed[tensor.name] = tensor.name = f"w{number}"
    for number, node in enumerate(graph.node):
        node.name = f"n{number}"
        del node.metadata_props[:]
        renamed |= {name: f"t{number}.{at}" for at, name in enumerate(node.output) if name and name not in ends}
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    del graph.value_info[:]
    return model


def ship(model: Any, path: Path) -> None:
    """Write it without names."""
    onnx.save(strip_names(model), str(path))
