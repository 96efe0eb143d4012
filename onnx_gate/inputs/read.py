"""Data files → arrays by name. Nothing here is evaluated: no pickled arrays."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records import Location, ModelSpec
from onnx_gate.sources import call, failed, kind_of, require_content

Arrays = dict[str, npt.NDArray[Any]]


class _Truth(dict[str, bool]):
    def __missing__(self, text: str) -> bool:
        raise ValueError(text)


_TRUTH = _Truth({"0": False, "1": True, "false": False, "true": True, "False": False, "True": True})


def read_arrays(spec: ModelSpec, no_tensors: frozenset[str] = frozenset()) -> Arrays:
    """The arrays of a .npz, .npy or .csv file, or of a data callable, which may give lists, dicts and None too."""
    data = spec.data
    assert data is not None  # noqa: S101
    if data.callable:
        return _from_callable(data, spec.folder, no_tensors)
    path = Path(str(data.file))
    if path.is_dir():
        raise CannotJudge(
            "load-failed",
            f"{data.shown}: the folder holds no input_0.pb, expected an ONNX test_data_set folder",
            fix="name the folder that holds input_*.pb and output_*.pb, or its parent",
        )
    require_content(str(path), data.shown)
    try:
        return _READERS[path.suffix.lower()](path, spec)
    except CannotJudge:
        raise
    except Exception as error:
        fix = "arrays of Python objects are refused: save plain numbers or text" if "pickle" in str(error) else ""
        raise failed("load-failed", data.shown, error, fix=fix) from error


def _from_callable(data: Location, folder: str, no_tensors: frozenset[str]) -> Arrays:
    answered = call(data, folder)
    if not isinstance(answered, dict) or not answered:
        raise CannotJudge(
            "load-failed",
            f"{data.shown}: got {kind_of(answered)}, expected a dict of arrays",
            fix='return {"X": array, …}',
        )
    return {str(name): value if name in no_tensors else np.asarray(value) for name, value in answered.items()}


def _read_npz(path: Path, spec: ModelSpec) -> Arrays:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _read_npy(path: Path, spec: ModelSpec) -> Arrays:
    return {_only_input(spec): np.load(path, allow_pickle=False)}


def _read_csv(path: Path, spec: ModelSpec) -> Arrays:
    with path.open(newline="", encoding="utf-8-sig") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    rows = [row for row in rows if row]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise CannotJudge(
                "load-failed",
                f"{path.name}: line {number} has {len(row)} fields, expected {len(header)} as in the header",
            )
    if header and all(_is_number(name) for name in header):
        raise CannotJudge(
            "load-failed",
            f"{path.name}: the first line holds numbers, expected the names of the columns",
            fix="add them",
        )
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise CannotJudge("load-failed", f"{path.name}: the column {twice!r} is there twice", fix="rename one of them")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    named = [given for given in spec.inputs or () if given.name in columns]
    if named and not spec.columns:
        arrays = {name: _parse(name, column, _dtype_of(name, spec), path) for name, column in columns.items()}
        return {name: _as_column(array, name, spec) for name, array in arrays.items()}
    chosen = list(spec.columns or [name for name in header if name not in spec.ignore_data])
    if unknown := [name for name in chosen if name not in columns]:
        raise CannotJudge(
            "load-failed",
            f"{path.name}: there is no column {', '.join(map(repr, unknown))}; found: {', '.join(header)}",
            fix="correct `columns`",
        )
    only = _only_input(spec)
    parsed = [_parse(name, columns[name], _dtype_of(only, spec), path) for name in chosen]
    is_vector = len(parsed) == 1 and len((spec.inputs or ())[0].shape) == 1
    return {only: parsed[0] if is_vector else np.stack(parsed, axis=1)}


def _parse(name: str, column: list[str], dtype: str | None, path: Path) -> npt.NDArray[Any]:
    if dtype in (None, "string"):
        return np.array(column, dtype=object)
    convert, wanted = _whole_or_float(dtype)
    parsed = []
    for line, text in enumerate(column, start=2):
        try:
            parsed.append(convert(text.strip()))
        except ValueError:
            raise CannotJudge(
                "load-failed",
                f"{path.name}: line {line}: column {name!r} holds {text!r}, expected {wanted}",
                fix="choose the input's columns with `columns: […]`, or leave this one out with `ignore_data`",
            ) from None
    if dtype == "bool":
        return np.array(parsed, dtype=bool)
    return np.array(parsed) if convert is _whole else np.array(parsed, dtype=np.float64)


def _whole_or_float(dtype: str) -> tuple[Callable[[str], Any], str]:
    if dtype == "bool":
        return _TRUTH.__getitem__, "0, 1, true or false"
    return (_whole, "a whole number") if dtype.startswith(("int", "uint")) else (_float, "a number")


def _whole(text: str) -> int:
    """Without the detour over floats, which would change large ids."""
    try:
        return int(text)
    except ValueError:
        if not float(text).is_integer():
            raise
        return int(float(text))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _float(text: str) -> float:
    return float(text) if text else float("nan")


def _dtype_of(name: str, spec: ModelSpec) -> str | None:
    return next((given.dtype for given in spec.inputs or () if given.name == name), None)


def _as_column(array: npt.NDArray[Any], name: str, spec: ModelSpec) -> npt.NDArray[Any]:
    """A column feeds an input of shape [batch] or [batch, 1]."""
    given = next((given for given in spec.inputs or () if given.name == name), None)
    return array.reshape(-1, 1) if given and len(given.shape) == 2 else array


def _only_input(spec: ModelSpec) -> str:
    inputs = spec.inputs or ()
    if len(inputs) != 1:
        names = ", ".join(given.name for given in inputs)
        raise CannotJudge(
            "load-failed",
            f"{spec.data.shown if spec.data else ''}: one array for {len(inputs)} inputs ({names})",
            fix="use a .npz with an array an input, or CSV columns of their names",
        )
    return inputs[0].name


_READERS = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv}
