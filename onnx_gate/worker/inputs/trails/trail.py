"""A value within a model that is still an input: every element, and the straight line that leads to it.

Reshapes, slices and the like move the numbers of the elements as they move the elements themselves, so that no rule for
axes is needed: whoever follows a model does the same to both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec

Array = npt.NDArray[Any]
NOWHERE = -1
"""The number of an element that comes from no input."""
FAR_BELOW = -1e30
"""Stands for −inf, with which no line can be computed."""


@dataclass(frozen=True, kw_only=True)
class Trail:
    """value = scale · element + offset, for each value of an array."""

    ids: Array
    """Which element of which input, by the numbers of a `Space`."""
    scale: Array
    """One for all, or one for each value."""
    offset: Array
    """One for all, or one for each value."""
    reach: Array
    """The largest operand on the way, in the values of the input; one for all, or one for each value."""
    truth: str = ""
    """How it became true or false: `given`, `equal` or `ordered`. The line then holds for 0 and 1 alone."""
    learned: bool = False
    """A learned weight is among the factors, which says nothing about ordinary values."""
    whole: bool = False
    """A sum, a mean, a maximum or a minimum: the line holds where all of the elements have the same value, and `ids`
    names one of them."""

    def moved(self, move: Callable[[Array], Array]) -> Trail:
        """After something that only changes the places of values."""
        return replace(
            self,
            ids=move(self.ids),
            scale=move(self.scale) if self.scale.ndim else self.scale,
            offset=move(self.offset) if self.offset.ndim else self.offset,
            reach=move(self.reach) if self.reach.ndim else self.reach,
        )

    def full(self) -> Trail:
        """With one number for each value."""
        shape = self.ids.shape
        return replace(
            self,
            scale=np.broadcast_to(self.scale, shape).copy(),
            offset=np.broadcast_to(self.offset, shape).copy(),
            reach=np.broadcast_to(self.reach, shape).copy(),
        )

    def plus(self, constant: Array) -> Trail:
        """After adding it."""
        trail = self._spread(constant)
        with np.errstate(all="ignore"):
            operand = np.abs(np.nan_to_num(constant / trail.scale))
        return replace(trail, offset=trail.offset + constant, reach=np.maximum(trail.reach, operand))._even()

    def times(self, constant: Array) -> Trail:
        """After multiplying by it."""
        trail = self._spread(constant)
        return replace(trail, scale=trail.scale * constant, offset=trail.offset * constant)._even()

    def at(self, value: float) -> Array:
        """What it is where the element of the input has this value."""
        return np.broadcast_to(self.scale * value + self.offset, self.ids.shape)

    def back(self, value: Array) -> tuple[Trail, Array]:
        """The values of the input that lead to it, NaN where none does, beside a trail of the same shape."""
        trail = self._spread(value)
        with np.errstate(all="ignore"):
            found = (value - trail.offset) / trail.scale
        return trail, np.broadcast_to(np.where(np.isfinite(found), found, np.nan), trail.ids.shape)

    def between(self, off: Array, on: Array, kind: str) -> Trail | None:
        """The line through two values, for the elements 0 and 1; None where they are the same."""
        one, other = np.asarray(off, dtype=np.float64), np.asarray(on, dtype=np.float64)
        if np.array_equal(one, other):
            return None
        ids = np.broadcast_to(self.ids, one.shape)
        return replace(self, ids=ids, scale=other - one, offset=one, truth=self.truth or kind)

    def total(self, kind: str, axes: tuple[int, ...], *, keep: bool) -> Trail | None:
        """A sum, a mean, or else an extreme: what it is where all elements are the same."""
        if self.truth or self.whole or (kind not in ("sum", "mean") and (self.scale.ndim or self.offset.ndim)):
            return None
        full = self.full()
        reduce: Any = {"sum": np.sum, "mean": np.mean}.get(kind, np.max)
        return replace(
            full,
            ids=full.ids.min(axis=axes, keepdims=keep),
            scale=np.asarray(reduce(full.scale, axis=axes, keepdims=keep)),
            offset=np.asarray(reduce(full.offset, axis=axes, keepdims=keep)),
            reach=np.asarray(full.reach.max(axis=axes, keepdims=keep)),
            whole=True,
        )

    @property
    def plain(self) -> bool:
        """Whether it is the input itself."""
        return bool(np.all(self.scale == 1) and np.all(self.offset == 0)) and not self.truth

    def _spread(self, constant: Array) -> Trail:
        """Broadcast against a constant, where that makes it larger."""
        if constant.ndim == 0 or constant.shape == (1,):
            return self
        shape = np.broadcast_shapes(self.ids.shape, constant.shape)
        return self.moved(lambda array: np.broadcast_to(array, shape)) if shape != self.ids.shape else self

    def _even(self) -> Trail:
        """Each part is one number, or has one for each value."""
        return replace(self, scale=self._fit(self.scale), offset=self._fit(self.offset), reach=self._fit(self.reach))

    def _fit(self, part: Array) -> Array:
        return part if part.ndim == 0 else np.broadcast_to(part, self.ids.shape)


@dataclass(frozen=True, kw_only=True)
class Space:
    """Numbers for the elements of all inputs."""

    given: Mapping[str, InputSpec]
    """The schema of each."""
    starts: Mapping[str, int]
    """The number of its first element."""
    shapes: Mapping[str, tuple[int, ...]]
    """Its shape in the example."""

    def width(self, name: str) -> int:
        """The size of an input on the last axis."""
        shape = self.shapes[name]
        return shape[-1] if len(shape) > 1 else 1

    def split(self, ids: Array) -> list[tuple[str, Array]]:
        """Each input that is among the numbers, with where it is; of an ordinary input, its first row alone."""
        found = []
        for name, start in self.starts.items():
            size = int(np.prod(self.shapes[name]))
            place = (ids >= start) & (ids < start + size)
            first = place & (ids < start + size // max(self.shapes[name][0], 1)) if self.shapes[name] else place
            if place.any():
                found.append((name, first if first.any() else place))
        return found

    def columns(self, name: str, ids: Array) -> Array:
        """The places on the last axis."""
        return (ids - self.starts[name]) % max(self.width(name), 1)

    def sizes(self) -> dict[str, int]:
        """Named dimensions other than the batch, with their sizes in the example."""
        return {
            named: size
            for name, given in self.given.items()
            for named, size in zip(given.shape, self.shapes[name], strict=False)
            if isinstance(named, str) and named != "batch"
        }


MOST_ELEMENTS = 4_000_000
"""Of an input that is followed: its numbers have to fit into memory a few times."""


def begin(inputs: tuple[InputSpec, ...], feed: Mapping[str, Any]) -> tuple[Space, dict[str, Trail]]:
    """A trail for every input of numbers that isn't too large."""
    space = Space(given={given.name: given for given in inputs}, starts={}, shapes={})
    starts, shapes, trails = {}, {}, {}
    at = 0
    for given in inputs:
        shapes[given.name] = tuple(np.shape(feed[given.name]))
        starts[given.name] = at
        size = int(np.prod(shapes[given.name]))
        if given.dtype != "string" and 0 < size <= MOST_ELEMENTS:
            ids = np.arange(at, at + size, dtype=np.int64).reshape(shapes[given.name])
            trails[given.name] = trail_of(ids, truth="given" if given.dtype == "bool" else "")
        at += size
    return replace(space, starts=starts, shapes=shapes), trails


def trail_of(ids: Array, truth: str = "") -> Trail:
    """The very elements."""
    return Trail(ids=ids, scale=np.array(1.0), offset=np.array(0.0), reach=np.array(0.0), truth=truth)


def joined(trails: list[Trail | Array], join: Callable[[list[Array]], Array]) -> Trail:
    """Several trails and constants put together, as `join` does with their values."""
    parts = [part.full() if isinstance(part, Trail) else constant_trail(part) for part in trails]
    known = [part for part in trails if isinstance(part, Trail)]
    return Trail(
        ids=join([part.ids for part in parts]),
        scale=join([part.scale for part in parts]),
        offset=join([part.offset for part in parts]),
        reach=join([part.reach for part in parts]),
        truth=known[0].truth if known else "",
        learned=any(part.learned for part in known),
    )


def constant_trail(value: Array) -> Trail:
    """Values that come from no input."""
    shape = value.shape
    return Trail(
        ids=np.full(shape, NOWHERE, dtype=np.int64),
        scale=np.zeros(shape),
        offset=np.nan_to_num(value.astype(np.float64), neginf=FAR_BELOW, posinf=-FAR_BELOW),
        reach=np.zeros(shape),
    )
