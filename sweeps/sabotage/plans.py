"""A network and its fault in a few words that a factory can be written from. Factories import this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from sweeps.sabotage.changes import CHANGES, changed, put
from sweeps.sabotage.fragile import Centred, Deploy, Drift, Flat, Jitter, Logarithm, LogOdds, Spread, Unit, Waves
from sweeps.sabotage.nets import Built, build


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is drawn of a network."""

    kind: str
    """Of `nets.KINDS`."""
    seed: int
    """Draws its sizes and weights."""
    part: str = ""
    """One of PARTS that is put in."""
    change: str = ""
    """One of `changes.CHANGES`; empty where nothing is changed."""
    path: str = ""
    """The module that it is about."""
    drawn: int = 0
    """Draws what the change has to draw."""

    @property
    def code(self) -> str:
        """As Python writes it."""
        return f"Plan({', '.join(f'{name}={value!r}' for name, value in asdict(self).items())})"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What may be put into a network: the form that goes wrong, and the one that doesn't."""

    wrong: Callable[[], nn.Module]
    right: Callable[[], nn.Module]
    first: bool = False
    """Put before all others; else before the heads."""


PARTS: Mapping[str, Part] = {
    "unit": Part(wrong=Unit, right=Unit, first=True),
    "log": Part(wrong=Logarithm, right=Logarithm),
    "spread": Part(wrong=lambda: Spread(300.0, plain=True), right=lambda: Spread(300.0, plain=False)),
    "waves": Part(wrong=lambda: Waves(2.0**13), right=lambda: Waves(2.0)),
    "odds": Part(wrong=lambda: LogOdds(9.0), right=lambda: LogOdds(0.0)),
    "drift": Part(wrong=lambda: Drift(0.01), right=lambda: Drift(0.0)),
    "jitter": Part(wrong=lambda: Jitter(0.01), right=lambda: Jitter(0.0)),
    "flat": Part(wrong=lambda: Flat(baked=True), right=lambda: Flat(baked=False)),
    "branch": Part(wrong=lambda: Centred(5), right=lambda: Centred(0)),
    "dropout": Part(wrong=lambda: nn.Dropout(0.3), right=lambda: nn.Dropout(0.3)),
}
"""By name; a `-right` behind the name chooses the form that doesn't go wrong."""


def built(plan: Plan) -> Built:
    """The network, before anything is changed."""
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
"""Parts that are right by themselves, and what makes them wrong."""


def source(plan: Plan) -> nn.Module:
    """What the user trusts."""
    return built(plan).net


def shipped(plan: Plan) -> nn.Module:
    """What was exported."""
    net = built(plan).net
    return changed(net, plan.change, plan.path, plan.drawn) if plan.change in CHANGES else net


def deployed(plan: Plan) -> nn.Module:
    """Both in one: exporters see what is wrong, and nobody else does."""
    net = built(plan).net
    if plan.change not in CHANGES:
        return net
    wrong = changed(net, plan.change, plan.path, plan.drawn).get_submodule(plan.path)
    return put(net, plan.path, Deploy(net.get_submodule(plan.path), wrong))
