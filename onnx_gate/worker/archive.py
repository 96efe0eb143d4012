"""Values ↔ JSON beside a .npz: arrays of any type, text, sequences, maps and what isn't there. Nothing is pickled."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes
import numpy as np

from onnx_gate.errors import CannotJudge
from onnx_gate.vocabulary import Cause

_SCALARS = (bool, int, float, str)


class Room:
    """The bytes that several archives may hold together."""

    def __init__(self, most: float = math.inf) -> None:
        self.left = most
        """Negative if there was too much: then not everything was written."""


class ArchiveWriter:
    """Use as a context manager; `put` says how to get a value back."""

    def __init__(self, path: Path, room: Room) -> None:
        self._zip = zipfile.ZipFile(path, "w")
        self._count = 0
        self._room = room

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._zip.close()

    def put(self, value: Any) -> dict[str, Any]:
        """Store a value."""
        if value is None:
            return {"none": True}
        if isinstance(value, np.ndarray | np.generic):
            return self._put_array(np.asarray(value))
        if isinstance(value, list | tuple):
            return {"list": [self.put(part) for part in value]}
        if isinstance(value, dict):
            return {"map": [[_scalar(key), self.put(part)] for key, part in value.items()]}
        return {"scalar": _scalar(value)}

    def _put_array(self, array: Any) -> dict[str, Any]:
        if array.dtype == object:
            self._room.left -= sum(len(part) if isinstance(part, str) else 1 for part in array.ravel().tolist())
            return {"strings": [_text(part) for part in array.ravel().tolist()], "shape": list(array.shape)}
        own = array.dtype.kind in "fiubcUSmM"
        name = f"a{self._count}"
        self._count += 1
        self._room.left -= array.nbytes
        if self._room.left < 0:
            return {"none": True}
        with self._zip.open(f"{name}.npy", "w", force_zip64=True) as file:
            stored = array if own else array.view(f"u{array.dtype.itemsize}")
            np.lib.format.write_array(file, stored, allow_pickle=False)
        return {"array": name} if own else {"array": name, "dtype": _foreign(array.dtype.name)}


class ArchiveReader:
    """Gets values back; use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._npz = np.load(path, allow_pickle=False)

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._npz.close()

    def get(self, stored: dict[str, Any]) -> Any:
        """The value that `put` described so."""
        if "array" in stored:
            array = self._npz[stored["array"]]
            return array.view(getattr(ml_dtypes, _foreign(stored["dtype"]))) if "dtype" in stored else array
        if "strings" in stored:
            array = np.empty(len(stored["strings"]), object)
            array[:] = [_text(part) for part in stored["strings"]]
            return array.reshape(stored["shape"])
        if "list" in stored:
            return [self.get(part) for part in stored["list"]]
        if "map" in stored:
            return {_scalar(key): self.get(part) for key, part in stored["map"]}
        return None if "none" in stored else _scalar(stored["scalar"])


def _foreign(name: str) -> str:
    """A type that numpy hasn't got, by the name that ml_dtypes has for it."""
    try:
        if np.dtype(getattr(ml_dtypes, name)).name == name:
            return name
    except (AttributeError, TypeError):
        pass
    raise _cannot(f"an array of {name}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _cannot(f"{type(value).__name__} in an array of text")
    return str(value)


def _scalar(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, _SCALARS):
        raise _cannot(f"a value of type {type(value).__name__}")
    return plain


def _cannot(what: str) -> CannotJudge:
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{what} can't be kept in a reference",
        fix="ignore the output that has it, or judge this model where its source runs",
    )
