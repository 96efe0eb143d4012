"""One question of the exam: a model with a fault, its healthy look-alike, and what triage should say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.sabotage.proof import Proof

Random = np.random.Generator
Keys = dict[str, Any]
WRONG, HEALTHY = "wrong", "healthy"


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where a question is written."""

    folder: Path
    """Of the manifest."""
    name: str
    """What its files begin with."""
    random: Random
    """Draws everything."""

    def write(self, suffix: str, content: str | bytes) -> str:
        """A file beside the manifest; returns its name."""
        path = self.folder / f"{self.name}{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path.name

    def save(self, suffix: str, arrays: Mapping[str, Any]) -> str:
        """An archive of arrays; returns its name."""
        path = self.folder / f"{self.name}{suffix}"
        np.savez(path, **arrays)
        return path.name

    def seed(self) -> int:
        """For whatever wants a number of its own."""
        return int(self.random.integers(2**31))

    def pick(self, *choices: Any) -> Any:
        """One of them."""
        return choices[int(self.random.integers(len(choices)))]

    def likely(self, share: float) -> bool:
        """True so often."""
        return bool(self.random.random() < share)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A question before it is proven."""

    cause: str
    """What is true."""
    fault: str
    """The same in words."""
    wrong: Keys
    """The model in the manifest, but for its id."""
    healthy: Keys
    """Its look-alike."""
    proofs: tuple[Proof, Proof]
    """Of both."""
    module: str | None = None
    """Where the fault is: the path of a torch module, a Keras layer or a step; None where it has no place."""
    also: tuple[str, ...] = ()
    """Causes that are as right."""
    model: str = ""
    """The architecture, for the page."""


Recipe = Callable[[Desk], Draft]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A proven question."""

    cell: str
    """Framework, and whether the gate converted or the user shipped."""
    name: str
    """Unique; the ids of both models begin with it."""
    draft: Draft
    """What it is about."""
    shown: str
    """How the fault shows in plain code."""

    @property
    def models(self) -> list[Keys]:
        """Both models of the manifest."""
        both = {WRONG: self.draft.wrong, HEALTHY: self.draft.healthy}
        return [{"id": f"{self.name}.{side}", **keys} for side, keys in both.items()]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A framework, converted or shipped, with all its kinds of faults."""

    name: str
    """Such as `torch shipped`."""
    recipes: Mapping[str, Recipe]
    """By the name of the fault."""
    often: Mapping[str, int] = field(default_factory=dict)
    """How often a fault is drawn, if not once."""
