"""Rows close to a decision: points where a model's label changes on the way from one row to another.

No part of a model shows where that is: a threshold on a probability, or on a sum, leads back to no single input. So
the point is searched, by bisection between two rows with different labels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance

Array = npt.NDArray[Any]
Rows = Mapping[str, Array]
"""Input → array; the rows are on the first axis."""
MOST_PAIRS = 16
"""The largest number of ways between two rows that are searched."""
_HALVINGS = 16
_WIDENINGS = 6
_TIMES_WIDER = 4.0
_ULPS = 1024
"""The minimal distance of rows from a turn. The numbers that are summed before it are unknown, so the distance is
larger than from a threshold that is known."""
_PRECISION = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
_SINGLE = 2.0**-23
_TIMES_TOLERANCE = 2.0


@dataclass(frozen=True, kw_only=True)
class Told:
    """A model's answers to some rows."""

    labels: Array
    """An integer for each row; the same for the same label."""
    scores: Array
    """All other outputs, with one line per row; no columns where there are none."""


Ask = Callable[[Rows], Told]


@dataclass(frozen=True, kw_only=True)
class _Ways:
    """Ways from one row to another; elements that have no middle are already those of the end row."""

    start: Rows
    end: Rows

    def at(self, share: Array) -> Rows:
        """The rows at these positions on the ways, from 0 to 1."""
        return {name: _between(self.start[name], self.end[name], share) for name in self.start}

    def kept(self, which: Array) -> _Ways:
        """The selected ways."""
        return _Ways(start=_take(self.start, which), end=_take(self.end, which))

    @property
    def gaps(self) -> Array:
        """The part of each way that is large enough to exclude rounding."""
        return np.array([self._gap(row) for row in range(len(next(iter(self.start.values()))))])

    def _gap(self, row: int) -> float:
        ratios = [
            ratio * _PRECISION.get(start.dtype.name, _SINGLE)
            for start, end in ((self.start[name][row], self.end[name][row]) for name in self.start)
            if "float" in start.dtype.name
            for ratio in _ratios(start, end)
        ]
        return _ULPS * float(np.median(ratios)) if ratios else 0.0


def rows_beside_turns(
    rows: Rows, held: Rows, ask: Ask, *, limit: Tolerance, pairs: int, rng: np.random.Generator
) -> Rows | None:
    """Rows on both sides of decisions, without rounding and ties; None where all rows have one label.

    `held` marks the elements that have no middle with others, such as codes.
    """
    told = ask(rows)
    first, second = _pairs(told.labels, pairs, rng)
    if not len(first):
        return None
    scale = np.median(np.abs(told.scores), axis=0) if told.scores.size else np.zeros(told.scores.shape[1])
    ways = _ways(rows, held, first, second)
    before, after = ask(ways.start).labels, told.labels[second]
    turning = before != after
    if not turning.any():
        return None
    return _Search(ways.kept(turning), before[turning], ask, limit, scale).rows()


class _Search:
    """Searches all ways together, so that each step is one call of the model."""

    def __init__(self, ways: _Ways, before: Array, ask: Ask, limit: Tolerance, scale: Array) -> None:
        self._ways, self._before, self._ask = ways, before, ask
        self._limit, self._scale = limit, scale

    def rows(self) -> Rows | None:
        """The rows of both sides, without those that rounding or ties could change."""
        low, high = self._halve()
        sides = [self._clear(low, -1.0), self._clear(high, 1.0)]
        found = [_take(self._ways.at(share), clear) for share, clear in sides if clear.any()]
        if not found:
            return None
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    def _halve(self) -> tuple[Array, Array]:
        """The two positions on each way between which the label changes."""
        low, high = np.zeros(len(self._before)), np.ones(len(self._before))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            same = self._ask(self._ways.at(middle)).labels == self._before
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return low, high

    def _clear(self, at: Array, side: float) -> tuple[Array, Array]:
        """The nearest position on each way that is far enough from the turn, and whether there is one.

        Scores are compared with those on the same side of the turn: votes jump there, and the cause may be near.
        """
        turn = self._ask(self._ways.at(at)).scores
        share, clear = at.copy(), np.zeros(len(at), dtype=bool)
        gap = self._ways.gaps
        for _ in range(_WIDENINGS):
            tried = np.clip(at + side * gap, 0.0, 1.0)
            told = self._ask(self._ways.at(tried))
            right = (told.labels == self._before) == (side < 0)
            fits = right & self._moved(told.scores, turn) & ~clear
            share, clear = np.where(fits, tried, share), clear | fits
            if clear.all():
                break
            gap = gap * _TIMES_WIDER
        return share, clear

    def _moved(self, scores: Array, turn: Array) -> Array:
        """Whether scores differ from those at the turn by more than the tolerance, and the best one leads by as much.

        Scores that are equal to those at the turn are accepted too: the scores of trees don't move.
        """
        if not scores.shape[1]:
            return np.ones(len(scores), dtype=bool)
        with np.errstate(all="ignore"):
            apart = self._limit.atol + self._limit.rtol * np.maximum(np.abs(scores), self._scale)
            moved = (np.abs(scores - turn) > _TIMES_TOLERANCE * apart).any(axis=1)
        wider = Tolerance(rtol=_TIMES_TOLERANCE * self._limit.rtol, atol=_TIMES_TOLERANCE * self._limit.atol)
        still = (scores == turn).all(axis=1)
        return np.asarray((moved | still) & ~tied_rows(scores, wider))


def tied_rows(scores: Array, limit: Tolerance) -> Array:
    """Rows whose two best scores are within the tolerance; for one score, rows on the border between two classes."""
    if scores.shape[1] == 1:
        score = scores[:, 0]
        return np.asarray((np.abs(score) <= limit.atol) | (np.abs(score - 0.5) <= limit.atol + limit.rtol / 2))
    best = np.sort(scores, axis=1)[:, -2:]
    return np.asarray(best[:, 1] - best[:, 0] <= limit.atol + limit.rtol * np.abs(best[:, 1]))


def _pairs(labels: Array, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Pairs of rows with different labels; all pairs of labels take turns."""
    rows = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    kinds = list(itertools.combinations(rows, 2))
    if not kinds:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    order = itertools.islice(itertools.cycle([kinds[i] for i in rng.permutation(len(kinds))]), most)
    chosen = [(rng.choice(rows[one]), rng.choice(rows[other])) for one, other in order]
    first, second = np.array(chosen, dtype=np.intp).T
    return first, second


def _ways(rows: Rows, held: Rows, first: Array, second: Array) -> _Ways:
    """The ways; elements without a middle change at once, at the start, so that only numbers change on the way."""
    start = {}
    for name, array in rows.items():
        low, high = array[first], array[second]
        fixed = _has_no_middle(low) | _has_no_middle(high)
        if name in held:
            fixed |= held[name][first] | held[name][second]
        start[name] = np.where(fixed, high, low)
    return _Ways(start=start, end=_take(rows, second))


def _has_no_middle(array: Array) -> Array:
    if "float" in array.dtype.name:
        return np.asarray(~np.isfinite(array.astype(np.float64)))
    return np.full(array.shape, array.dtype.kind not in "iu")


def _between(start: Array, end: Array, share: Array) -> Array:
    same = _has_no_middle(start) | _has_no_middle(end)
    if same.all():
        return end
    parts = share.reshape(-1, *[1] * (start.ndim - 1))
    low, high = (np.where(same, 0, each).astype(np.float64) for each in (start, end))
    middle = low + (high - low) * parts
    middle = np.rint(middle) if start.dtype.kind in "iu" else middle
    return np.where(same | (start == end), end, middle.astype(start.dtype))


def _ratios(start: Array, end: Array) -> Array:
    """For each element that changes on the way: its size divided by the change."""
    with np.errstate(all="ignore"):
        low, high = start.astype(np.float64).ravel(), end.astype(np.float64).ravel()
        distance = np.abs(high - low)
    moves = np.isfinite(distance) & (distance > 0)
    return np.asarray(np.maximum(np.abs(low), np.abs(high))[moves] / distance[moves])


def _take(rows: Rows, which: Array) -> Rows:
    return {name: array[which] for name, array in rows.items()}
