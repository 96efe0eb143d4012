"""What every target is made of, and what its cases are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Protocol, cast

SEEDS = Path(__file__).parent / "seeds"

TARGETS = {
    "protocol": "fuzz.protocol",
    "manifest": "fuzz.manifests",
    "results": "fuzz.results",
    "onnx": "fuzz.onnx_files",
}
"""The module of each target, by name."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A good input."""

    name: str
    """Of its file."""
    data: bytes
    """Its content."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An input made from a seed."""

    seed: str
    """The seed's name."""
    data: bytes
    """Its content."""
    how: str
    """What was done to the seed, in a few words."""


class Failed(Exception):
    """What a check found wrong with the package."""


class Target(Protocol):
    """One kind of input. A module that has these names is a target."""

    COUNT: int
    """Cases of a whole run."""
    BATCH: int
    """Cases that are checked together."""
    PATIENCE: float
    """Seconds for one batch: beyond that it hangs."""
    MEMORY: int | None
    """Bytes of address space for the process that checks; None where its children need more."""
    SUFFIX: str
    """Of the file that a failing case is written to."""

    def seeds(self) -> Sequence[Seed]:
        """The same ones in the same order, whoever asks."""

    def mutate(self, rng: Random, seed: Seed) -> Case:
        """A case, which depends on nothing but the two."""

    def check(self, case: Case) -> str:
        """One word for the outcome; raises for what must not happen."""


class Together(Target, Protocol):
    """A target whose cases share what is expensive: a run of the gate, say."""

    def check_together(self, cases: Sequence[Case]) -> list[str]:
        """One word for the outcome of each case; raises for what must not happen to any of them."""


def load_target(name: str) -> Target:
    """A target by its name, or by that of its module."""
    return cast(Target, import_module(TARGETS.get(name, name)))


def draw(target: Target, name: str, seed: int, number: int) -> Case:
    """Case so-and-so of a seed: drawn alone, it is the one that it was among all others."""
    rng = Random(f"{name} {seed} {number}")
    return target.mutate(rng, rng.choice(target.seeds()))


def check_all(target: Target, cases: Sequence[Case]) -> list[str]:
    """The outcome of each case."""
    if len(cases) > 1 and hasattr(target, "check_together"):
        return cast(Together, target).check_together(cases)
    return [target.check(case) for case in cases]


def read_seeds(folder: Path, pattern: str) -> list[Seed]:
    """The files of a folder, by name."""
    return [Seed(name=path.name, data=path.read_bytes()) for path in sorted(folder.glob(pattern))]
