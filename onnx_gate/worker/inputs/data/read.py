"""Data files → arrays by name. No code in a data file is run: pickled arrays are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.data.names import Found
from onnx_gate.worker.inputs.data.parts import is_list_of_parts, split_ragged
from onnx_gate.worker.inputs.data.tables import (
    Declared,
    as_input,
    from_frame,
    only_input,
    read_csv,
    read_parquet,
    series_column,
)
from onnx_gate.worker.user_code import call, failed, kind_of, require_content


def read_data(spec: ModelSpec, outputs: Declared, no_tensors: frozenset[str] = frozenset()) -> list[Found]:
    """The arrays of a file, a folder of files, or a data callable; several results if parts may differ in size."""
    data = spec.data
    assert data is not None  # noqa: S101
    if data.callable:
        return _from_callable(data, spec, outputs, no_tensors)
    path = Path(str(data.file))
    if not path.is_dir():
        return [_read_file(path, data.shown, spec, outputs)]
    files = _files_in(path, data)
    return [replace(_read_file(file, f"{data.shown}: {file.name}", spec, outputs), part=file.name) for file in files]


def _files_in(folder: Path, data: Location) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in _READERS)
    if tables := [file.name for file in files if file.suffix.lower() not in _PARTS]:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{data.shown}: {tables[0]} is a table, and a folder is read as .npz and .npy files",
            fix=f"name the table itself, or move it out of the folder: `data: {data.shown}/{tables[0]}`",
        )
    if not files:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{data.shown}: the folder holds no input_0.pb, .npz or .npy, expected an ONNX test_data_set folder, or a "
            "folder of .npz or .npy files",
            fix="name the folder that holds input_*.pb and output_*.pb, its parent, or the one that holds the arrays",
        )
    return files


def _read_file(path: Path, shown: str, spec: ModelSpec, outputs: Declared) -> Found:
    require_content(str(path), shown)
    try:
        return _READERS[path.suffix.lower()](path, spec, outputs)
    except CannotJudge:
        raise
    except Exception as error:
        fix = "arrays of Python objects are refused: save plain numbers or text" if "pickle" in str(error) else ""
        raise failed(Cause.LOAD_FAILED, shown, error, fix=fix) from error


def _from_callable(data: Location, spec: ModelSpec, outputs: Declared, no_tensors: frozenset[str]) -> list[Found]:
    answered = call(data, spec.folder)
    if _is_frame(answered):
        return [from_frame(answered, spec, outputs, data.shown)]
    if isinstance(answered, np.ndarray):
        answered = {only_input(spec).name: answered}
    if is_list_of_parts(answered):
        return _from_parts(_iterated(answered, data), spec, no_tensors, data)
    if not isinstance(answered, dict) or not answered:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{data.shown}: got {kind_of(answered)}, expected a dict of arrays, a list of such dicts, or a pandas "
            "DataFrame",
            fix='return {"X": array, …}',
        )
    if parts := split_ragged(answered, {name: _input_of(spec, answered, name) for name in answered}, data.shown):
        return _from_parts(parts, spec, no_tensors, data)
    return [_from_dict(answered, spec, outputs, no_tensors, data)]


def _from_dict(
    answered: dict[Any, Any], spec: ModelSpec, outputs: Declared, no_tensors: frozenset[str], data: Location
) -> Found:
    arrays = {
        str(name): value
        if _is_no_tensor(spec, answered, name, no_tensors)
        else _from_value(spec, str(name), value, _input_of(spec, answered, name), outputs)
        for name, value in answered.items()
        if str(name) not in spec.ignore_data
    }
    # A DataFrame among the values becomes a matrix: its columns are fed by position.
    frames = {str(name): tuple(map(str, value.columns)) for name, value in answered.items() if _is_frame(value)}
    return Found(arrays=arrays, names=tuple(map(str, answered)), columns=frames)


def _iterated(answered: Any, data: Location) -> list[Any]:
    """All items of a generator as a list; running it runs the user's code, which may fail."""
    try:
        parts = list(answered)
    except MemoryError:
        raise
    except BaseException as error:
        raise failed(Cause.LOAD_FAILED, data.shown, error) from error
    if not parts or not all(isinstance(part, dict | np.ndarray) for part in parts):
        other = next((part for part in parts if not isinstance(part, dict | np.ndarray)), None)
        got = f"{kind_of(other)} among what it gives" if parts else "nothing"
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{data.shown}: got {got}, expected dicts of arrays", fix='yield {"X": array, …}'
        )
    return parts


def _from_parts(parts: list[Any], spec: ModelSpec, no_tensors: frozenset[str], data: Location) -> list[Found]:
    found = []
    for number, part in enumerate(parts):
        values = part if isinstance(part, dict) else {only_input(spec).name: part}
        arrays = {
            str(name): value if _is_no_tensor(spec, values, name, no_tensors) else np.asarray(value)
            for name, value in values.items()
            if str(name) not in spec.ignore_data
        }
        found.append(Found(arrays=arrays, names=tuple(map(str, values)), part=f"[{number}]"))
    return found


def _input_of(spec: ModelSpec, values: Mapping[Any, Any], name: Any) -> InputSpec | None:
    """The input that an array of this name feeds; with one input and one array, the name doesn't matter."""
    inputs = spec.inputs or ()
    others = [other for other in map(str, values) if other not in spec.ignore_data]
    if len(inputs) == 1 and others == [str(name)]:
        return inputs[0]
    return next((given for given in inputs if spec.feed.get(given.name, given.name) == str(name)), None)


def _is_no_tensor(spec: ModelSpec, values: Mapping[Any, Any], name: Any, no_tensors: frozenset[str]) -> bool:
    given = _input_of(spec, values, name)
    return (given.name if given else str(name)) in no_tensors


def _from_value(spec: ModelSpec, name: str, value: Any, given: InputSpec | None, outputs: Declared) -> npt.NDArray[Any]:
    """The array of a value; a Series is read as a column."""
    if type(value).__name__ == "Series" and hasattr(value, "isna"):
        given = given or outputs.get(name)
        column = series_column(value, f"{spec.data.shown if spec.data else ''}: {name!r}")
        return as_input(column.array(given, shows=spec.shows_data), given)
    array = value.to_numpy() if _is_frame(value) else np.asarray(value)
    return as_input(array, given)


def _is_frame(value: Any) -> bool:
    # Checked by type name: pandas is imported only if the user's code has imported it.
    return type(value).__name__ == "DataFrame" and hasattr(value, "iloc")


def _read_npz(path: Path, spec: ModelSpec, outputs: Declared) -> Found:
    with np.load(path, allow_pickle=False) as archive:
        return Found(arrays={name: archive[name] for name in archive.files}, names=tuple(archive.files))


def _read_npy(path: Path, spec: ModelSpec, outputs: Declared) -> Found:
    name = only_input(spec).name
    return Found(arrays={name: np.load(path, allow_pickle=False)}, names=(name,))


_READERS = {".npz": _read_npz, ".npy": _read_npy, ".csv": read_csv, ".parquet": read_parquet}
_PARTS = (".npz", ".npy")
"""The file types that a data folder may contain."""
