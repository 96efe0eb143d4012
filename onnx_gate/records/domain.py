"""What a model itself knows of the values of its inputs: where to feed it, so that every part of it is reached.

A framework says it of a source, and the graph of an .onnx says it of itself. Plain values, for both to make and for the
generator to draw from. Everything is said of the inputs as they are fed, so whoever makes it follows a threshold or a
category back through scalers and column selections, and leaves out what can't be followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx_gate.vocabulary import Origin, Scalar

Place = tuple[str, int]
"""An input by name, and a column of it by its place on the last axis (0 where the input has one dimension)."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A value at which the model changes its mind: a threshold, the edge of a bin, the end of a clip."""

    at: float
    """In the values of the input."""
    reach: float = 0.0
    """The largest operand on the way to it, such as the mean that a scaler subtracts: rounding is relative to it."""
    itself: float | None = None
    """The cut in float32, where it is fed too: the input itself is compared with it, so that no rounding decides."""


@dataclass(frozen=True, kw_only=True)
class Values:
    """What one column of an input may hold, or each of its elements."""

    origins: tuple[Origin, ...]
    """What in the model says so."""
    centre: float | None = None
    """Ordinary values lie around it; together with `spread`."""
    spread: float | None = None
    """Their standard deviation."""
    low: float | None = None
    """The smallest ordinary value; together with `high`. Of integers: the first id of a table."""
    high: float | None = None
    """The largest ordinary value. Of integers: the last id."""
    choices: tuple[Scalar, ...] = ()
    """All that it ordinarily holds, where that is a list: categories, texts. Each is fed once."""
    cuts: tuple[Cut, ...] = ()
    """Both sides of each are fed once; ordinary values lie between any two of them."""
    marks: tuple[Scalar, ...] = ()
    """Other values to feed once: the ends of a range, a padding index, a large integer."""
    exact: tuple[float, ...] = ()
    """Those of the marks that the model looks for, such as -999 for what is unknown: a number beside one is not it."""
    padding: tuple[int, ...] = ()
    """The row of an embedding that fills up short lists of ids."""
    missing: bool = False
    """The model has an answer for a missing value, which is fed once: NaN in floats."""
    missing_text: str | None = None
    """What stands for a missing value in text, where the model knows one."""
    unusual: tuple[Scalar, ...] = ()
    """Fed once too, and the source may refuse them: an unknown category, an id that is out of range."""
    never_empty: bool = False
    """Each row begins with a value that isn't 0: a mask of nothing is answered by no two runtimes alike."""
    never_full: bool = False
    """The same of a mask of what is to be left out: each row begins with a 0."""
    beyond: int = 0
    """How many more landmarks the model has there: of very many, only a selection is kept here."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """What is known of one input."""

    every: Values | None = None
    """Of each of its elements; None where nothing is known of all."""
    columns: Mapping[int, Values] = field(default_factory=dict)
    """Of single columns, by their place on the last axis; they come before `every`."""


Box = Mapping[Place, tuple[Scalar, Scalar]]
"""A row in part: columns between two values, neither of which is meant to be fed; both are the same where the column
has exactly this value. All other columns are ordinary. The way to a leaf of a tree, a support vector, a class mean."""


@dataclass(frozen=True, kw_only=True)
class Domains:
    """What is known of all inputs of a model."""

    inputs: Mapping[str, Domain] = field(default_factory=dict)
    """By name."""
    boxes: tuple[Box, ...] = ()
    """Rows to feed once. Whoever makes them keeps to `MOST_BOXES`, by a seeded choice that spreads over all parts."""
    origins: tuple[Origin, ...] = ()
    """Where the boxes come from."""
    longest: Mapping[str, int] = field(default_factory=dict)
    """Named dimension → the largest size that the model has room for, such as its table of positions."""
    beyond: int = 0
    """How many more rows the model would have for `boxes`."""


MOST_BOXES = 2048
NOTHING_KNOWN = Domains()
