"""The rows of a divergence: the worst of them, and what those that fail have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from onnx_gate.records.bounds import FEW, Amount, Count, Element, Name, Text
from onnx_gate.vocabulary import JSON, Config

MOST_ROWS = 5
"""Rows that are shown."""
MOST_VALUES = 10
"""Values of one input of a row that are shown."""
MOST_SHARED = 3
"""Properties that are named."""


@dataclass(frozen=True, kw_only=True)
class RowInput:
    """What a row has of one input."""

    __pydantic_config__: ClassVar[Config] = JSON
    input: Name
    """The input's name."""
    values: Annotated[tuple[Element, ...], FEW]
    """The first few, in the order of the row."""
    count: Count
    """How many there are."""


@dataclass(frozen=True, kw_only=True)
class FailingRow:
    """One row that is answered differently."""

    __pydantic_config__: ClassVar[Config] = JSON
    case: Name
    """The case that feeds it."""
    row: Count
    """Its number in the case, counted from 0; with data, its number in the data."""
    output: Name
    """The output in which it differs most."""
    error: Amount | None = None
    """By how much it differs there at most; None where that is no number, as of labels and NaN."""
    inputs: Annotated[tuple[RowInput, ...], FEW] = ()
    """What was fed; empty where these are values of the user's data."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A property that tells the rows that fail from the others."""

    __pydantic_config__: ClassVar[Config] = JSON
    what: Text
    """The property, such as "`mask` all 0"."""
    failing: Count
    """Rows that fail and have it."""
    others: Count
    """Rows that pass and have it."""


@dataclass(frozen=True, kw_only=True)
class Failing:
    """The rows of a divergence on one provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Where they were run."""
    failing: Count
    """Rows that differ in any output, of those that were looked at."""
    passing: Count
    """Rows that don't."""
    rows: Annotated[tuple[FailingRow, ...], FEW] = ()
    """The worst of them."""
    shared: Annotated[tuple[Shared, ...], FEW] = ()
    """What they have in common and the others haven't."""
    facts: Annotated[tuple[Text, ...], FEW] = ()
    """What is the same in all differences, such as a factor."""
    private: bool = False
    """Values of the user's data are left out: `repro: {data: true}` is not set."""


def failing_contradictions(found: Failing) -> list[str]:
    """What can't be of these numbers."""
    told = []
    if not found.failing:
        told.append("it shows rows that fail, and none fails")
    if len(found.rows) > min(MOST_ROWS, found.failing) or len(found.shared) > MOST_SHARED:
        told.append(f"it shows {len(found.rows)} rows and {len(found.shared)} properties of {found.failing:,} rows")
    if any(one.failing > found.failing or one.others > found.passing for one in found.shared):
        told.append("more rows have a property than there are")
    if any(len(given.values) > min(MOST_VALUES, given.count) for row in found.rows for given in row.inputs):
        told.append("a row shows more values than it has")
    if found.private and any(row.inputs for row in found.rows):
        told.append("it shows values that it says are left out")
    return told
