"""Learnt values of an estimator: arrays that it, and the estimators inside it, got when they were fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST = 4096
"""The largest number of arrays that are kept: a forest has more than can be compared."""
_DEEPEST = 8


def parameters(source: Any) -> dict[str, Any]:
    """The arrays by the path of attributes, such as `model.coef_`."""
    found: dict[str, Any] = {}
    _visit(found, source, "", set(), 0)
    return found


def settings(source: Any) -> dict[str, float]:
    """The numbers that estimators were made with, such as `model.alpha`."""
    given = source.get_params(deep=True) if hasattr(source, "get_params") else {}
    return {name.replace("__", "."): value for name, value in given.items() if isinstance(value, float)}


def _visit(found: dict[str, Any], value: Any, path: str, seen: set[int], depth: int) -> None:
    if id(value) in seen or depth > _DEEPEST or len(found) >= MOST:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and value.size:
            found[path] = value
        elif value.dtype == object:
            _inside(found, enumerate(value.ravel().tolist()), path, seen, depth)
    elif isinstance(value, dict):
        _inside(found, value.items(), path, seen, depth)
    elif isinstance(value, list | tuple):
        _inside(found, _named(value), path, seen, depth)
    elif hasattr(value, "get_params") and hasattr(value, "__dict__"):
        _inside(found, vars(value).items(), path, seen, depth)


def _inside(found: dict[str, Any], parts: Any, path: str, seen: set[int], depth: int) -> None:
    for name, part in parts:
        inner = path if name in ("", "steps") else f"{path}.{name}" if path else str(name)
        _visit(found, part, inner, seen, depth + 1)


def _named(values: Any) -> list[tuple[Any, Any]]:
    """Entries under their names, as in the steps of a pipeline, else under their position."""
    return [
        (each[0], each[1]) if isinstance(each, tuple) and len(each) > 1 and isinstance(each[0], str) else (number, each)
        for number, each in enumerate(values)
    ]
