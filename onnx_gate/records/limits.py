"""The limits that an output may set beside its tolerance: one table, from which everything about them is made.

A row is a key of the manifest, under `outputs` and in `variants`. The comparison, the reports and the check of merged
parts read the row as well. Both processes import this module, so it is light.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["floats", "labels"]
FEWEST_ROWS = 8
"""Rows from which a column says how much it varies: of fewer, two that are alike by chance look like a constant."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What may be asked of an output as a whole."""

    name: str
    """Its key in the manifest."""
    metric: str
    """The field of `OutputDiff` that it is held against; in messages, the name of what was measured."""
    direction: Literal["at most", "at least"]
    """On which side of the limit the metric has to be; in messages, the words for it."""
    of: Kind
    """The outputs that it is for; it is left out for the others."""
    meaning: str
    """Its description in the manifest's schema."""
    least: int | None = None
    """The smallest value that a manifest may give; None where any is allowed."""
    most: int | None = None
    """The largest."""
    share: bool = False
    """A share of the elements, held against their count by the formulas below. One for each kind of
    output, in force also where the manifest sets none: then no element may be wrong."""
    noise: bool = False
    """A signal-to-noise ratio: the most telling of all limits, and above 0 an answer of 0 never reaches it."""
    fewest: int = 0
    """Rows from which a case can miss it by itself: with fewer, the cases before have to be run too."""


LIMITS: Mapping[str, Limit] = {
    limit.name: limit
    for limit in (
        Limit(
            name="max_mismatch",
            metric="mismatched",
            direction="at most",
            of="floats",
            meaning="fraction of elements that may be out of tolerance",
            least=0,
            most=1,
            share=True,
        ),
        Limit(
            name="min_agreement",
            metric="mismatched",
            direction="at least",
            of="labels",
            meaning="fraction of labels that must agree",
            least=0,
            most=1,
            share=True,
        ),
        Limit(
            name="max_abs",
            metric="max_abs",
            direction="at most",
            of="floats",
            meaning="largest absolute difference allowed",
            least=0,
        ),
        Limit(
            name="min_cosine",
            metric="cosine",
            direction="at least",
            of="floats",
            meaning="smallest cosine similarity",
            least=-1,
            most=1,
        ),
        Limit(
            name="min_snr_db",
            metric="snr_db",
            direction="at least",
            of="floats",
            meaning="smallest signal-to-noise ratio, in decibels",
            noise=True,
        ),
        Limit(
            name="min_column_snr_db",
            metric="column_snr_db",
            direction="at least",
            of="floats",
            meaning="smallest signal-to-noise ratio of a column about its mean, in decibels",
            noise=True,
            fewest=FEWEST_ROWS,
        ),
        Limit(
            name="min_top1",
            metric="top1",
            direction="at least",
            of="floats",
            meaning="fraction of rows whose largest element must be the same",
            least=0,
            most=1,
        ),
    )
}
"""By name, in the order in which reports and messages list them."""


FEWEST_RANKED = 20
"""Rows of a case from which a default for `min_top1` is held: below, one row alone would miss 0.95."""
TOP1_OF_SCORES = 0.95
"""The default for `min_top1` in variants, where an output is scores of classes."""


def limits_of(kind: Kind, given: Mapping[str, float]) -> dict[str, float]:
    """Those of the limits given that are for a kind of output, in the order of the table."""
    # A name that is not in the table raises: a limit that nothing holds must not look as if it were held.
    named = sorted(given, key=list(LIMITS).index)
    return {name: given[name] for name in named if LIMITS[name].of == kind}


def is_kept(limit: Limit, allowed: float, got: float | None) -> bool:
    """Whether a metric keeps a limit that isn't a share; what is undefined keeps none."""
    if got is None:
        return False
    return got <= allowed if limit.direction == "at most" else got >= allowed


def distance_beyond(limit: Limit, allowed: float, got: float | None) -> float:
    """How far a metric is on the wrong side of a limit; 0 where it keeps it."""
    if got is None or math.isnan(got):
        return math.inf
    return max(0.0, got - allowed if limit.direction == "at most" else allowed - got)


def any_element_may_differ(limits: Mapping[str, float]) -> bool:
    """Whether the tolerance asks nothing of a single element: what is asked is asked of all together."""
    return limits.get("max_mismatch", 0.0) >= 1


def lets_all_pass(limits: Mapping[str, float], of: Kind) -> bool:
    """Whether no answer of the right form can break them: as many may differ as there are, and no limit asks more."""
    shares = [limit.name for limit in LIMITS.values() if limit.share and limit.of == of]
    return any(name in limits for name in shares) and all(_allows_all(name, limits[name]) for name in limits)


def _allows_all(name: str, value: float) -> bool:
    """Whether a limit is at the end of what a manifest may set, beyond which no metric goes."""
    limit = LIMITS.get(name)
    if limit is None:
        return False
    if limit.direction == "at most":
        return limit.most is not None and value >= limit.most
    return limit.least is not None and value <= limit.least


# 0.29 × 100 is 28.999… in floats: a share that is met exactly must not fail by rounding.
_SLACK = 1e-9


def allowed_mismatches(total: int, max_mismatch: float) -> int:
    """The elements that may be out of tolerance."""
    return math.floor(max_mismatch * total + _SLACK)


MAX_ROWS = "given.max_mismatch"
"""The limit of the case `given`, whose check counts rows instead of elements: no row of the table above."""
_FEWEST_ROWS = 3


def too_many_rows(mismatched: int, rows: int, share: float) -> bool:
    """Whether more rows differ than may; one or two may be ties, however few rows there are."""
    return mismatched >= _FEWEST_ROWS and mismatched > allowed_mismatches(rows, share)


def counts_rows(limits: Mapping[str, float]) -> bool:
    """Whether a check with these limits is one of the case `given`."""
    return MAX_ROWS in limits


def enough_agree(mismatched: int, total: int, min_agreement: float) -> bool:
    """Whether so few labels differ; where all must agree, none may, however many there are."""
    return not mismatched or (min_agreement < 1 and 1 - mismatched / total >= min_agreement - _SLACK)
