"""Data for plots: one comparison in a form of limited size. The worker makes it, since it has the arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from onnx_gate.records.bounds import Amount, Count, Element, Name
from onnx_gate.vocabulary import JSON, Config

PER_DECADE = 4
"""The number of bins of a histogram from 1 to 10, and from each power of ten to the next."""
MOST_BINS = 64
"""The most bins of a histogram. Differences that are too small for them are counted in the first bin."""
GRID = 32
"""The number of rows, and of columns, in the grid of a density."""
MOST_POINTS = 200
"""Elements that are drawn as dots. Ten thousand dots of one output would take 420 KB of results.json, and a model may
take 200 KB for all of its plots."""
MOST_CELLS = 400
MOST_BUCKETS = 40
MOST_CLASSES = 50
MOST_PAIRS = MOST_CLASSES**2
"""The most pairs of labels in a matrix: each label with each."""
MOST_PLOTS = 20
"""The most plots of one model on one provider."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How large the differences are: counts in bins that have the same width on a log scale."""

    __pydantic_config__: ClassVar[Config] = JSON
    smallest: Amount
    """The start of the first bin; each bin starts at 10^(1/4) times the start of the one before."""
    counts: Annotated[tuple[Count, ...], Field(max_length=MOST_BINS, fail_fast=True)] = ()
    """Elements in each bin."""
    beyond: Annotated[tuple[Count, ...], Field(max_length=MOST_BINS, fail_fast=True)] = ()
    """How many of these are out of tolerance."""
    same: Count = 0
    """Elements that do not differ at all: a log scale has no place for 0."""
    odd: Count = 0
    """Elements that are NaN or Inf on one side only."""

    def edge(self, number: int) -> float:
        """The start of a bin."""
        return self.smallest * math.pow(10.0, number / PER_DECADE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """References and actual values: as points if there are few, otherwise as counts in the cells of a grid."""

    __pydantic_config__: ClassVar[Config] = JSON
    lowest: Finite
    """The start of both axes."""
    highest: Finite
    """The end of both axes."""
    references: Annotated[tuple[Finite, ...], Field(max_length=MOST_POINTS, fail_fast=True)] = ()
    """The references of the points."""
    actuals: Annotated[tuple[Finite, ...], Field(max_length=MOST_POINTS, fail_fast=True)] = ()
    """The actual values of the same points."""
    cells: Annotated[tuple[Count, ...], Field(max_length=MOST_CELLS, fail_fast=True)] = ()
    """Cells of a grid of 32 by 32, as 32 × the row of the actual value + the column of the reference."""
    counts: Annotated[tuple[Count, ...], Field(max_length=MOST_CELLS, fail_fast=True)] = ()
    """Elements in each of these cells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByRow:
    """The largest share of the tolerance that is used, for parts of the rows of a case."""

    __pydantic_config__: ClassVar[Config] = JSON
    rows: Count
    """The number of rows of the case."""
    used: Annotated[tuple[Amount, ...], Field(max_length=MOST_BUCKETS, fail_fast=True)] = ()
    """One share for each part; all parts have the same number of rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """How often each label met each label, also where all agree.

    Pairs that met are listed; or, if that is shorter, all of them are counted row by row, without their places.
    """

    __pydantic_config__: ClassVar[Config] = JSON
    labels: Annotated[tuple[Element, ...], Field(max_length=MOST_CLASSES, fail_fast=True)] = ()
    """The labels, in order."""
    references: Annotated[tuple[Count, ...], Field(max_length=MOST_PAIRS, fail_fast=True)] = ()
    """The source's label in each pair, by its place in `labels`; empty where all pairs are counted."""
    actuals: Annotated[tuple[Count, ...], Field(max_length=MOST_PAIRS, fail_fast=True)] = ()
    """ONNX Runtime's label, likewise."""
    counts: Annotated[tuple[Count, ...], Field(max_length=MOST_PAIRS, fail_fast=True)] = ()
    """How often they met."""

    def pairs(self) -> Iterator[tuple[int, int, int]]:
        """The places of two labels that met, the source's first, and how often."""
        if self.references or self.actuals:
            yield from zip(self.references, self.actuals, self.counts, strict=False)
            return
        for place, count in enumerate(self.counts if self.labels else ()):
            if count:
                yield (*divmod(place, len(self.labels)), count)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """The worst comparison of one output on one provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """The short name of the provider."""
    case: Name
    """The case of the comparison."""
    output: Name
    """The name of the output in the ONNX file."""
    looked: Count
    """How many elements the data is from: all, or a sample that is the same in every run."""
    histogram: Histogram | None = None
    """None for labels."""
    pairs: Pairs | None = None
    """None for labels, and if no element is finite on both sides."""
    by_row: ByRow | None = None
    """None for labels, and if there is only one row."""
    matrix: Matrix | None = None
    """None for numbers, and if there are too many labels."""
