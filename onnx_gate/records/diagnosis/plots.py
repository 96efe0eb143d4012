"""What plots are drawn from: one comparison in bounded form, gathered in the worker, where its arrays are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from onnx_gate.records.bounds import Amount, Count, Element, Name
from onnx_gate.vocabulary import JSON, Config

PER_DECADE = 4
"""Bins of a histogram between 1 and 10."""
MOST_BINS = 64
"""Of a histogram: smaller differences than these reach to are in the first one."""
GRID = 32
"""Cells of a density on each side."""
MOST_POINTS = 200
MOST_CELLS = 400
MOST_BUCKETS = 40
MOST_CLASSES = 50
MOST_PAIRS = 600
"""Of labels in a matrix; where there are more, there is no matrix."""
MOST_PLOTS = 20
"""Of one model."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How large the differences are, in bins that are equally wide on a log scale."""

    __pydantic_config__: ClassVar[Config] = JSON
    smallest: Amount
    """Where the first bin begins; the next one begins 10^(1/4) times as far."""
    counts: Annotated[tuple[Count, ...], Field(max_length=MOST_BINS, fail_fast=True)] = ()
    """Elements in each bin."""
    beyond: Annotated[tuple[Count, ...], Field(max_length=MOST_BINS, fail_fast=True)] = ()
    """Of them, those that are out of tolerance."""
    same: Count = 0
    """Elements that do not differ at all, which no log scale has a place for."""
    odd: Count = 0
    """NaN or Inf that met something else."""

    def edge(self, number: int) -> float:
        """Where a bin begins."""
        return self.smallest * math.pow(10.0, number / PER_DECADE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """Reference against actual: points where there are few, else how many lie in each cell of a grid."""

    __pydantic_config__: ClassVar[Config] = JSON
    lowest: Finite
    """Where both axes begin."""
    highest: Finite
    """Where both end."""
    references: Annotated[tuple[Finite, ...], Field(max_length=MOST_POINTS, fail_fast=True)] = ()
    """Of the points."""
    actuals: Annotated[tuple[Finite, ...], Field(max_length=MOST_POINTS, fail_fast=True)] = ()
    """Of the same points."""
    cells: Annotated[tuple[Count, ...], Field(max_length=MOST_CELLS, fail_fast=True)] = ()
    """Of a grid of 32 by 32: 32 times the row of the actual value, and the column of the reference."""
    counts: Annotated[tuple[Count, ...], Field(max_length=MOST_CELLS, fail_fast=True)] = ()
    """Elements in each of these cells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByRow:
    """The largest share of the tolerance that is used, along the rows of a case."""

    __pydantic_config__: ClassVar[Config] = JSON
    rows: Count
    """Rows of the case."""
    used: Annotated[tuple[Amount, ...], Field(max_length=MOST_BUCKETS, fail_fast=True)] = ()
    """One for each of the equal parts that the rows are divided into."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """How often each label met each label, also where all agree."""

    __pydantic_config__: ClassVar[Config] = JSON
    labels: Annotated[tuple[Element, ...], Field(max_length=MOST_CLASSES, fail_fast=True)] = ()
    """In order."""
    references: Annotated[tuple[Count, ...], Field(max_length=MOST_PAIRS, fail_fast=True)] = ()
    """The source's label in each pair, by its place in `labels`."""
    actuals: Annotated[tuple[Count, ...], Field(max_length=MOST_PAIRS, fail_fast=True)] = ()
    """ONNX Runtime's label."""
    counts: Annotated[tuple[Count, ...], Field(max_length=MOST_PAIRS, fail_fast=True)] = ()
    """How often they met; pairs that never did are left out."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """The worst comparison of one output on one provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""
    case: Name
    """Of the comparison that it is about."""
    output: Name
    """ONNX output name."""
    looked: Count
    """Elements that were looked at: all, or a sample of them that is the same each time."""
    histogram: Histogram | None = None
    """None for labels."""
    pairs: Pairs | None = None
    """None for labels, and where no element is finite on both sides."""
    by_row: ByRow | None = None
    """None for labels, and where there is one row."""
    matrix: Matrix | None = None
    """Of labels; None where they are too many."""
