"""The interface of targets, and their cases."""

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
    """Name of its file."""
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
    """The changes of the seed, in a few words."""


class Failed(Exception):
    """Raised if a check finds a fault in the package."""


class Target(Protocol):
    """One kind of input. A module with these names is a target."""

    COUNT: int
    """Cases of a whole run."""
    BATCH: int
    """Cases that are checked together."""
    PATIENCE: float
    """Seconds for one batch; a batch that takes longer counts as hung."""
    MEMORY: int | None
    """Bytes of address space for the process that checks; None for no limit, if its children need more."""
    SUFFIX: str
    """Suffix of the file that a failing case is written to."""

    def seeds(self) -> Sequence[Seed]:
        """The seeds, always the same ones in the same order."""

    def mutate(self, rng: Random, seed: Seed) -> Case:
        """A case that depends only on the two arguments."""

    def check(self, case: Case) -> str:
        """One word for the outcome; raises if something happens that must not happen."""


class Together(Target, Protocol):
    """A target whose cases share something expensive, such as a run of the gate."""

    def check_together(self, cases: Sequence[Case]) -> list[str]:
        """One word for the outcome of each case; raises if something happens that must not happen."""


def load_target(name: str) -> Target:
    """A target by its name, or by the name of its module."""
    return cast(Target, import_module(TARGETS.get(name, name)))


def draw(target: Target, name: str, seed: int, number: int) -> Case:
    """The case with this number: it does not depend on whether other cases are drawn too."""
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
