"""The anchors of a page: the same in every run, unique, and safe for any model name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from onnx_gate.records.result import Check

_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
_DIGITS = 8


def model_anchors(ids: Iterable[str]) -> list[str]:
    """An anchor `model-<id>` for each id; if the id has other than plain characters, with a digest."""
    made: dict[str, None] = {}
    for model_id in ids:
        plain = _OTHERS.sub("-", model_id)[:_LONGEST]
        anchor = f"model-{plain}" if plain == model_id else f"model-{plain}-{_digest(model_id)}"
        made[_unused(anchor, made)] = None
    return list(made)


def check_anchors(model: str, checks: Iterable[Check]) -> list[str]:
    """An anchor for each check: the anchor of the model, and a digest of what identifies the check."""
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
