"""Wrong models: what is changed, where, and how reports name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from onnx_gate.worker.onnx_files.blueprint import Draft, NodePath


class Kind(StrEnum):
    """Kinds of wrong models; the values are shown in reports."""

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
    """A row of an embedding table."""

    tensor: str
    row: int


@dataclass(frozen=True, kw_only=True)
class TreeSpot:
    """A node or leaf of a tree."""

    node: NodePath
    """Path of the ensemble."""
    tree: int
    index: int
    """Position in the ensemble's list of nodes."""
    moved_to: float | None = None
    """The new threshold, if it is moved."""
    missing: bool = False
    """Whether only a missing value shows the change."""


@dataclass(frozen=True, kw_only=True)
class OutputColumn:
    """A column of an output."""

    output: str
    column: int | None
    """Column on the last axis; None for the whole output, if the file does not fix the number of columns."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of a list of categories, words or classes."""

    node: NodePath | None
    """Path of the node; None if the list is a stored tensor."""
    values: tuple[str, ...]
    """The two swapped entries."""
    of: str = ""
    """Name of the list in reports."""


@dataclass(frozen=True, kw_only=True)
class MissingValue:
    """The treatment of missing values."""


Aim = MissingValue | TableRow | TreeSpot | OutputColumn | Entry


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A wrong model."""

    kind: Kind
    part: str
    """Part of the model: a module, an estimator, a block of trees."""
    place: str
    """Name of the changed thing in reports."""
    change: Callable[[Draft], None]
    """Turns a copy of the judged file into the wrong model."""
    aim: Aim | None = None
    """What an input has to reach to show the change, if that is known."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Places of one kind in one part of a model."""

    kind: Kind
    part: str
    count: int
    """Number of wrong models that can be made here."""
    make: Callable[[int], Mutant | None]
    """Makes one of them by its number; None if it would be the same model."""
