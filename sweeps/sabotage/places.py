"""Whether the place that a report names is where the fault is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_NODES = 3
"""That an interval may have, in a file of the gate's own export."""
WRAPPERS = re.compile(r"^(?:_?wrapped|module|model)\.")
"""What exporters put around the user's module."""


def is_right(place: Mapping[str, Any] | None, module: str, *, converted: bool) -> bool:
    """Whether any of the faults that are named is within the module that is wrong, and small enough."""
    return any(_holds(fault, module, converted=converted) for fault in (place or {}).get("faults", ()))


def _holds(fault: Mapping[str, Any], module: str, *, converted: bool) -> bool:
    named = str(fault.get("module") or "")
    few = len(nodes) <= MOST_NODES if (nodes := fault.get("nodes", ())) else _is_between(fault)
    # A step may be called `model` as well.
    return any(_within(name, module) for name in (named, WRAPPERS.sub("", named))) and (few or not converted)


def _is_between(fault: Mapping[str, Any]) -> bool:
    """What the converter left out has no node: its place is between a value that goes in and one that comes out."""
    return bool(fault.get("reads") and fault.get("value"))


def _within(named: str, module: str) -> bool:
    """The module itself, a part of it, or the one around it; never the whole network."""
    if not named:
        return False
    around = module.rpartition(".")[0]
    return named in (module, around) or named.startswith(f"{module}.") or module in re.split(r"[./:\[\]']|__", named)
