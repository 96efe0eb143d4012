"""Check of the data's array and column names against the names in the manifest."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import suggest

Arrays = dict[str, npt.NDArray[Any]]
_NO_TEXT = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")
"""Words that YAML does not read as text."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The arrays that were read, with their names."""

    arrays: Arrays
    """Arrays by the name of an input or a recorded output."""
    names: tuple[str, ...]
    """All names in the data, including ignored ones."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Input → the table columns that form it by position, if the manifest doesn't choose them."""
    word: str = "array"
    """The word for one item of the data in messages: array or column."""
    part: str = ""
    """The name of this part if there are several, for example `b.npz` or `[3]`."""
    notes: tuple[str, ...] = ()
    """What a reader should know about the names."""


def apply_feed(spec: ModelSpec, found: Found, recordable: tuple[str, ...]) -> Found:
    """The arrays by the names of the inputs that they feed: as `feed` says, or if there is one array and one input."""
    if spec.feed:
        return replace(found, arrays=_fed(spec, found, recordable))
    wanted = [given.name for given in spec.inputs or ()]
    others = [name for name in found.arrays if name not in (*recordable, *spec.ignore_data)]
    if len(wanted) != 1 or len(others) != 1 or others == wanted or _resembles(others[0], recordable, found):
        return found
    arrays = {wanted[0] if name == others[0] else name: array for name, array in found.arrays.items()}
    columns = {wanted[0] if name == others[0] else name: value for name, value in found.columns.items()}
    note = f"the {found.word} {others[0]!r} of the data feeds the only input, {wanted[0]!r}"
    return replace(found, arrays=arrays, columns=columns, notes=(*found.notes, note))


def _resembles(name: str, recordable: tuple[str, ...], found: Found) -> bool:
    """Whether the name may be a misspelt recorded output that is missing."""
    return bool(difflib.get_close_matches(name, [other for other in recordable if other not in found.arrays], n=1))


def _fed(spec: ModelSpec, found: Found, recordable: tuple[str, ...]) -> Arrays:
    check_feed(spec, found)
    taken = {spec.feed.get(given.name, given.name) for given in spec.inputs or ()}
    left = {name: array for name, array in found.arrays.items() if name not in taken}
    if twice := [name for name in left if name in spec.feed and name not in spec.ignore_data]:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.data.shown if spec.data else ''}: `feed` takes {spec.feed[twice[0]]!r} for the input {twice[0]!r}, "
            f"and there is {'an' if found.word == 'array' else 'a'} {found.word} {twice[0]!r} too",
            fix=f"add `ignore_data: {as_yaml(twice)}`, or correct `feed`",
        )
    fed = {given.name: spec.feed.get(given.name, given.name) for given in spec.inputs or ()}
    return {name: array for name, array in left.items() if name not in spec.feed} | {
        name: found.arrays[place] for name, place in fed.items() if place in found.arrays
    }


def check_feed(spec: ModelSpec, found: Found) -> None:
    """Check that the inputs and the arrays that `feed` names exist."""
    shown, inputs = spec.data.shown if spec.data else "", [given.name for given in spec.inputs or ()]
    for name, place in spec.feed.items():
        if name not in inputs:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"feed: the model has no input {name!r}; it has: {', '.join(inputs)}",
                fix=f"{_guess(name, inputs)}correct it, or remove it from `feed`",
            )
        if place not in found.arrays:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{shown}: `feed` names {place!r} for the input {name!r}: no such {found.word} is there. "
                f"Got {_listed(found.arrays)}",
                fix=f"{_guess(place, found.arrays)}correct it, or remove it from `feed`",
            )


def check_names(spec: ModelSpec, found: Found, recordable: tuple[str, ...]) -> None:
    """Check that every input has an array, and that every array is known."""
    arrays, shown = found.arrays, _where(spec, found)
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
        pairs = _likely(missing, unknown) if unknown else {missing[0]: "…"}
        feed = f"`feed: {{{', '.join(f'{_as_yaml(name)}: {_as_yaml(place)}' for name, place in pairs.items())}}}`"
        guess = _guess(missing[0], unknown or arrays)
        fix = f"{guess}rename the {found.word}s, or say which one feeds which input, such as {feed}"
    elif any(name == "" or name.startswith("Unnamed: ") for name in unknown):
        fix = f"save the table without its index (`index=False`), or add `ignore_data: {as_yaml(unknown)}`"
    raise CannotJudge(
        Cause.LOAD_FAILED, f"{shown}: {'; '.join(problems)}. Got {got}, expected {', '.join(wanted)}{also}", fix=fix
    )


def check_ignored(spec: ModelSpec, found: Found) -> None:
    """Check that the names in a model's own `ignore_data` exist; `defaults` may name other models' data."""
    shown = spec.data.shown if spec.data else ""
    unknown = [name for name in spec.ignore_data if name not in found.names] if "ignore_data" in spec.own else []
    if unknown:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: `ignore_data` names {unknown[0]!r}: no such {found.word} is there. Got {_listed(found.names)}",
            fix=f"{_guess(unknown[0], found.names)}correct it, or remove it from `ignore_data`",
        )


def _where(spec: ModelSpec, found: Found) -> str:
    shown = spec.data.shown if spec.data else ""
    return f"{shown}: {found.part}" if found.part else shown


def as_yaml(names: Iterable[str]) -> str:
    """The names as a YAML list, to paste into the manifest."""
    return f"[{', '.join(map(_as_yaml, names))}]"


def _as_yaml(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][\w.-]*", name) and name.lower() not in _NO_TEXT:
        return name
    return "'" + name.replace("'", "''") + "'"


def _likely(missing: list[str], unknown: list[str]) -> dict[str, str]:
    """Each missing input with the array whose name is most like its own; those that are alike come first."""
    found: dict[str, str] = {}
    left = list(unknown)
    rank = {(name, place): difflib.SequenceMatcher(a=name, b=place).ratio() for name in missing for place in unknown}
    # Sorting is stable: among names that are equally unlike, the order decides.
    for name, place in sorted(rank, key=lambda pair: -rank[pair]):
        if name not in found and place in left:
            found[name] = place
            left.remove(place)
    return {name: found[name] for name in missing if name in found}


def _guess(name: str, names: Iterable[str]) -> str:
    near = suggest(name, names)
    return f"{near} Else " if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name or repr(name) for name in names)
