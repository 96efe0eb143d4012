"""Finds what failing rows share: properties that nearly all of them have, and almost no other row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.diagnosis.failing import MOST_SHARED, Shared
from onnx_gate.worker.failing.properties import Measure, Property, Row, Tier, properties_of, shortest

Mask = npt.NDArray[np.bool_]
_NEARLY_ALL = 0.95
_NEARLY_NONE = 0.02
_CHANCE = {Tier.SPECIAL: 0.1}
_OTHER_CHANCE = 0.01
"""Largest probability that one of the tried properties of a tier separates the rows by chance."""


@dataclass(frozen=True, kw_only=True)
class _Telling:
    """A property that separates failing rows from others."""

    property: Property
    failing: int
    others: int
    exceptions: int


def shared_by(rows: Sequence[Row], wrong: Mask, names: Sequence[str], *, private: bool) -> tuple[Shared, ...]:
    """The best shared properties; empty if all rows fail, or if no property separates the rows."""
    if not rows or wrong.all() or not wrong.any():
        return ()
    found = list(properties_of(rows, names))
    candidates = [one for each in found for one in (_cut(each, wrong) if isinstance(each, Measure) else (each,))]
    candidates = [one for one in candidates if one.mask.any() and not one.mask.all()]
    tried = Counter(one.tier for one in candidates)
    telling = [told for one in candidates if (told := _told(one, wrong))]
    telling = [one for one in telling if _is_no_chance(one, wrong, tried[one.property.tier])]
    telling.sort(key=lambda one: (one.property.tier, one.exceptions))
    return tuple(_shared(one, private=private) for one in _several(telling))


def _several(telling: Iterable[_Telling]) -> Iterator[_Telling]:
    """The properties of the best tier with the fewest exceptions, one per thing that they describe."""
    about: set[str] = set()
    best: _Telling | None = None
    for one in telling:
        best = best or one
        if one.property.tier != best.property.tier or one.exceptions > best.exceptions:
            return
        if one.property.about in about:
            continue
        about.add(one.property.about)
        yield one
        if len(about) == MOST_SHARED:
            return


def _shared(one: _Telling, *, private: bool) -> Shared:
    words = one.property.private if private else one.property.what
    return Shared(what=words, failing=one.failing, others=one.others)


def _told(one: Property, wrong: Mask) -> _Telling | None:
    failing, others = int((one.mask & wrong).sum()), int((one.mask & ~wrong).sum())
    fail, rest = int(wrong.sum()), int((~wrong).sum())
    if failing < _NEARLY_ALL * fail or others > _NEARLY_NONE * rest:
        return None
    return _Telling(property=one, failing=failing, others=others, exceptions=fail - failing + others)


def _is_no_chance(one: _Telling, wrong: Mask, tried: int) -> bool:
    """Whether it is very unlikely that one of `tried` random properties selects exactly these rows."""
    fail, rest = int(wrong.sum()), int((~wrong).sum())
    chance = _CHANCE.get(one.property.tier, _OTHER_CHANCE)
    ways = _log_choose(fail, fail - one.failing) + _log_choose(rest, one.others)
    return math.log(max(1, tried)) + ways - _log_choose(fail + rest, fail) <= math.log(chance)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _cut(measure: Measure, wrong: Mask) -> Iterator[Property]:
    """Properties that a measure is above or below a threshold, for the thresholds that separate the rows best."""
    values = np.asarray(measure.values, dtype=np.float64)
    known = ~np.isnan(values)
    if not (known & wrong).any() or len(np.unique(values[known])) < 2:
        return
    for side, sign in (("above", 1.0), ("below", -1.0)):
        turned = sign * values
        least = np.sort(turned[known & wrong])
        # Include all failing rows, or all except the few that may be exceptions.
        for at in {0, int((1 - _NEARLY_ALL) * len(least))}:
            mask = known & (turned >= least[at])
            beyond = turned[known & ~mask]
            if beyond.size:
                yield _beyond(measure, mask, side, sign, float(beyond.max()), float(least[at]))


def _beyond(measure: Measure, mask: Any, side: str, sign: float, last: float, first: float) -> Property:
    """The property with a bound between the rows that lack it and those that have it.

    `above 5` is true for 5.1 and not for 5.
    """
    bound = shortest(last, first, lower=True) if sign > 0 else shortest(-first, -last, lower=False)
    what = f"{measure.of} {side} {bound}"
    return Property(
        tier=measure.tier,
        what=what,
        private=what if measure.open else f"{measure.of} {side} a certain value",
        about=measure.about,
        mask=np.asarray(mask),
    )
