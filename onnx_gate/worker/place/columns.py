"""Whether a file takes the columns of its inputs in another order.

Where all columns hold the same number, their order does not matter; where one of them then holds another, the answers
say which column it is. So both sides are asked of rows like that, and columns that have the same effect are the same.
What is found counts only if it makes the answers to the real rows agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.diagnosis.place import Mended
from onnx_gate.worker.place.words import mended_words

_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Reordered:
    """The order in which a file takes the columns."""

    order: tuple[int, ...]
    """For each column of the source, its place in the file."""
    names: tuple[str, ...] = ()
    """Of the columns, where the source knows them."""
    mended: Mended | None = None
    """The file with that order put right."""

    @property
    def advice(self) -> str:
        """Which columns, and what to change."""
        moved = [(at, place) for at, place in enumerate(self.order) if at != place]
        told = [f"{self._named(at)} is read from place {place}" for at, place in moved[:_SHOWN]]
        more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
        return (
            f"The file takes the columns of its inputs in another order, and agrees with the source once they are put "
            f"into that: {', '.join(told)}{more} (places count from 0). Export it again with the columns in the order "
            f"that the source was fitted on. {mended_words(self.mended)}".strip()
        )

    def _named(self, at: int) -> str:
        return f"`{self.names[at]}`" if at < len(self.names) else f"column {at}"


Array = npt.NDArray[Any]
Feed = dict[str, Any]
Ask = Callable[[Feed], Mapping[str, Array]]
MOST_COLUMNS = 256
MOST_SEARCHED = 24
"""Columns whose order is searched for, one exchange after the other."""
PROBES = 12
"""How many pairs of numbers each column is tried with."""
_NEAR = 1e-4
"""By how much two effects may differ, beside the largest of all."""


def find_order(feed: Feed, source: Ask, file: Ask) -> tuple[int, ...] | None:
    """For each column that the source takes, the place at which the file takes it; None where there is no such order.

    Columns are those of all inputs that are tables of numbers, one input after the other. Both sides are asked for
    their answers as numbers, by output name.
    """
    tables = {name: value for name, value in feed.items() if _is_table(value)}
    widths = [value.shape[1] for value in tables.values()]
    count = sum(widths)
    if not 1 < count <= MOST_COLUMNS or len({value.dtype for value in tables.values()}) > 1:
        return None
    rows = _probes(np.hstack(list(tables.values())))
    told = [_effects(_spread(rows, count), tables, feed, ask, count) for ask in (source, file)]
    if any(effects is None for effects in told):
        return None
    order = _matched(*(effects for effects in told if effects is not None))
    return order if order and order != tuple(range(count)) else None


def search_order(feed: Feed, answers: Mapping[str, Array], file: Ask, until: float) -> tuple[int, ...] | None:
    """The same where the source can't be asked: columns change places as long as the answers come nearer to these.

    What is found is only a proposal: the nearest order need not be the right one.
    """
    tables = {name: value for name, value in feed.items() if _is_table(value)}
    count = sum(value.shape[1] for value in tables.values())
    if not 1 < count <= MOST_SEARCHED or len({value.dtype for value in tables.values()}) > 1:
        return None

    def distance(order: list[int]) -> float:
        found = file(reordered(feed, tuple(order)))
        parts = [_apart(value, found[name]) for name, value in answers.items() if value.dtype.kind == "f"]
        return sum(parts) if parts else float("inf")

    order = list(range(count))
    best, better = distance(order), True
    while better and np.isfinite(best) and time.monotonic() < until:
        tried = [(distance(swapped), swapped) for swapped in _swaps(order)]
        nearest, swapped = min(tried, key=lambda one: one[0])
        better = nearest < best
        best, order = (nearest, swapped) if better else (best, order)
    return tuple(order) if order != list(range(count)) else None


def _swaps(order: list[int]) -> Iterator[list[int]]:
    for one, other in combinations(range(len(order)), 2):
        swapped = list(order)
        swapped[one], swapped[other] = order[other], order[one]
        yield swapped


def _apart(reference: Array, actual: Array) -> float:
    if reference.size != actual.size:
        return float("inf")
    return float(np.abs(actual.ravel().astype("float64") - reference.ravel()).mean())


def reordered(feed: Feed, order: tuple[int, ...]) -> Feed:
    """The feed as a file with this order of columns takes it."""
    tables = {name: value for name, value in feed.items() if _is_table(value)}
    whole = np.hstack(list(tables.values()))
    moved = np.empty_like(whole)
    moved[:, list(order)] = whole
    return {**feed, **_split(moved, tables)}


def _is_table(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind == "f"


def _probes(whole: Array) -> list[tuple[Any, Any]]:
    """Pairs of numbers as the columns hold them: what all hold, and what one holds instead."""
    finite = np.unique(whole[np.isfinite(whole)])
    if finite.size < 2:
        return []
    at = np.linspace(0.02, 0.98, PROBES)
    base, other = np.quantile(finite, at), np.quantile(finite, at[::-1] * 0.9 + 0.05)
    return [(one, two) for one, two in zip(base, other, strict=True) if one != two]


def _spread(probes: list[tuple[Any, Any]], count: int) -> Array:
    """The rows: for each pair, one row without the other number and one for each column with it."""
    rows = [np.full((count + 1, count), one) for one, _ in probes]
    for block, (_, two) in zip(rows, probes, strict=True):
        block[np.arange(1, count + 1), np.arange(count)] = two
    return np.vstack(rows) if rows else np.empty((0, count))


def _effects(rows: Array, tables: Mapping[str, Array], feed: Feed, ask: Ask, count: int) -> Array | None:
    """Column → what it does to the answers, one number for each pair and answer."""
    size = len(next(iter(tables.values())))
    answered = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        padded = np.vstack([part, np.repeat(part[-1:], size - len(part), axis=0)])
        first = {name: value[:1] for name, value in feed.items() if name not in tables}
        rest = {name: np.repeat(value, size, axis=0) for name, value in first.items()}
        answers = ask({**feed, **rest, **_split(padded.astype(next(iter(tables.values())).dtype), tables)})
        flat = [value.reshape(size, -1) for value in answers.values() if len(value) == size and value.dtype.kind == "f"]
        if not flat:
            return None
        answered.append(np.hstack(flat)[: len(part)])
    if not answered:
        return None
    whole: Array = np.vstack(answered).astype("float64").reshape(-1, count + 1, answered[0].shape[1])
    effects: Array = (whole[:, 1:] - whole[:, :1]).transpose(1, 0, 2).reshape(count, -1)
    return effects


def _matched(source: Array, file: Array) -> tuple[int, ...] | None:
    """For each column of the source, the one of the file with the same effect; each is taken once."""
    if source.shape != file.shape or not np.isfinite(source).all() or not np.isfinite(file).all():
        return None
    allowed = _NEAR * max(float(np.abs(source).max()), 1e-12)
    left = list(range(len(file)))
    order = []
    for effect in source:
        apart = [float(np.abs(file[at] - effect).max()) for at in left]
        best = int(np.argmin(apart))
        if apart[best] > allowed:
            return None
        order.append(left.pop(best))
    return tuple(order)


def _split(whole: Array, tables: Mapping[str, Array]) -> Feed:
    found, start = {}, 0
    for name, value in tables.items():
        found[name] = np.ascontiguousarray(whole[:, start : start + value.shape[1]])
        start += value.shape[1]
    return found
