"""Where links of a page lead: the same from run to run, each once, and safe whatever a model is called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from onnx_gate.records.result import Check

_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
_DIGITS = 8


def model_anchors(ids: Iterable[str]) -> list[str]:
    """`model-<id>`; an id that is no word of plain letters, or was there before, gets a digest as well."""
    made: dict[str, None] = {}
    for model_id in ids:
        plain = _OTHERS.sub("-", model_id)[:_LONGEST]
        anchor = f"model-{plain}" if plain == model_id else f"model-{plain}-{_digest(model_id)}"
        made[_unused(anchor, made)] = None
    return list(made)


def check_anchors(model: str, checks: Iterable[Check]) -> list[str]:
    """The anchor of the model, and a digest of what a check is known by."""
    made: dict[str, None] = {}
    for check in checks:
        known_by = "\0".join((check.runtime, check.provider, check.case, check.output))
        made[_unused(f"{model}-{_digest(known_by)}", made)] = None
    return list(made)


def _unused(anchor: str, taken: dict[str, None]) -> str:
    free, number = anchor, 1
    while free in taken:
        number += 1
        free = f"{anchor}-{number}"
    return free


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
