"""What is known about one column of an input, collected step by step, and its ordinary values that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_gate.records.domain import Cut, Values
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.onnx_files.domain.flow import BOOL, FLOATS, Dim

FEW_IDS = 256
"""If there are fewer ids than this, and they are fed as floats, they are listed one by one."""
OF_MASKS = {
    "Mul",
    "ReduceSum",
    "Where",
    "And",
    "Or",
    "Not",
    "Expand",
    "CumSum",
    "Equal",
    "MatMul",
    "Shape",
    "ReduceMax",
}
"""Operators that are used on a mask, besides comparisons."""


@dataclass(frozen=True, kw_only=True)
class Fed:
    """An input of the graph."""

    kind: int
    """Its element type, as a number of ONNX's TensorProto."""
    dims: tuple[Dim, ...] | None
    """Its shape; None if the file doesn't declare one."""

    @property
    def is_float(self) -> bool:
        """Whether the input holds floats."""
        return self.kind in FLOATS

    @property
    def has_rows(self) -> bool:
        """Whether a row of the input may have more than one value."""
        return self.dims is None or (len(self.dims) > 1 and self.dims[-1] != 1)


@dataclass
class Draft:
    """What is known about one column, or about each element."""

    origins: dict[Origin, None] = field(default_factory=dict)
    """The sources of this knowledge, in the order in which they were found."""
    scales: list[tuple[float, float]] = field(default_factory=list)
    """Centre and spread, one pair per scaling."""
    levels: list[float] = field(default_factory=list)
    """The numbers with which a sum, a mean or an extreme of such values is compared."""
    low: float = -math.inf
    high: float = math.inf
    """Ordinary values lie between `low` and `high`."""
    ids: bool = False
    """Whether the value selects a row of a table; `low` and `high` are then the first and the last row."""
    choices: dict[Scalar, None] = field(default_factory=dict)
    """The only values that it has, if they are known."""
    cuts: dict[float, float] = field(default_factory=dict)
    """Values at which the result changes → the largest operand on the way there."""
    marks: dict[Scalar, None] = field(default_factory=dict)
    """Values to feed once."""
    exact: dict[float, None] = field(default_factory=dict)
    """The marks that the model tests for equality."""
    cast: dict[Scalar, None] = field(default_factory=dict)
    """Values to feed once, unless the column holds ids or categories."""
    unusual: dict[Scalar, None] = field(default_factory=dict)
    """Values to feed once that are not among the choices."""
    missing: bool = False
    """Whether the model has an answer for a missing value."""
    mask: bool = False
    """Whether the value is a mask: it says which elements count."""
    maybe_mask: bool = False
    """Whether the value is a mask, if it is used only as masks are used."""
    pixels: bool = False
    """Whether it holds an image."""
    others: set[Scalar] = field(default_factory=set)
    """Cuts and choices for which there was no room."""
    uses: set[str] = field(default_factory=set)
    """Operators after which the value isn't followed."""

    def plus(self, other: Draft) -> Draft:
        """The union of both: what is known about each element is also known about a column."""
        return Draft(
            origins=self.origins | other.origins,
            scales=self.scales or other.scales,
            levels=self.levels or other.levels,
            low=max(self.low, other.low),
            high=min(self.high, other.high),
            ids=self.ids or other.ids,
            choices=self.choices or other.choices,
            cuts=other.cuts | self.cuts,
            marks=self.marks | other.marks,
            exact=self.exact | other.exact,
            cast=self.cast | other.cast,
            unusual=self.unusual | other.unusual,
            missing=self.missing or other.missing,
            mask=self.mask or other.mask,
            maybe_mask=self.maybe_mask or other.maybe_mask,
            pixels=self.pixels or other.pixels,
            others=self.others | other.others,
            uses=self.uses | other.uses,
        )


def values(draft: Draft, fed: Fed) -> Values | None:
    """The record of a draft; None if the draft is empty."""
    found = Values(
        origins=tuple(draft.origins),
        cuts=tuple(Cut(at=at, reach=reach) for at, reach in sorted(draft.cuts.items())),
        marks=tuple(draft.marks),
        exact=tuple(draft.exact),
        unusual=tuple(draft.unusual),
        missing=draft.missing,
    )
    found = _ordinary(draft, fed, found)
    if found.origins:
        # A cut has two sides, a choice is one landmark.
        return replace(found, beyond=len(draft.others) * (1 if found.choices else 2))
    return None


def _ordinary(draft: Draft, fed: Fed, found: Values) -> Values:
    """The record with its ordinary values; certain knowledge takes precedence over likely guesses."""
    if draft.ids:
        return _of_ids(draft, fed, found)
    if draft.choices:
        return replace(found, choices=tuple(draft.choices))
    if _holds_mask(draft, fed):
        return _of_mask(fed, found)
    if draft.cast:
        found = replace(found, marks=tuple(draft.marks | draft.cast), origins=_with(found, Origin.CONSTANTS))
    if draft.pixels:
        low, high = max(draft.low, 0.0), min(draft.high, 255.0)
        return replace(found, low=low, high=high, origins=_with(found, Origin.IMAGES))
    if draft.scales:
        centre, spread = _together(draft.scales)
        found = replace(found, centre=centre, spread=spread)
    elif draft.levels:
        centre = sum(draft.levels) / len(draft.levels)
        found = replace(found, centre=centre, spread=max(1.0, abs(centre) / 2))
    if math.isfinite(draft.low) and math.isfinite(draft.high) and draft.low < draft.high:
        found = replace(found, low=draft.low, high=draft.high)
    return found


def _of_ids(draft: Draft, fed: Fed, found: Values) -> Values:
    low, high = draft.low, draft.high
    if high < low:
        return found
    if fed.is_float and high - low < FEW_IDS:
        return replace(found, choices=tuple(float(each) for each in range(int(low), int(high) + 1)))
    inside = tuple(
        mark for mark in found.marks if not isinstance(mark, str) and mark is not None and low <= mark <= high
    )
    return replace(found, low=low, high=high, marks=inside)


def _of_mask(fed: Fed, found: Values) -> Values:
    choices: tuple[Scalar, ...] = (False, True) if fed.kind == BOOL else (0, 1)
    if fed.is_float:
        choices = (0.0, 1.0)
    return Values(origins=(Origin.MASKS,), choices=choices, never_empty=fed.has_rows)


def _holds_mask(draft: Draft, fed: Fed) -> bool:
    if draft.mask:
        return True
    return draft.maybe_mask and not fed.is_float and draft.uses <= OF_MASKS and _only_0_and_1(draft)


def _only_0_and_1(draft: Draft) -> bool:
    return not draft.scales and all(0 <= at <= 1 for at in draft.cuts) and set(draft.marks) <= {0, 1}


def _with(found: Values, origin: Origin) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys((*found.origins, origin)))


def _together(scales: list[tuple[float, float]]) -> tuple[float, float]:
    """Centre and spread of a mixture of all scalings: channels or uses may be scaled differently."""
    centres, spreads = np.array(scales).T
    return float(centres.mean()), float(np.sqrt((spreads**2).mean() + centres.var()))
