"""Plans which wrong models are tried: a seeded choice that gives each part of the model its share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, Site

SEED = "strength"
_LISTED = 4096
"""Most places of one kind in one part that are ordered; if there are more, this many are drawn at random."""


@dataclass
class _Kind:
    """The places of one kind in one part, in the order in which they are tried."""

    sites: list[Site]
    order: list[tuple[int, int]] = field(default_factory=list)

    def shuffle(self, rng: np.random.Generator) -> None:
        """Put all places into a seeded order."""
        counts = [site.count for site in self.sites]
        ends = np.cumsum(counts)
        total = int(ends[-1])
        drawn = rng.permutation(total) if total <= _LISTED else np.unique(rng.integers(0, total, size=_LISTED))
        drawn = rng.permutation(drawn)
        which = np.searchsorted(ends, drawn, side="right")
        self.order = [(int(s), int(n - (ends[s] - counts[s]))) for s, n in zip(which, drawn, strict=True)]

    def next(self) -> Mutant | None:
        """The next wrong model that differs from the judged one; None at the end."""
        while self.order:
            site, number = self.order.pop()
            if (mutant := self.sites[site].make(number)) is not None:
                return mutant
        return None


def plan_mutants(sites: Iterable[Site], *, apart: bool = False) -> Iterator[Mutant]:
    """All wrong models in the order in which they are tried; `apart` selects those that are reported separately."""
    rng = rng_for(SEED)
    parts: dict[str, dict[Kind, _Kind]] = {}
    for site in sites:
        if site.count and (site.kind is Kind.HALF) == apart:
            parts.setdefault(site.part, {}).setdefault(site.kind, _Kind([])).sites.append(site)
    turns = [_part(kinds, rng) for _, kinds in sorted(parts.items())]
    turns = [turns[place] for place in rng.permutation(len(turns))]
    while turns:
        following = [(turn, next(turn, None)) for turn in turns]
        yield from (mutant for _, mutant in following if mutant is not None)
        turns = [turn for turn, mutant in following if mutant is not None]


def _part(kinds: dict[Kind, _Kind], rng: np.random.Generator) -> Iterator[Mutant]:
    """The wrong models of one part, with its kinds in turn."""
    waiting = [kinds[kind] for kind in sorted(kinds)]
    for kind in waiting:
        kind.shuffle(rng)
    waiting = [waiting[place] for place in rng.permutation(len(waiting))]
    return _in_turn(waiting)


def _in_turn(kinds: list[_Kind]) -> Iterator[Mutant]:
    while kinds:
        following = [(kind, kind.next()) for kind in kinds]
        yield from (mutant for _, mutant in following if mutant is not None)
        kinds = [kind for kind, mutant in following if mutant is not None]
