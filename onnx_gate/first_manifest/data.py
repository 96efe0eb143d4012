"""Finds the models that a file of data can feed, by the names and the number of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx_gate.first_manifest.entries import Entry
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.seen import SeenColumn, SeenData, SeenInput

_NUMBERS = ("float", "int", "uint")
_NOT_FED = "{} is left out: float32, which this model takes, can't hold the whole numbers in: {}"


def feed_entries(entries: Iterable[Entry], data: SeenData, shown: str) -> tuple[Entry, ...]:
    """The models, with the data added to those that it fits."""
    return tuple(_fed(entry, data, shown) for entry in entries)


def is_used(entries: Iterable[Entry]) -> bool:
    """Whether any model got the data."""
    return any("data" in entry.keys for entry in entries)


def _fed(entry: Entry, data: SeenData, shown: str) -> Entry:
    keys = _from_table(entry, data) if data.is_table else _from_arrays(entry, data)
    if keys is None:
        return _described_by(entry, data, shown) if data.is_table and entry.is_guess else entry
    if data.is_table and (lost := _lost_columns(entry, data, keys)):
        return replace(entry, notes=(*entry.notes, _NOT_FED.format(shown, ", ".join(lost))))
    typed = _typed(entry, data, keys) if data.is_table else entry
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
    numbers = [column for column in data.columns if column.dtype.startswith(_NUMBERS)]
    # The number of columns alone is a weak sign. If other columns are left out for it, they must at least have no gaps.
    if len(numbers) != width or (len(numbers) < len(names) and any(column.has_gaps for column in numbers)):
        return None
    return _chosen([column.name for column in numbers], names)


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


def _large(data: SeenData) -> set[str]:
    """The columns of whole numbers that float32 can't hold: a run refuses to change them."""
    return {column.name for column in data.columns if column.is_large and column.dtype == "int64"}


def _lost_columns(entry: Entry, data: SeenData, keys: Mapping[str, Any]) -> list[str]:
    """The columns that a model can't be fed with, as its inputs are float32 and have to stay so."""
    narrow = {given.name for given in _inputs_of(entry) if given.dtype == "float32"}
    if _is_by_column(_inputs_of(entry), data):
        fed, may_change = narrow, not entry.file_inputs
    else:
        fed = set(keys.get("columns", _large(data))) if narrow else set()
        may_change = not entry.file_inputs and REGISTRY[entry.seen.framework].takes_float64
    return [] if may_change else sorted(_large(data) & fed)


def _is_by_column(inputs: Sequence[SeenInput], data: SeenData) -> bool:
    """Whether each input is fed with the column of its name."""
    return bool(inputs) and {given.name for given in inputs} <= {column.name for column in data.columns}


def _typed(entry: Entry, data: SeenData, keys: Mapping[str, Any]) -> Entry:
    """The model with the types of its columns: text, and whole numbers that float32 can't hold.

    Truth values stay numbers, 0 and 1: few converters take bools.
    """
    inputs, large = entry.seen.inputs, _large(data)
    if _is_by_column(inputs, data):
        types = {column.name: "string" for column in data.columns if column.dtype == "string"}
        types |= dict.fromkeys(large, "int64")
    else:
        has_large = bool(large & set(keys.get("columns", large)))
        types = {given.name: "float64" for given in inputs if given.dtype == "float32" and has_large}
    typed = tuple(replace(given, dtype=types.get(given.name, given.dtype)) for given in inputs)
    return replace(entry, seen=replace(entry.seen, inputs=typed))


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
    described = replace(entry, seen=replace(entry.seen, inputs=inputs, basis=f"the columns of {shown}"))
    keys = {**entry.keys, "data": shown}
    if _lost_columns(described, data, {}):
        return described
    return replace(_typed(described, data, {}), questions=(question,), is_guess=False, keys=keys)
