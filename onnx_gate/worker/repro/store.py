"""Files that a script reads: arrays in an .npz, all other values in JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_gate.records.asked import OutputRule
from onnx_gate.records.found import Answer
from onnx_gate.worker.compare.form import in_numpys_own, onnx_name
from onnx_gate.worker.compare.rules import EXACT

_OWN = "fiubc"
"""Kinds of numbers that numpy itself has."""


class CannotStore(Exception):
    """A value has a type that a plain script can't feed to the runtime."""


class Packed:
    """Values for one script."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def put(self, value: Any) -> dict[str, Any]:
        """The description of a value in JSON; its arrays are kept separately."""
        if value is None:
            return {"scalar": None}
        if isinstance(value, dict):
            return {"map": [[_plain(key), self.put(part)] for key, part in value.items()]}
        if isinstance(value, list | tuple):
            return {"list": [self.put(part) for part in value]}
        if isinstance(value, np.ndarray | np.generic):
            return self._put_array(np.asarray(value))
        return {"scalar": _plain(value)}

    def _put_array(self, array: Any) -> dict[str, Any]:
        if array.dtype.kind in "OUS":
            texts = array.ravel().tolist()
            if not all(isinstance(text, str) for text in texts):
                raise CannotStore("an array of objects that are no texts")
            return {"texts": texts, "shape": list(array.shape)}
        if array.dtype.kind not in _OWN:
            raise CannotStore(f"an array of {array.dtype}")
        name = f"a{len(self.arrays)}"
        # The machine's own byte order, which the runtime expects.
        self.arrays[name] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"array": name}

    @property
    def size(self) -> int:
        """The size in bytes before compression."""
        return sum(array.nbytes for array in self.arrays.values())


def describe_rows(
    packed: Packed,
    feed: Mapping[str, Any],
    references: Mapping[str, Answer],
    rules: Mapping[str, OutputRule],
    *,
    lenient: bool,
) -> dict[str, Any]:
    """The inputs that a script feeds, and the rules by which it compares."""
    return {
        "inputs": [{"name": name, "value": packed.put(value)} for name, value in feed.items()],
        "outputs": [
            _output(packed, name, references[name], rule, lenient=lenient)
            for name, rule in rules.items()
            if name in references
        ],
    }


def _output(packed: Packed, name: str, answer: Answer, rule: OutputRule, *, lenient: bool) -> dict[str, Any]:
    tolerance = rule.tolerance or EXACT
    return {
        "name": name,
        "reference": packed.put(_own(answer.value)),
        "dtype": onnx_name(answer.dtype),
        "lenient": lenient,
        "column": answer.column,
        "columns": [_plain(key) for key in answer.columns] if answer.columns is not None else None,
        "rtol": tolerance.rtol,
        "atol": tolerance.atol,
        "limits": dict(rule.limits),
    }


def _own(value: Any) -> Any:
    if isinstance(value, list):
        return [_own(part) for part in value]
    return in_numpys_own(value) if isinstance(value, np.ndarray) else value


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str | int | float | bool) or plain is None:
        return plain
    raise CannotStore(f"a value of type {type(value).__name__}")


def write(folder: Path, name: str, described: dict[str, Any], packed: Packed) -> None:
    """Write both files."""
    np.savez_compressed(folder / f"{name}.npz", **packed.arrays)
    (folder / f"{name}.json").write_text(json.dumps(described), encoding="utf-8")
