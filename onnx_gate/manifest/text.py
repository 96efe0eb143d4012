"""A manifest file → its text, or why there is none."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_gate.errors import ManifestError, Problem

MAX_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int


def read_text(path: Path, shown: str) -> str:
    """The text of a file that may be anything."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise refuse_file(
            shown, "there is no such file", "give the manifest's path, or write a first one with `onnx-gate init`"
        ) from None
    except IsADirectoryError:
        raise refuse_file(shown, "it is a folder, expected a YAML file", f"use {shown}/onnx-gate.yml") from None
    except OSError as error:
        raise refuse_file(shown, f"it can't be read ({error.strerror})", "check its permissions") from error
    if len(raw) > MAX_BYTES:
        raise refuse_file(shown, "it is larger than 1 MiB, the limit for a manifest", "is this the right file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse_file(
            shown,
            f"it is not UTF-8 text (byte 0x{raw[error.start]:02x} at offset {error.start})",
            "is this the right file? A manifest is a YAML text file",
        ) from None
    if not text.strip():
        raise refuse_file(shown, "it is empty, expected `version: 1` and a list of `models`")
    return text


def digest(text: str) -> str:
    """What tells one manifest from another."""
    return hashlib.sha256(text.encode()).hexdigest()


def refuse_file(shown: str, message: str, fix: str = "", mark: Mark | None = None) -> ManifestError:
    """An error about the file as a whole, or about one place in it."""
    mark = mark or Mark(1, 1)
    return ManifestError([Problem(file=shown, line=mark.line, column=mark.column, path="", message=message, fix=fix)])


_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)(\.inf|\.Inf|\.INF)")
_NAN = re.compile(r"\.nan|\.NaN|\.NAN")


def resolve_scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema."""
    if _NULL.fullmatch(text):
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text) and len(text) <= 40:
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _INFINITE.fullmatch(text):
        return float(f"{match[1]}inf")
    return float("nan") if _NAN.fullmatch(text) else text
