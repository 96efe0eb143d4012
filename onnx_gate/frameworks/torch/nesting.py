"""Dotted names → nested values: `state.0` and `state.1` become a tuple, `batch.image` a dict or the type of a hint."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from typing import Any

import torch

Entries = list[tuple[tuple[str, ...], Any]]


def group(given: dict[str, Any]) -> dict[str, Entries]:
    """The entries by the first part of their names; names that form no structure (`input.1` alone) stay whole."""
    grouped: dict[str, Entries] = {}
    for name, value in given.items():
        head, *rest = name.split(".")
        grouped.setdefault(head, []).append((tuple(rest), value))
    result: dict[str, Entries] = {}
    for head, entries in grouped.items():
        if _has_form([path for path, _ in entries]):
            result[head] = entries
        else:
            result |= {".".join((head, *path)): [((), value)] for path, value in entries}
    return result


def _has_form(paths: list[tuple[str, ...]]) -> bool:
    """Whether the names form one value: a single name, numbers from 0, or only keys."""
    if () in paths:
        return len(paths) == 1
    steps = list(dict.fromkeys(path[0] for path in paths))
    numbered = [step.isdigit() for step in steps]
    if any(numbered) and sorted(steps, key=lambda step: (len(step), step)) != [str(n) for n in range(len(steps))]:
        return False
    return all(_has_form([path[1:] for path in paths if path[0] == step]) for step in steps)


def nest(entries: Entries, hint: Any = None) -> Any:
    """The value that the entries form: an object of the hint's type, else tuples and dicts."""
    if len(entries) == 1 and not entries[0][0]:
        return entries[0][1]
    hint = _without_none(hint)
    steps = list(dict.fromkeys(path[0] for path, _ in entries))
    if steps[0].isdigit():
        steps.sort(key=int)
    parts = {
        step: nest([(path[1:], value) for path, value in entries if path[0] == step], _hint_of_part(hint, step))
        for step in steps
    }
    if steps[0].isdigit():
        return _sequence(list(parts.values()), hint)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return hint(**parts)
    return parts


def _sequence(parts: list[Any], hint: Any) -> Any:
    if typing.get_origin(hint) is list or hint is list:
        return parts
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return hint(*parts)
    if inspect.isclass(hint) and hint.__module__ == "transformers.cache_utils":
        from transformers import DynamicCache  # type: ignore[import-not-found, unused-ignore]

        return DynamicCache(parts)
    return tuple(parts)


def _without_none(hint: Any) -> Any:
    """`X` for `Optional[X]`; None for a union of several types."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else None


def _hint_of_part(hint: Any, step: str) -> Any:
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return arguments[0]
        return arguments[int(step)] if step.isdigit() and int(step) < len(arguments) else None
    if origin is list and arguments:
        return arguments[0]
    if origin is dict and len(arguments) == 2:
        return arguments[1]
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        hints = _resolve(hint)
        return list(hints.values())[int(step)] if step.isdigit() and int(step) < len(hints) else hints.get(step)
    return None


def hints_of(module: torch.nn.Module) -> dict[str, Any]:
    """forward()'s parameters with their type hints, in order; None for those without a hint."""
    resolved = _resolve(module.forward)
    return {name: resolved.get(name) for name in inspect.signature(module.forward).parameters}


def _resolve(hinted: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(hinted)
    except Exception:
        # A hint may name a type that only a type checker imports.
        return {}


def script_hints(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """The parameters and hints of TorchScript's forward(), whose schema begins with the module itself."""
    forward: Any = module.forward
    return {argument.name: _script_hint(argument.type) for argument in forward.schema.arguments[1:]}


def _script_hint(kind: Any) -> Any:
    name = kind.kind()
    if name == "OptionalType":
        return _script_hint(kind.getElementType())
    if name == "ListType":
        return list[_script_hint(kind.getElementType())]  # type: ignore[misc]
    if name == "DictType":
        return dict[str, _script_hint(kind.getValueType())]  # type: ignore[misc]
    if name == "TupleType":
        return tuple[tuple(_script_hint(part) for part in kind.elements())]  # type: ignore[misc]
    return None
