"""Checks whether the place that a report names is the place of the fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_NODES = 3
"""Most nodes of an interval, in a file of the gate's own export."""
WRAPPERS = re.compile(r"^(?:_?wrapped|module|model)\.")
"""Names of wrappers that exporters put around the user's module."""
AGAIN = re.compile(r"_\d+(?=/|$)")
"""What TensorFlow adds to the scope of a layer that it traces once more. A SavedModel has no other name for a layer."""


def is_right(place: Mapping[str, Any] | None, module: str, *, converted: bool) -> bool:
    """Whether any of the named faults is within the wrong module, and small enough."""
    return any(_holds(fault, module, converted=converted) for fault in (place or {}).get("faults", ()))


def _holds(fault: Mapping[str, Any], module: str, *, converted: bool) -> bool:
    named = str(fault.get("module") or "")
    few = len(nodes) <= MOST_NODES if (nodes := fault.get("nodes", ())) else _is_between(fault)
    # The name is also tried unchanged, because a step may be called `model`.
    return any(_within(name, module) for name in (named, WRAPPERS.sub("", named))) and (few or not converted)


def _is_between(fault: Mapping[str, Any]) -> bool:
    """Whether the fault is a gap: a part that was left out has no node, only a value before it and one after it."""
    return bool(fault.get("reads") and fault.get("value"))


def _within(named: str, module: str) -> bool:
    """Whether the name is the module itself, a part of it, or its parent; never the whole network."""
    if not named:
        return False
    named = AGAIN.sub("", named) if "/" in named else named
    around = module.rpartition(".")[0]
    return named in (module, around) or named.startswith(f"{module}.") or module in re.split(r"[./:\[\]']|__", named)
