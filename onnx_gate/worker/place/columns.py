"""Whether a file takes the columns of its inputs in another order.

If all columns hold the same number, their order does not matter. If one column then gets another number, the change of
the answers identifies this column. So both sides run on such rows, and columns with the same effect are the same.
The order that is found counts only if it makes the answers to the real rows agree.
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
    """For each column of the source, its position in the file."""
    names: tuple[str, ...] = ()
    """Names of the columns, if the source knows them."""
    mended: Mended | None = None
    """The file with the order corrected."""

    @property
    def advice(self) -> str:
        """Advice that names the columns in another order and what to change."""
        moved = [(at, place) for at, place in enumerate(self.order) if at != place]
        told = [f"{self._named(at)} at position {place}" for at, place in moved[:_SHOWN]]
        more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
        return (
            "The file expects the columns of its inputs in another order. With this order, it agrees with the source: "
            f"{', '.join(told)}{more} (positions count from 0). Export it again with the columns in the order "
            f"that the source was fitted on. {mended_words(self.mended)}".strip()
        )

    def _named(self, at: int) -> str:
        return f"`{self.names[at]}`" if at < len(self.names) else f"column {at}"


Array = npt.NDArray[Any]
Feed = dict[str, Any]
Ask = Callable[[Feed], Mapping[str, Array]]
MOST_COLUMNS = 256
MOST_SEARCHED = 24
"""Most columns for which `search_order` tries exchanges one after the other."""
PROBES = 12
"""Number of pairs of numbers that each column is tried with."""
_NEAR = 1e-4
"""Largest difference between two effects that count as the same, relative to the largest effect of all."""


def find_order(feed: Feed, source: Ask, file: Ask) -> tuple[int, ...] | None:
    """For each column of the source, its position in the file; None if no such order exists, or it is the same one.

    The columns are those of all inputs that are tables of numbers, one input after the other. Both sides return their
    answers as numbers, by output name.
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
    """The order of the columns if the source can't run: swaps columns as long as that brings the file's answers closer.

    The order is only a proposal: the closest order need not be the right one.
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
    """The feed, in the order of columns that the file takes."""
    tables = {name: value for name, value in feed.items() if _is_table(value)}
    whole = np.hstack(list(tables.values()))
    moved = np.empty_like(whole)
    moved[:, list(order)] = whole
    return {**feed, **_split(moved, tables)}


def _is_table(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind == "f"


def _probes(whole: Array) -> list[tuple[Any, Any]]:
    """Pairs of numbers from the range of the columns: one for all columns, and another for a single column."""
    finite = np.unique(whole[np.isfinite(whole)])
    if finite.size < 2:
        return []
    at = np.linspace(0.02, 0.98, PROBES)
    base, other = np.quantile(finite, at), np.quantile(finite, at[::-1] * 0.9 + 0.05)
    return [(one, two) for one, two in zip(base, other, strict=True) if one != two]


def _spread(probes: list[tuple[Any, Any]], count: int) -> Array:
    """The rows to run: for each pair, one row of the first number, and one per column with the second number in it."""
    rows = [np.full((count + 1, count), one) for one, _ in probes]
    for block, (_, two) in zip(rows, probes, strict=True):
        block[np.arange(1, count + 1), np.arange(count)] = two
    return np.vstack(rows) if rows else np.empty((0, count))


def _effects(rows: Array, tables: Mapping[str, Array], feed: Feed, ask: Ask, count: int) -> Array | None:
    """The effect of each column on the answers, one number per pair and answer; None if nothing can be measured."""
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
    """For each column of the source, the column of the file with the same effect; each one is used once."""
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
        found[name] = np.asarray(whole[:, start : start + value.shape[1]], order="C")
        start += value.shape[1]
    return found
