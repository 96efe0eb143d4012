"""Data files → arrays by name. Nothing here is evaluated: no pickled arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.data.names import Found
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


def read_arrays(spec: ModelSpec, outputs: Declared, no_tensors: frozenset[str] = frozenset()) -> Found:
    """The arrays of a file, or of a data callable, which may give lists, dicts and None too."""
    data = spec.data
    assert data is not None  # noqa: S101
    if data.callable:
        return _from_callable(data, spec, outputs, no_tensors)
    path = Path(str(data.file))
    if path.is_dir():
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{data.shown}: the folder holds no input_0.pb, expected an ONNX test_data_set folder",
            fix="name the folder that holds input_*.pb and output_*.pb, or its parent",
        )
    require_content(str(path), data.shown)
    try:
        return _READERS[path.suffix.lower()](path, spec, outputs)
    except CannotJudge:
        raise
    except Exception as error:
        fix = "arrays of Python objects are refused: save plain numbers or text" if "pickle" in str(error) else ""
        raise failed(Cause.LOAD_FAILED, data.shown, error, fix=fix) from error


def _from_callable(data: Location, spec: ModelSpec, outputs: Declared, no_tensors: frozenset[str]) -> Found:
    answered = call(data, spec.folder)
    if _is_frame(answered):
        return from_frame(answered, spec, outputs, data.shown)
    if not isinstance(answered, dict) or not answered:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{data.shown}: got {kind_of(answered)}, expected a dict of arrays, or a pandas DataFrame",
            fix='return {"X": array, …}',
        )
    inputs = {given.name: given for given in spec.inputs or ()}
    arrays = {
        str(name): value if name in no_tensors else _from_value(str(name), value, inputs, outputs, data.shown)
        for name, value in answered.items()
        if str(name) not in spec.ignore_data
    }
    # A frame among the values becomes a matrix, by position.
    frames = {str(name): tuple(map(str, value.columns)) for name, value in answered.items() if _is_frame(value)}
    return Found(arrays=arrays, names=tuple(map(str, answered)), columns=frames)


def _from_value(name: str, value: Any, inputs: Declared, outputs: Declared, shown: str) -> npt.NDArray[Any]:
    """An array, or a Series: a column of its own."""
    given = inputs.get(name)
    if type(value).__name__ == "Series" and hasattr(value, "isna"):
        given = given or outputs.get(name)
        return as_input(series_column(value, f"{shown}: {name!r}").array(given), given)
    array = value.to_numpy() if _is_frame(value) else np.asarray(value)
    return as_input(array, given)


def _is_frame(value: Any) -> bool:
    # Asked by name: pandas is imported only where the user's code has done so.
    return type(value).__name__ == "DataFrame" and hasattr(value, "iloc")


def _read_npz(path: Path, spec: ModelSpec, outputs: Declared) -> Found:
    with np.load(path, allow_pickle=False) as archive:
        return Found(arrays={name: archive[name] for name in archive.files}, names=tuple(archive.files))


def _read_npy(path: Path, spec: ModelSpec, outputs: Declared) -> Found:
    name = only_input(spec).name
    return Found(arrays={name: np.load(path, allow_pickle=False)}, names=(name,))


_READERS = {".npz": _read_npz, ".npy": _read_npy, ".csv": read_csv, ".parquet": read_parquet}
