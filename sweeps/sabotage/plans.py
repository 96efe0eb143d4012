"""Plans of a network and its fault, short enough to be written into a factory. Factories import this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from sweeps.sabotage.changes import CHANGES, changed, put
from sweeps.sabotage.fragile import Centred, Deploy, Drift, Flat, Jitter, Logarithm, LogOdds, Peaks, Spread, Unit, Waves
from sweeps.sabotage.nets import Built, build


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All random choices for a network."""

    kind: str
    """A key of `nets.KINDS`."""
    seed: int
    """Seed for its sizes and weights."""
    part: str = ""
    """A key of `PARTS` for a part that is inserted; may be empty."""
    change: str = ""
    """A key of `changes.CHANGES`; empty if nothing is changed."""
    path: str = ""
    """Path of the changed module."""
    drawn: int = 0
    """Seed for the change."""

    @property
    def code(self) -> str:
        """The plan as Python code."""
        return f"Plan({', '.join(f'{name}={value!r}' for name, value in asdict(self).items())})"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part that may be inserted into a network: a wrong form, and a right one."""

    wrong: Callable[[], nn.Module]
    right: Callable[[], nn.Module]
    first: bool = False
    """Whether it is inserted before all other parts; else before the heads."""


PARTS: Mapping[str, Part] = {
    "unit": Part(wrong=Unit, right=Unit, first=True),
    "log": Part(wrong=Logarithm, right=Logarithm),
    "spread": Part(wrong=lambda: Spread(300.0, plain=True), right=lambda: Spread(300.0, plain=False)),
    "waves": Part(wrong=lambda: Waves(2.0**13), right=lambda: Waves(2.0)),
    "odds": Part(wrong=lambda: LogOdds(9.0), right=lambda: LogOdds(0.0)),
    "peaks": Part(wrong=lambda: Peaks(padded=True), right=lambda: Peaks(padded=False)),
    "drift": Part(wrong=lambda: Drift(0.01), right=lambda: Drift(0.0)),
    "jitter": Part(wrong=lambda: Jitter(0.01), right=lambda: Jitter(0.0)),
    "flat": Part(wrong=lambda: Flat(baked=True), right=lambda: Flat(baked=False)),
    "branch": Part(wrong=lambda: Centred(5), right=lambda: Centred(0)),
    "dropout": Part(wrong=lambda: nn.Dropout(0.3), right=lambda: nn.Dropout(0.3)),
}
"""Parts by name; the suffix `-right` selects the right form."""


def built(plan: Plan) -> Built:
    """The network without the change."""
    made = build(plan.kind, plan.seed)
    if plan.part:
        name, _, form = plan.part.partition("-")
        part = PARTS[name]
        _insert(made.net, name, (part.right if form else part.wrong)(), first=part.first)
    return made


def _insert(net: Any, name: str, part: nn.Module, *, first: bool) -> None:
    net.add_module(name, part.eval())
    net.order = (name, *net.order) if first else (*net.order, name)


def healthy(plan: Plan) -> Plan:
    """The same network without its fault."""
    form = "-right" if plan.part and not CHANGES_OF_PARTS.get(plan.part) else ""
    return replace(plan, change="", path="", part=plan.part + form)


CHANGES_OF_PARTS = {"unit": "unsafe-unit", "log": "unsafe-log", "dropout": "training"}
"""Parts that are right by themselves → the change that makes them wrong."""


def source(plan: Plan) -> nn.Module:
    """The source network, which is right."""
    return built(plan).net


def shipped(plan: Plan) -> nn.Module:
    """The network that was exported."""
    net = built(plan).net
    return changed(net, plan.change, plan.path, plan.drawn) if plan.change in CHANGES else net


def deployed(plan: Plan) -> nn.Module:
    """Both networks in one: only exporters use the wrong part."""
    net = built(plan).net
    if plan.change not in CHANGES:
        return net
    wrong = changed(net, plan.change, plan.path, plan.drawn).get_submodule(plan.path)
    return put(net, plan.path, Deploy(net.get_submodule(plan.path), wrong))
