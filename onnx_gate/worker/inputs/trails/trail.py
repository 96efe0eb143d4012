"""A value inside a model that still follows from an input: for each element, a straight line leads to it.

Reshapes, slices and similar operations move the elements. The code that follows a model applies the same operation to
the numbers of the elements, so that no rules for axes are needed.
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
"""Replaces −inf, with which no line can be computed."""


@dataclass(frozen=True, kw_only=True)
class Trail:
    """value = scale · element + offset, for each value of an array."""

    ids: Array
    """The input element of each value, as a number of a `Space`."""
    scale: Array
    """One number for all values, or one per value."""
    offset: Array
    """One number for all values, or one per value."""
    reach: Array
    """The largest operand on the way, in units of the input; one number for all values, or one per value."""
    truth: str = ""
    """How the value became true or false: `given`, `equal` or `ordered`. The line then holds only for 0 and 1."""
    learned: bool = False
    """Whether a learned weight is among the factors; the line then says nothing about ordinary values."""
    whole: bool = False
    """Whether this is a sum, a mean, a maximum or a minimum. The line then holds if all elements have the same value,
    and `ids` names one of them."""

    def moved(self, move: Callable[[Array], Array]) -> Trail:
        """The trail after an operation that only moves values."""
        return replace(
            self,
            ids=move(self.ids),
            scale=move(self.scale) if self.scale.ndim else self.scale,
            offset=move(self.offset) if self.offset.ndim else self.offset,
            reach=move(self.reach) if self.reach.ndim else self.reach,
        )

    def full(self) -> Trail:
        """The same trail, with one number per value in each part."""
        shape = self.ids.shape
        return replace(
            self,
            scale=np.broadcast_to(self.scale, shape).copy(),
            offset=np.broadcast_to(self.offset, shape).copy(),
            reach=np.broadcast_to(self.reach, shape).copy(),
        )

    def plus(self, constant: Array) -> Trail:
        """The trail after adding a constant."""
        trail = self._spread(constant)
        with np.errstate(all="ignore"):
            operand = np.abs(np.nan_to_num(constant / trail.scale))
        return replace(trail, offset=trail.offset + constant, reach=np.maximum(trail.reach, operand))._even()

    def times(self, constant: Array) -> Trail:
        """The trail after multiplying by a constant."""
        trail = self._spread(constant)
        return replace(trail, scale=trail.scale * constant, offset=trail.offset * constant)._even()

    def at(self, value: float) -> Array:
        """The values inside the model if the input's elements have this value."""
        return np.broadcast_to(self.scale * value + self.offset, self.ids.shape)

    def back(self, value: Array) -> tuple[Trail, Array]:
        """A trail of the same shape, and the input values that lead to `value`; NaN where no input value does."""
        trail = self._spread(value)
        with np.errstate(all="ignore"):
            found = (value - trail.offset) / trail.scale
        return trail, np.broadcast_to(np.where(np.isfinite(found), found, np.nan), trail.ids.shape)

    def between(self, off: Array, on: Array, kind: str) -> Trail | None:
        """The line through two values, for an element of 0 and of 1; None if they are the same."""
        one, other = np.asarray(off, dtype=np.float64), np.asarray(on, dtype=np.float64)
        if np.array_equal(one, other):
            return None
        ids = np.broadcast_to(self.ids, one.shape)
        return replace(self, ids=ids, scale=other - one, offset=one, truth=self.truth or kind)

    def total(self, kind: str, axes: tuple[int, ...], *, keep: bool) -> Trail | None:
        """The trail of a sum, a mean or an extreme, which holds if all elements are the same."""
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
        """Whether the value is the input itself, unchanged."""
        return bool(np.all(self.scale == 1) and np.all(self.offset == 0)) and not self.truth

    def _spread(self, constant: Array) -> Trail:
        """The trail, broadcast to the shape of a constant if that is larger."""
        if constant.ndim == 0 or constant.shape == (1,):
            return self
        shape = np.broadcast_shapes(self.ids.shape, constant.shape)
        return self.moved(lambda array: np.broadcast_to(array, shape)) if shape != self.ids.shape else self

    def _even(self) -> Trail:
        """The trail with each part as a single number, or with one number per value."""
        return replace(self, scale=self._fit(self.scale), offset=self._fit(self.offset), reach=self._fit(self.reach))

    def _fit(self, part: Array) -> Array:
        return part if part.ndim == 0 else np.broadcast_to(part, self.ids.shape)


@dataclass(frozen=True, kw_only=True)
class Space:
    """Numbers for the elements of all inputs."""

    given: Mapping[str, InputSpec]
    """Input → its schema."""
    starts: Mapping[str, int]
    """Input → the number of its first element."""
    shapes: Mapping[str, tuple[int, ...]]
    """Input → its shape in the example."""

    def width(self, name: str) -> int:
        """The size of an input on the last axis."""
        shape = self.shapes[name]
        return shape[-1] if len(shape) > 1 else 1

    def split(self, ids: Array) -> list[tuple[str, Array]]:
        """Each input that occurs in the numbers, and where; if its first row occurs, only that row."""
        found = []
        for name, start in self.starts.items():
            size = int(np.prod(self.shapes[name]))
            place = (ids >= start) & (ids < start + size)
            first = place & (ids < start + size // max(self.shapes[name][0], 1)) if self.shapes[name] else place
            if place.any():
                found.append((name, first if first.any() else place))
        return found

    def columns(self, name: str, ids: Array) -> Array:
        """The positions of these elements on the last axis."""
        return (ids - self.starts[name]) % max(self.width(name), 1)

    def sizes(self) -> dict[str, int]:
        """Named dimensions except the batch, with their sizes in the example."""
        return {
            named: size
            for name, given in self.given.items()
            for named, size in zip(given.shape, self.shapes[name], strict=False)
            if isinstance(named, str) and named != "batch"
        }


MOST_ELEMENTS = 4_000_000
"""Most elements of an input that is followed: its numbers must fit into memory several times."""


def begin(inputs: tuple[InputSpec, ...], feed: Mapping[str, Any]) -> tuple[Space, dict[str, Trail]]:
    """A trail for every numeric input that isn't too large."""
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
    """The trail of unchanged input elements."""
    return Trail(ids=ids, scale=np.array(1.0), offset=np.array(0.0), reach=np.array(0.0), truth=truth)


def joined(trails: list[Trail | Array], join: Callable[[list[Array]], Array]) -> Trail:
    """The trail of several trails and constants that `join` puts together."""
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
    """A trail for values that come from no input."""
    shape = value.shape
    return Trail(
        ids=np.full(shape, NOWHERE, dtype=np.int64),
        scale=np.zeros(shape),
        offset=np.nan_to_num(value.astype(np.float64), neginf=FAR_BELOW, posinf=-FAR_BELOW),
        reach=np.zeros(shape),
    )
