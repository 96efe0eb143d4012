"""ONNX files of any size: read with their types, walked through, written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

LARGE = 1536 * 1024 * 1024
"""Bytes from which weights go into a file of their own: protobuf ends at 2 GiB."""


def size_of(model: Any) -> int:
    """Bytes of a model in memory, most of which are its weights."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer) + sum(
        4 * len(tensor.float_data) for tensor in model.graph.initializer
    )


def typed(path: Path) -> Any:
    """The model with what shape inference knows; by path, since in memory it ends at 2 GiB.

    What the file itself says of its values goes first: exporters leave shapes there that are no longer true.
    """
    model = onnx.load(path, load_external_data=False)
    for graph in all_graphs(model.graph):
        del graph.value_info[:]
    bare, inferred = (path.with_name(f"{path.stem}-{name}.onnx") for name in ("bare", "inferred"))
    try:
        onnx.save(model, bare)
        onnx.shape_inference.infer_shapes_path(str(bare), str(inferred))
        return onnx.load(inferred)
    finally:
        bare.unlink(missing_ok=True)
        inferred.unlink(missing_ok=True)


def all_graphs(graph: Any) -> Iterator[Any]:
    """The graph, and those within its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.g.node else ()), *attribute.graphs):
                yield from all_graphs(inner)


def save(model: Any, path: Path) -> None:
    """Written whole; large weights beside it."""
    _drop_unused_domains(model)
    if size_of(model) < LARGE:
        onnx.save(model, path)
        return
    # What is there already would be kept, and added to.
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=f"{path.name}.data")


def tidy(path: Path) -> None:
    """Take the imports of domains that nobody uses out of a file: optimisers add all that they know."""
    model = onnx.load(path, load_external_data=False)
    _drop_unused_domains(model)
    onnx.save(model, path)


def _drop_unused_domains(model: Any) -> None:
    bodies = [*all_graphs(model.graph), *model.functions]
    used = {"", *(node.domain for body in bodies for node in body.node)}
    kept = [entry for entry in model.opset_import if entry.domain in used or entry.domain == "ai.onnx"]
    imports = [onnx.helper.make_opsetid(entry.domain, entry.version) for entry in kept]
    del model.opset_import[:]
    model.opset_import.extend(imports)
