"""Pastes what a message offers into the manifest that caused the message, as its reader would."""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tests.contract.pasted import _SNIPPET, _YAML, ELSEWHERE

Trail = tuple[str | int, ...]
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_MEANT = re.compile(r"did you mean '([^']+)'")


def offered(text: str) -> list[str]:
    """What a text offers for a manifest: YAML with a value, whole and without dots for the reader to fill in."""
    found = [part for part in _SNIPPET.findall(text) if _YAML.fullmatch(part) and "…" not in part]
    return [part for part in found if _is_whole(part)]


def _is_whole(part: str) -> bool:
    try:
        held = parsed(part)
    except YAMLError:
        return False
    known = any(held in lines for lines in ELSEWHERE.values())
    return isinstance(held, dict) and not known and all(value is not None for value in held.values())


def parsed(text: str) -> Any:
    """YAML 1.2 as plain data."""
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


def written(manifest: Any) -> str:
    """A manifest as text; JSON is YAML."""
    return json.dumps(manifest)


def trail_of(path: str) -> Trail:
    """`models[0].inputs.x` as steps."""
    return tuple(int(number) if number else name for number, name in _STEP.findall(path))


def pastes(manifest: Any, at: Trail, snippet: str) -> Iterator[Any]:
    """The manifest with the snippet, once for each place on the way to `at`, the nearest first."""
    line = parsed(snippet)
    for depth in range(len(at), -1, -1):
        made = copy.deepcopy(manifest)
        held = _at(made, at[:depth])
        if isinstance(held, dict):
            _merge(held, line)
            yield made
        if depth == len(at) and at:
            # A value that stands for the whole value there.
            made = copy.deepcopy(manifest)
            _at(made, at[:-1])[at[-1]] = line
            yield made


def sections(manifest: Any, top: Trail) -> Iterator[Trail]:
    """The mapping at a place, and all mappings in it, those of the first levels first."""
    left = [top]
    while left:
        place = left.pop(0)
        if isinstance(held := _at(manifest, place), dict):
            yield place
            left += [(*place, key) for key in held]


def renamed(manifest: Any, at: Trail, *, fix: str, is_key: bool) -> Any | None:
    """The manifest with the key or the value that was probably meant; None if the fix names none."""
    found = _MEANT.search(fix)
    if not found or not at:
        return None
    made = copy.deepcopy(manifest)
    holder = _at(made, at[:-1])
    if is_key:
        holder[found[1]] = holder.pop(at[-1])
    else:
        holder[at[-1]] = found[1]
    return made


def _at(data: Any, trail: Sequence[str | int]) -> Any:
    for step in trail:
        listed = isinstance(data, list) and isinstance(step, int)
        data = data[step] if listed else data.get(step) if isinstance(data, dict) else None
    return data


def _merge(held: dict[str, Any], line: dict[str, Any]) -> None:
    """Write keys; a mapping that is there already gets further keys, down to the last one."""
    for key, value in line.items():
        if isinstance(value, dict) and isinstance(held.get(key), dict):
            _merge(held[key], value)
        else:
            held[key] = value


def first_that(made: Iterator[Any], works: Callable[[Any], bool]) -> Any | None:
    """The first of several manifests that works; None if none does."""
    return next((each for each in made if works(each)), None)
