"""The user's file with the changes that make its values right, checked in the same way as the file itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnx_gate.records.diagnosis.place import Mended
from onnx_gate.vocabulary import MENDED
from onnx_gate.worker.onnx_files import answers
from onnx_gate.worker.onnx_files.blueprint import Draft
from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.place import words
from onnx_gate.worker.place.bench import MARK, Bench
from onnx_gate.worker.place.exchanges.exchange import Exchange, all_of
from onnx_gate.worker.place.faults import Fault
from onnx_gate.worker.place.mended.judged_again import judge_file
from onnx_gate.worker.trial.prepared import Prepared

MOST_BYTES = 50 * 1024 * 1024
"""Largest size of a mended file."""


def mend(
    prepared: Prepared,
    bench: Bench,
    faults: Sequence[Fault],
    folder: Path,
    read_log: Callable[[], str],
    *,
    more: Sequence[Exchange] = (),
) -> Mended | None:
    """The file with all these faults mended, checked on the same cases and rules; None if it is too large.

    `more` are exchanges that these rows don't need.
    """
    if bench.blueprint.size > MOST_BYTES:
        return None
    draft = bench.draft()
    all_of([*(fault.exchange for fault in faults if fault.exchange), *more], draft)
    path = folder / MENDED
    save(bench, draft, path)
    passes, checks = judge_file(prepared, path, read_log)
    if passes:
        save(bench, draft, Path(prepared.onnx).parent / MENDED)
    return Mended(changes=tuple(words.change(fault) for fault in faults), passes=passes, checks=checks)


def mend_columns(prepared: Prepared, order: Sequence[int], read_log: Callable[[], str]) -> Mended | None:
    """The file with its input columns in the order that it takes; None if it is too large or has several inputs."""
    model = _small_enough(prepared)
    if model is None:
        return None
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in stored]
    if len(inputs) != 1:
        return None
    name, moved = inputs[0], f"{inputs[0]}.in_order"
    for node in model.graph.node:
        node.input[:] = [moved if given == name else given for given in node.input]
    model.graph.initializer.append(numpy_helper.from_array(np.argsort(order).astype("int64"), f"{moved}.columns"))
    gather = onnx.helper.make_node("Gather", [name, f"{moved}.columns"], [moved], moved, axis=1)
    model.graph.node.insert(0, gather)
    return _judged(prepared, model, (f"put the columns of `{name}` into the order of the file",), read_log)


def mend_order(
    prepared: Prepared,
    outputs: Mapping[str, str],
    columns: Mapping[str, answers.Moved],
    labels: Mapping[str, Mapping[Any, Any]],
    read_log: Callable[[], str],
) -> Mended | None:
    """The file with its outputs, or the classes in them, in the right order; None if it is too large."""
    model = _small_enough(prepared)
    if model is None:
        return None
    changes = answers.exchange_outputs(model, outputs) if outputs else []
    changes += [answers.reorder_columns(model, name, found) for name, found in columns.items()]
    changes += [answers.exchange_labels(model, name, swapped) for name, swapped in labels.items()]
    return _judged(prepared, model, tuple(changes), read_log)


def _small_enough(prepared: Prepared) -> Any:
    """The user's file, loaded to be changed; None if it is larger than `MOST_BYTES`."""
    path = Path(prepared.onnx)
    if path.stat().st_size > MOST_BYTES:
        return None
    model = onnx.load(str(path), load_external_data=False)
    size = sum(file.stat().st_size for file in external_files(str(path), model, path.name))
    return onnx.load(str(path)) if path.stat().st_size + size <= MOST_BYTES else None


def _judged(prepared: Prepared, model: Any, changes: tuple[str, ...], read_log: Callable[[], str]) -> Mended:
    """Check a changed file, and keep it if it passes."""
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.add(domain="", version=13)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, str(Path(folder) / MENDED))
        passes, checks = judge_file(prepared, Path(folder) / MENDED, read_log)
    if passes:
        onnx.save(model, str(Path(prepared.onnx).parent / MENDED))
    return Mended(changes=changes, passes=passes, checks=checks)


def save(bench: Bench, draft: Draft, path: Path) -> None:
    """Write a changed graph to a file, without the nodes that onnx-gate added."""
    model = onnx.ModelProto()
    model.CopyFrom(draft.model)
    for tensor in model.graph.initializer:
        array: Any = draft.weights.get(tensor.name)
        if array is None and bench.blueprint.stored(tensor.name):
            array = bench.blueprint.array(tensor.name)
        if array is not None:
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(array, order="C"), tensor.name))
    _without_marks(model.graph)
    onnx.save(model, str(path))


def _without_marks(graph: Any) -> None:
    """Remove the nodes that only pass a value on, and all nodes and tensors that nothing reads any more."""
    passed = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.name.startswith(f"{MARK}same.")
        and not node.name.startswith(f"{MARK}same.{MARK}end.")
        and node.output[0] not in {output.name for output in graph.output}
    }
    for node in graph.node:
        node.input[:] = [_followed(name, passed) for name in node.input]
    kept = [node for node in graph.node if not node.output or node.output[0] not in passed]
    needed = {output.name for output in graph.output}
    used = []
    for node in reversed(kept):
        if needed.intersection(node.output):
            used.append(node)
            needed.update(node.input)
            needed.update(name for inner in _inner(node) for name in _reads(inner))
    copies = []
    for node in reversed(used):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copies.append(copy)
    del graph.node[:]
    graph.node.extend(copies)
    tensors = [tensor for tensor in graph.initializer if tensor.name in needed]
    kept_tensors = []
    for tensor in tensors:
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        kept_tensors.append(copy)
    del graph.initializer[:]
    graph.initializer.extend(kept_tensors)


def _followed(name: str, passed: dict[str, str]) -> str:
    while name in passed:
        name = passed[name]
    return name


def _inner(node: Any) -> list[Any]:
    return [inner for attribute in node.attribute for inner in (attribute.g, *attribute.graphs) if inner.node]


def _reads(graph: Any) -> list[str]:
    found = [name for node in graph.node for name in node.input]
    return [*found, *(name for node in graph.node for inner in _inner(node) for name in _reads(inner))]
