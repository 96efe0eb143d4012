"""One test question for triage: a model with a fault, its healthy look-alike, and the right answer."""

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
    """Tools to write the files of a question."""

    folder: Path
    """Folder of the manifest."""
    name: str
    """Prefix of the files of the question."""
    random: Random
    """Generator for all random choices."""

    def write(self, suffix: str, content: str | bytes) -> str:
        """Write a file beside the manifest; returns its name."""
        path = self.folder / f"{self.name}{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path.name

    def save(self, suffix: str, arrays: Mapping[str, Any]) -> str:
        """Write an archive of arrays; returns its name."""
        path = self.folder / f"{self.name}{suffix}"
        np.savez(path, **arrays)
        return path.name

    def seed(self) -> int:
        """A new random seed."""
        return int(self.random.integers(2**31))

    def pick(self, *choices: Any) -> Any:
        """One of the choices, at random."""
        return choices[int(self.random.integers(len(choices)))]

    def likely(self, share: float) -> bool:
        """True with this probability."""
        return bool(self.random.random() < share)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A question that is not proven yet."""

    cause: str
    """The true cause."""
    fault: str
    """The fault in words."""
    wrong: Keys
    """The entry of the wrong model in the manifest, without its id."""
    healthy: Keys
    """The entry of the look-alike."""
    proofs: tuple[Proof, Proof]
    """Proofs for both models."""
    module: str | None = None
    """The place of the fault: the path of a torch module, a Keras layer or a step; None if it has no place."""
    also: tuple[str, ...] = ()
    """Other causes that count as right."""
    model: str = ""
    """Name of the architecture, for the page."""


Recipe = Callable[[Desk], Draft]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A proven question."""

    cell: str
    """Framework, and whether the gate converts the model or the user ships a file."""
    name: str
    """A unique name; the ids of both models begin with it."""
    draft: Draft
    """The question."""
    shown: str
    """How plain code shows the fault."""

    @property
    def models(self) -> list[Keys]:
        """The entries of both models in the manifest."""
        both = {WRONG: self.draft.wrong, HEALTHY: self.draft.healthy}
        return [{"id": f"{self.name}.{side}", **keys} for side, keys in both.items()]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A framework, converted or shipped, with all its kinds of faults."""

    name: str
    """Name, such as `torch shipped`."""
    recipes: Mapping[str, Recipe]
    """Recipes by the name of the fault."""
    often: Mapping[str, int] = field(default_factory=dict)
    """Fault → the number of questions with it, if not 1."""
