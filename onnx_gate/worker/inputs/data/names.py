"""What the data calls its arrays and columns, held against what the manifest calls them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause

Arrays = dict[str, npt.NDArray[Any]]
_NO_TEXT = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")
"""Words that YAML takes for something else."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was read."""

    arrays: Arrays
    """By input or recorded output."""
    names: tuple[str, ...]
    """Of all that the data holds, with what is ignored."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Input → the columns of a table that make it up by position, where the manifest doesn't choose them."""
    word: str = "array"
    """What the data is made of."""


def check_names(spec: ModelSpec, found: Found, recordable: tuple[str, ...]) -> None:
    """Every input is there, and nothing that nobody asked for."""
    arrays, shown = found.arrays, spec.data.shown if spec.data else ""
    wanted = [given.name for given in spec.inputs or ()]
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in (*wanted, *recordable, *spec.ignore_data)]
    if not missing and not unknown:
        return
    got, also = _listed(arrays), f", and for recorded outputs {', '.join(recordable)}" if recordable else ""
    problems = [f"no {found.word} for the input {name!r}" for name in missing]
    problems += [f"{name!r} is neither an input nor a recorded output" for name in unknown]
    fix = f"rename it, or add `ignore_data: {as_yaml(unknown)}`"
    if missing:
        fix = f"{_guess(missing[0], unknown or arrays)}rename the {found.word}s, or the inputs in the manifest"
    elif any(name == "" or name.startswith("Unnamed: ") for name in unknown):
        fix = f"save the table without its index (`index=False`), or add `ignore_data: {as_yaml(unknown)}`"
    raise CannotJudge(
        Cause.LOAD_FAILED, f"{shown}: {'; '.join(problems)}. Got {got}, expected {', '.join(wanted)}{also}", fix=fix
    )


def check_ignored(spec: ModelSpec, found: Found) -> None:
    """What a model says of its own data has to be there; `defaults` speak of several models' data."""
    shown = spec.data.shown if spec.data else ""
    unknown = [name for name in spec.ignore_data if name not in found.names] if "ignore_data" in spec.own else []
    if unknown:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: `ignore_data` names {unknown[0]!r}: no such {found.word} is there. Got {_listed(found.names)}",
            fix=f"{_guess(unknown[0], found.names)}correct it, or remove it from `ignore_data`",
        )


def as_yaml(names: Iterable[str]) -> str:
    """A list to paste into the manifest."""
    return f"[{', '.join(map(_as_yaml, names))}]"


def _as_yaml(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][\w.-]*", name) and name.lower() not in _NO_TEXT:
        return name
    return "'" + name.replace("'", "''") + "'"


def _guess(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {near[0]!r}? Else " if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name or repr(name) for name in names)
