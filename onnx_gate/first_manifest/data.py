"""Finds the models that a file of data can feed, by the names and the number of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from onnx_gate.first_manifest.entries import Entry
from onnx_gate.records.seen import SeenColumn, SeenData, SeenInput

_NUMBERS = ("float", "int", "uint")


def feed_entries(entries: Iterable[Entry], data: SeenData, shown: str) -> tuple[Entry, ...]:
    """The models, with the data added to those that it fits."""
    return tuple(_fed(entry, data, shown) for entry in entries)


def is_used(entries: Iterable[Entry]) -> bool:
    """Whether any model got the data."""
    return any("data" in entry.keys for entry in entries)


def _fed(entry: Entry, data: SeenData, shown: str) -> Entry:
    keys = _from_table(entry, data) if data.is_table else _from_arrays(entry, data)
    if keys is None:
        return _described_by(entry, data, shown) if data.is_table and entry.questions and not entry.onnx else entry
    typed = _typed(entry, data) if data.is_table else entry
    recorded = not data.is_table and bool(_answers(entry) & {array.name for array in data.columns})
    return replace(typed, keys={**typed.keys, "data": shown, **keys}, recorded=recorded)


def _inputs_of(entry: Entry) -> tuple[SeenInput, ...]:
    return entry.file_inputs or entry.seen.inputs


def _from_table(entry: Entry, data: SeenData) -> dict[str, Any] | None:
    """The keys with which the columns of a table feed a model; None if they don't fit."""
    names, inputs = [column.name for column in data.columns], _inputs_of(entry)
    wanted = [given.name for given in inputs]
    if len(inputs) > 1 or (len(inputs) == 1 and wanted[0] in names):
        missing = set(wanted) - set(names)
        return None if missing else _without(names, wanted)
    width = inputs[0].shape[1] if len(inputs) == 1 and len(inputs[0].shape) == 2 else None
    known = list(entry.seen.columns)
    if known and len(known) == width:
        return _chosen(known, names) if set(known) <= set(names) else None
    numbers = [column.name for column in data.columns if column.dtype.startswith(_NUMBERS)]
    return _chosen(numbers, names) if len(numbers) == width else None


def _without(names: list[str], wanted: list[str]) -> dict[str, Any]:
    left = [name for name in names if name not in wanted]
    return {"ignore_data": left} if left else {}


def _chosen(wanted: list[str], names: list[str]) -> dict[str, Any]:
    return {"columns": wanted} if wanted != names else {}


def _from_arrays(entry: Entry, data: SeenData) -> dict[str, Any] | None:
    """The keys with which arrays feed a model: by name, or one array for one input; None if they don't fit."""
    arrays = {array.name: array for array in data.columns}
    inputs = _inputs_of(entry)
    if len(arrays) == 1 and len(inputs) == 1 and "" in arrays:
        return {} if _agrees(inputs[0], arrays[""]) else None
    if not inputs or not all(given.name in arrays and _agrees(given, arrays[given.name]) for given in inputs):
        return None
    return _without(list(arrays), [*(given.name for given in inputs), *_answers(entry)])


def _answers(entry: Entry) -> set[str]:
    """The outputs of an .onnx file that is a source: arrays of these names are recorded answers."""
    return set(entry.seen.outputs) if entry.seen.shipped else set()


def _agrees(given: SeenInput, array: SeenColumn) -> bool:
    if len(given.shape) != len(array.shape):
        return False
    return all(isinstance(size, str) or size == got for size, got in zip(given.shape[1:], array.shape[1:], strict=True))


def _typed(entry: Entry, data: SeenData) -> Entry:
    """The model with text inputs for text columns, whatever the model's file says about them.

    Truth values stay numbers, 0 and 1: few converters take bools.
    """
    texts = {column.name for column in data.columns if column.dtype == "string"}
    if len(entry.seen.inputs) < 2:
        return entry
    inputs = tuple(replace(given, dtype="string") if given.name in texts else given for given in entry.seen.inputs)
    return replace(entry, seen=replace(entry.seen, inputs=inputs))


def _described_by(entry: Entry, data: SeenData, shown: str) -> Entry:
    """A model without known inputs gets all columns of the table as its inputs."""
    numbers = all(column.dtype.startswith(_NUMBERS) for column in data.columns)
    inputs = (
        (SeenInput(name="X", dtype="float32", shape=("batch", len(data.columns))),)
        if numbers
        else tuple(
            SeenInput(
                name=column.name,
                dtype="string" if column.dtype == "string" else "float32",
                shape=("batch", 1),
            )
            for column in data.columns
        )
    )
    question = "are these all columns that it takes, in this order? Leave out the answers, such as a column of labels"
    seen = replace(entry.seen, inputs=inputs, basis=f"the columns of {shown}")
    return replace(entry, seen=seen, questions=(question,), keys={**entry.keys, "data": shown})
