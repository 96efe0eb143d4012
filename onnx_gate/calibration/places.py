"""Where the tolerances of a model belong in its manifest: once for all providers, or separately for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx_gate.calibration.proposals import Proposal
from onnx_gate.providers import short_name
from onnx_gate.records.asked import Tolerance

Wanted = dict[str, Any]
"""Keys of a model → their wanted values: nested mappings that end in tolerances."""


def wanted_of(proposals: Iterable[Proposal], providers: Iterable[str], written: Mapping[str, Any]) -> Wanted:
    """The wanted values of a model on these providers; `written` is its part of the manifest, with the defaults.

    A rule of the model holds on every provider, also on one that this machine doesn't have. So it is set only if all
    providers were measured and need the same. A rule under a provider has priority over it, and is changed in place.
    """
    by_output: dict[str, dict[str, Proposal]] = {}
    for proposal in proposals:
        by_output.setdefault(proposal.output, {})[proposal.provider] = proposal
    names, wanted = list(providers), Wanted()
    for output, found in by_output.items():
        own = {name for name in found if _has_own_rule(written, name, output)}
        alike = {proposal.tolerance for proposal in found.values()}
        if len(alike) == 1 and set(found) == set(names) and not own:
            if any(proposal.verdict == "set" for proposal in found.values()):
                wanted.setdefault("outputs", {})[output] = alike.pop()
            continue
        for name, proposal in found.items():
            if proposal.verdict == "set":
                _put(wanted, (_key_of(written, name), "outputs", output), proposal.tolerance)
    return wanted


def _put(wanted: Wanted, way: tuple[str, ...], tolerance: Tolerance) -> None:
    part = wanted.setdefault("providers", {})
    for step in way[:-1]:
        part = part.setdefault(step, {})
    part[way[-1]] = tolerance


def _key_of(written: Mapping[str, Any], name: str) -> str:
    """The provider's name as the manifest writes it."""
    given = written.get("providers") or ()
    return next((str(key) for key in given if short_name(str(key)) == name), name)


def _has_own_rule(written: Mapping[str, Any], name: str, output: str) -> bool:
    given = written.get("providers")
    provider = given.get(_key_of(written, name)) if isinstance(given, dict) else None
    rules = provider.get("outputs") if isinstance(provider, dict) else None
    return isinstance(rules, dict) and output in rules
