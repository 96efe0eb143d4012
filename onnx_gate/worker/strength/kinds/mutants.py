"""A wrong model: what is changed, where, and what a reader calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from onnx_gate.worker.onnx_files.blueprint import Draft, NodePath


class Kind(StrEnum):
    """What can be wrong; the words are those of the reports."""

    SCALED = "weights × 1.5"
    NEGATED = "weights negated"
    ZEROED = "row or channel zeroed"
    REPLACED = "embedding row replaced"
    THRESHOLD = "tree threshold moved"
    LEAF = "tree leaf moved"
    BRANCH = "tree branch flipped"
    MISSING = "missing-value direction flipped"
    SWAPPED = "categories or classes swapped"
    OUTPUT = "output column changed"
    OPERATOR = "operator left out"
    ATTRIBUTE = "attribute changed"
    SHAPE = "shape made constant"
    PREPROCESSING = "preprocessing left out"
    HALF = "half precision"


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a table of embeddings."""

    tensor: str
    row: int


@dataclass(frozen=True, kw_only=True)
class TreeSpot:
    """A node or leaf of a tree."""

    node: NodePath
    """The ensemble."""
    tree: int
    index: int
    """In the ensemble's list of nodes."""
    moved_to: float | None = None
    """The threshold that it has instead."""
    missing: bool = False
    """Only a missing value shows it."""


@dataclass(frozen=True, kw_only=True)
class OutputColumn:
    """A column of an output."""

    output: str
    column: int | None
    """On the last axis; None where the output is taken as a whole, since the file fixes no number of columns."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of a list of categories, words or classes."""

    node: NodePath | None
    """None where the list is a stored tensor."""
    values: tuple[str, ...]
    """The two that are swapped."""
    of: str = ""
    """What a reader calls the list."""


@dataclass(frozen=True, kw_only=True)
class MissingValue:
    """What is done with a missing value."""


Aim = MissingValue | TableRow | TreeSpot | OutputColumn | Entry


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A wrong model."""

    kind: Kind
    part: str
    """Of the model: a module, an estimator, a block of trees."""
    place: str
    """What a reader calls what is changed."""
    change: Callable[[Draft], None]
    """Makes it of a copy of the judged file."""
    aim: Aim | None = None
    """What an input has to reach to show it, where that can be said."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Places of one kind in one part of a model."""

    kind: Kind
    part: str
    count: int
    """How many wrong models can be made here."""
    make: Callable[[int], Mutant | None]
    """One of them by its number; None where it would be the same model."""
