"""Tables: CSV, Parquet and DataFrames → arrays by input name."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.installing import install
from onnx_gate.worker.inputs.data.columns import Column, TextColumn, TypedColumn, from_objects, not_readable
from onnx_gate.worker.inputs.data.names import Found

Array = npt.NDArray[Any]
Columns = dict[str, Column]
Declared = Mapping[str, InputSpec]
"""Outputs that may be recorded, as the .onnx declares them."""


def read_csv(path: Path, spec: ModelSpec, outputs: Declared) -> Found:
    """The arrays of a CSV file with a header."""
    header, rows, lines = _csv_rows(path)
    if header and all(_is_number(name) for name in header):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{path.name}: the first line holds numbers, expected the names of the columns",
            fix="add them",
        )
    _refuse_twins(header, path.name)
    columns: Columns = {
        name: TextColumn(file=path.name, name=name, texts=[row[i] for row in rows], lines=lines)
        for i, name in enumerate(header)
    }
    return replace(arrays_of(columns, spec, outputs, path.name), names=tuple(header))


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The header, the rows that aren't blank, and the line in which each row begins."""
    rows, lines, header, before = [], [], None, 0
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for row in reader:
            begins, before = before + 1, reader.line_num
            if header is None:
                header = row
                continue
            if not row:
                continue
            if len(row) != len(header):
                raise CannotJudge(
                    Cause.LOAD_FAILED,
                    f"{path.name}: line {begins} has {len(row)} fields, expected {len(header)} as in the header",
                    fix="quote fields that hold commas or line breaks, and fill up short lines",
                )
            rows.append(row)
            lines.append(begins)
    return header or [], rows, lines


def read_parquet(path: Path, spec: ModelSpec, outputs: Declared) -> Found:
    """The arrays of a Parquet file, from its columns."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{path.name}: pyarrow is not installed, which .parquet files need",
            fix=install("parquet"),
        ) from error
    table = parquet.read_table(path)
    _refuse_twins(table.column_names, path.name)
    wanted = _wanted(table.column_names, spec)
    columns = {name: _arrow_column(table.column(name), f"{path.name}: column {name!r}") for name in wanted}
    return replace(arrays_of(columns, spec, outputs, path.name), names=tuple(table.column_names))


def _arrow_column(column: Any, where: str) -> Column:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else np.zeros(len(column), bool)
    fillings = [
        (pa.types.is_boolean, False),
        (pa.types.is_integer, 0),
        (pa.types.is_floating, 0.0),
        (pa.types.is_string, ""),
        (pa.types.is_large_string, ""),
    ]
    for matches, nothing in fillings:
        if matches(kind):
            full = column.fill_null(pa.scalar(nothing, kind)) if column.null_count else column
            return TypedColumn(where=where, values=full.to_numpy(zero_copy_only=False), missing=missing)
    raise not_readable(where, str(kind))


def from_frame(frame: Any, spec: ModelSpec, outputs: Declared, shown: str) -> Found:
    """The arrays of a pandas DataFrame, from its columns."""
    names = [str(name) for name in frame.columns]
    _refuse_twins(names, shown)
    wanted = _wanted(names, spec)
    columns = {
        name: series_column(frame.iloc[:, i], f"{shown}: column {name!r}")
        for i, name in enumerate(names)
        if name in wanted
    }
    return replace(arrays_of(columns, spec, outputs, shown), names=tuple(names))


def series_column(series: Any, where: str) -> Column:
    """The column of a pandas Series; a categorical Series becomes the values of its categories."""
    kind = series.dtype.kind if isinstance(series.dtype, np.dtype) else "O"
    if kind in "biuf":
        # NaN is a normal float value, not a missing one.
        return TypedColumn(where=where, values=series.to_numpy(), missing=np.zeros(len(series), dtype=bool))
    if kind in "mM":
        raise not_readable(where, str(series.dtype))
    # With pandas' own dtypes, a missing value would turn integers into floats.
    return from_objects(series.to_numpy(dtype=object), np.asarray(series.isna().to_numpy(), dtype=bool), where)


def arrays_of(columns: Columns, spec: ModelSpec, outputs: Declared, shown: str) -> Found:
    """Columns by input name; if no column is named after an input, or with `columns`, they form the only input."""
    inputs = {given.name: given for given in spec.inputs or ()}
    if not spec.columns and (spec.feed or any(name in inputs for name in columns)):
        fed = {place: inputs[name] for name, place in spec.feed.items() if name in inputs}
        known = {**outputs, **inputs, **fed}
        arrays = {
            name: as_input(column.array(known.get(name), shows=spec.shows_data), known.get(name))
            for name, column in columns.items()
        }
        return Found(arrays=arrays, names=tuple(columns), word="column")
    chosen = list(spec.columns or [name for name in columns if name not in spec.ignore_data])
    if unknown := [name for name in chosen if name not in columns]:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: there is no column {', '.join(map(repr, unknown))}; found: {', '.join(columns)}",
            fix="correct `columns`",
        )
    given = only_input(spec)
    parts = [columns[name].array(given, shows=spec.shows_data) for name in chosen]
    array = parts[0] if len(parts) == 1 and len(given.shape) == 1 else np.stack(parts, axis=1)
    by_position = {} if spec.columns else {given.name: tuple(chosen)}
    return Found(arrays={given.name: array}, names=tuple(columns), columns=by_position, word="column")


def _wanted(names: list[str], spec: ModelSpec) -> list[str]:
    """The columns to read; ignored columns are not read, so they need not be readable."""
    if spec.columns:
        return [name for name in names if name in spec.columns] or names
    return [name for name in names if name not in spec.ignore_data]


def as_input(array: Array, given: InputSpec | None) -> Array:
    """The column in the shape of its input or output: [batch] or [batch, 1]."""
    takes = given is not None and len(given.shape) == 2 and (given.shape[1] == 1 or isinstance(given.shape[1], str))
    return array.reshape(-1, 1) if takes and array.ndim == 1 else array


def only_input(spec: ModelSpec) -> InputSpec:
    """The only input, which gets data that names no input; an error if there are several."""
    inputs = spec.inputs or ()
    if len(inputs) != 1:
        names = ", ".join(given.name for given in inputs)
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.data.shown if spec.data else ''}: one array for {len(inputs)} inputs ({names})",
            fix="use an .npz with one array for each input, or give the columns the names of the inputs",
        )
    return inputs[0]


def _refuse_twins(names: list[str], shown: str) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CannotJudge(Cause.LOAD_FAILED, f"{shown}: the column {twice!r} is there twice", fix="rename one of them")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
