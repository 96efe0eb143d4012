"""Puts tolerances into the text of a manifest: only the bytes of what changes are replaced.

A round-trip parser says where each key and value is. Its own writer would keep comments and order, but not every
space. So this module inserts the new text itself, and the result is parsed again before it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnx_gate.records.asked import Tolerance

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_NO_TEXT = frozenset(("true", "false", "null"))
_ALIAS = re.compile(r"\s*:\s*(\*[^\s,\]}]+)")
_EMPTY = re.compile(r"[^\S\n]*:")


class CanNotEdit(Exception):
    """Why onnx-gate can't change the text."""


@dataclass(frozen=True)
class Splice:
    """New text that replaces a part of the old text."""

    start: int
    end: int
    text: str


def edit_models(text: str, wanted: Mapping[int, Mapping[str, Any]], inherited: Mapping[int, Mapping[str, Any]]) -> str:
    """The text with the wanted values of each model, by its place in the list.

    `inherited` holds the values that a model gets from elsewhere, for keys that it doesn't write itself. If such a key
    is added to the model, the rest of its value is added too.
    """
    from ruamel.yaml import YAML

    root = YAML().compose(text)
    models = _entries(root)["models"][1].value
    editor = _Editor(text)
    splices = [
        splice
        for number, part in wanted.items()
        for splice in editor.set_in(
            models[number], _completed(models[number], part, inherited[number]), inherited[number]
        )
    ]
    for splice in sorted(splices, key=lambda each: each.start, reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    return text


def _completed(model: Any, wanted: Mapping[str, Any], inherited: Mapping[str, Any]) -> dict[str, Any]:
    own = _entries(model)
    return {key: part if key in own else merged(inherited.get(key), part) for key, part in wanted.items()}


def merged(before: Any, wanted: Any) -> Any:
    """The data with the wanted values put into it; a list of names counts as a mapping without values."""
    if isinstance(wanted, Tolerance):
        limits = before if isinstance(before, Mapping) else {}
        return {**limits, "rtol": wanted.rtol, "atol": wanted.atol}
    known = dict.fromkeys(before) if isinstance(before, list) else dict(before or {})
    return {**known, **{key: merged(known.get(key), part) for key, part in wanted.items()}}


def _entries(node: Any) -> dict[str, tuple[Any, Any]]:
    return {str(key.value): (key, value) for key, value in node.value if not isinstance(key.value, list)}


class _Editor:
    """Finds the splices that put values into mappings of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = "\r\n" if "\r\n" in text else "\n"

    def set_in(self, node: Any, wanted: Mapping[str, Any], data: Any) -> Iterator[Splice]:
        """Give existing keys new values in place, and add new keys at the end; `data` is what the mapping holds now."""
        own = _entries(node)
        for key, part in wanted.items():
            if key in own:
                yield from self._set(*own[key], part, data.get(key))
        missing = {key: part for key, part in wanted.items() if key not in own}
        if missing:
            yield self._added(node, missing)

    def _set(self, key: Any, value: Any, part: Any, data: Any) -> Iterator[Splice]:
        if alias := _ALIAS.match(self._text, key.end_mark.index):
            yield Splice(alias.start(1), alias.end(1), _flow(_beside(alias[1], part, data)))
        elif not _is_mapping(part):
            yield Splice(value.start_mark.index, value.end_mark.index, _flow(part))
        elif _kind(value) == "MappingNode":
            yield from self.set_in(value, _with_numbers(part), data)
        elif _kind(value) == "SequenceNode":
            names = [item.value for item in value.value]
            yield Splice(value.start_mark.index, self._end(value), _flow(merged(names, part)))
        elif value.start_mark.index == value.end_mark.index and (colon := _EMPTY.match(self._text, key.end_mark.index)):
            yield Splice(colon.end(), colon.end(), f" {_flow(merged(None, part))}")
        else:
            raise CanNotEdit(f"{key.value!r} on line {key.start_mark.line + 1} is {value.value!r}, expected a mapping")

    def _added(self, node: Any, missing: Mapping[str, Any]) -> Splice:
        if node.flow_style:
            before = self._text[: node.end_mark.index - 1].rstrip()
            comma = "" if before.endswith(("{", ",")) else ","
            space = "" if before.endswith("{") else " "
            return Splice(len(before), len(before), f"{comma}{space}{_flow(missing)[1:-1]}")
        indent = node.value[0][0].start_mark.column
        lines = [line for key, part in missing.items() for line in block_lines(key, part, indent)]
        end = self._end_of_line(self._end(node))
        return Splice(end, end, "".join(f"{self._line}{line}" for line in lines))

    def _end(self, node: Any) -> int:
        """The index after the last character of a node; a block's end mark is only where the next thing begins."""
        if not isinstance(node.value, list) or node.flow_style or not node.value:
            end = int(node.end_mark.index)
            return end - 1 if self._text[end - 1 : end] == "\n" else end
        last = node.value[-1]
        if not isinstance(last, tuple):
            return self._end(last)
        key, value = last
        alias = _ALIAS.match(self._text, key.end_mark.index)
        return alias.end() if alias else max(int(key.end_mark.index), self._end(value))

    def _end_of_line(self, index: int) -> int:
        end = self._text.find("\n", index)
        end = len(self._text) if end < 0 else end
        return end - 1 if self._text[end - 1 : end] == "\r" else end


class _Verbatim(str):
    """Text that is already YAML."""


def _beside(alias: str, part: Any, data: Any) -> Any:
    """The value of an alias, with other values for some of its keys."""
    if not _is_mapping(part):
        return part
    if not isinstance(data, Mapping):
        return merged(data, part)
    whole = merged(data, part)
    return {"<<": _Verbatim(alias), **{key: whole[key] for key in _with_numbers(part)}}


def _kind(node: Any) -> str:
    return type(node).__name__


def _is_mapping(part: Any) -> bool:
    return isinstance(part, Mapping | Tolerance)


def _with_numbers(part: Any) -> Mapping[str, Any]:
    return {"rtol": part.rtol, "atol": part.atol} if isinstance(part, Tolerance) else part


def block_lines(key: str, part: Any, indent: int) -> list[str]:
    """The lines of a key with its value: a mapping of mappings has one line per key, with the inner mapping on it."""
    space, name = " " * indent, _flow_key(key)
    nested = isinstance(part, Mapping) and any(_is_mapping(each) for each in part.values())
    if not nested:
        return [f"{space}{name}: {_flow(part)}"]
    return [f"{space}{name}:", *(line for inner, each in part.items() for line in block_lines(inner, each, indent + 2))]


def _flow(part: Any) -> str:
    if isinstance(part, _Verbatim):
        return str(part)
    if _is_mapping(part):
        return "{" + ", ".join(f"{_flow_key(key)}: {_flow(each)}" for key, each in _with_numbers(part).items()) + "}"
    if isinstance(part, list):
        return "[" + ", ".join(map(_flow, part)) + "]"
    if isinstance(part, float):
        return written(part)
    if isinstance(part, str) and _PLAIN.fullmatch(part) and part.lower() not in _NO_TEXT:
        return part
    return "{}" if part is None else json.dumps(part, ensure_ascii=False)


def _flow_key(key: str) -> str:
    return "<<" if key == "<<" else _flow(key)


def written(value: float) -> str:
    """A number as people write it, such as `2e-6`; a number with more digits keeps them."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    short = f"{mantissa}e{int(exponent)}"
    return short if float(short) == value and abs(int(exponent)) > 2 else repr(value)
