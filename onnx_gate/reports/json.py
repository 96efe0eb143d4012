"""results.json: all of a GateResult, so that every report can be rendered again from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from onnx_gate import __version__
from onnx_gate.errors import UsageError
from onnx_gate.records.result import GateResult
from onnx_gate.wording.text import LONGEST_NAME, printable, shorten

SCHEMA = 2
"""The schema of the results.json that this version writes and reads."""
_LARGEST = 2**64
_MOST_SECONDS = 1e9


def render(result: GateResult) -> str:
    """The result as JSON text."""
    return b"".join(render_pieces(result)).decode()


def render_pieces(result: GateResult) -> list[bytes]:
    """The report as bytes: as a string, or joined, a large result would take up to four times the memory."""
    try:
        return [adapter().dump_json(result, indent=2), b"\n"]
    except PydanticSerializationError:
        return [adapter().dump_json(_writable(result), indent=2), b"\n"]


def _writable(value: Any) -> Any:
    """The value with lone surrogates spelled out: a path whose bytes are not UTF-8 has them, JSON can't hold them."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _writable(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, Mapping):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_writable, value))
    if type(value) is str:
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def parse(text: str | bytes) -> GateResult:
    """A result from JSON text; raises ValueError for anything else.

    What this version doesn't know is ignored: fields that a newer version added, and reserved ones that it fills.
    """
    try:
        return adapter().validate_json(text, extra="ignore")
    except ValidationError as error:
        filled = [tuple(each["loc"]) for each in error.errors() if each["type"] == "none_required"]
        if len(filled) < error.error_count():
            raise
        return adapter().validate_json(json.dumps(_without(json.loads(text), filled)), extra="ignore")


def _without(document: Any, places: list[tuple[int | str, ...]]) -> Any:
    for *way, last in places:
        part = document
        for step in way:
            part = part[step]
        part[last] = None
    return document


def parse_strictly(data: bytes) -> GateResult:
    """A result from JSON that `render` could have written; raises ValueError for anything else.

    It has no key twice, no text instead of a number, and no number that a report can't show.
    """
    result = adapter().validate_json(data)
    given = json.loads(data, object_pairs_hook=_once, parse_constant=_refuse)
    # Compared as text, because 1, 1.0 and True are equal in Python.
    if json.dumps(given) != json.dumps(json.loads(render(result))):
        raise ValueError("values are not of the kinds that they are written in")
    _require_sane(given)
    return result


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _require_sane(value: Any, key: str = "") -> None:
    """Refuse negative counts, impossible times, and integers that no array could hold."""
    if isinstance(value, dict):
        for name, item in value.items():
            _require_sane(item, name)
    elif isinstance(value, list):
        for item in value:
            _require_sane(item)
    elif key == "seconds" and not (isinstance(value, int | float) and 0 <= value < _MOST_SECONDS):
        raise ValueError(f"{key} is {str(value)[:20]}")
    elif isinstance(value, int) and (abs(value) > _LARGEST or (value < 0 and key not in ("", "reference", "actual"))):
        raise ValueError(f"{key or 'a number'} is out of range")


def read(path: Path) -> GateResult:
    """A result from a file or from the output folder that holds it."""
    path = path / "results.json" if path.is_dir() else path
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: it can't be read ({error.strerror}). Fix: name a results.json") from error
    return understand(data, str(path))


def understand(data: bytes, shown: str) -> GateResult:
    """A result from the bytes of a file, which messages call `shown`."""
    try:
        return parse(data)
    except ValidationError as error:
        if (version := _schema_of(data)) != SCHEMA:
            raise UsageError(
                f"{shown}: it has schema {version}, and onnx-gate {__version__} reads schema {SCHEMA}. "
                "Fix: run the gate again, or show it with the onnx-gate that wrote it"
            ) from error
        first = error.errors()[0]
        place = shorten(printable(".".join(map(str, first["loc"]))), LONGEST_NAME) or "the file"
        raise UsageError(
            f"{shown}: not a results.json of this version of onnx-gate ({place}: {first['msg']}). "
            "Fix: run the gate again"
        ) from error


def _schema_of(data: bytes) -> object:
    """The schema that a file names; SCHEMA if it names none or is not JSON, because other faults matter more then."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return SCHEMA
    version = document.get("schema") if isinstance(document, dict) else None
    return version if isinstance(version, int) else SCHEMA


@cache
def adapter() -> TypeAdapter[GateResult]:
    """The converter between records and JSON."""
    return TypeAdapter(GateResult)
