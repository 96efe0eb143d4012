"""Plain scalars as YAML 1.2 reads them: `1e-5` is a number, `no` is a word."""

from __future__ import annotations

import re
from typing import Any

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
