"""Computes, from the deviations of many elements, the tolerance that covers them all, and errors as multiples of it."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance

Array = npt.NDArray[Any]
_STEPS = 8
"""Bins per octave: each element counts with the smallest size of its bin, which is at most 9 % off."""
_ZERO = -(10**6)
_TOP = 4.0
"""Elements within this factor of the largest determine the relative part of the tolerance."""
_JUMP = 100.0
"""An element that deviates this many times more than the others is a jump: a value crossed a threshold or a tie."""
SMOOTH = 1e-4
"""If the last digit of an input or weight changes an element by more than this share of its size, it is a jump."""
_LEAST = 2.0
"""Least usual deviation, in rounding steps of the output's dtype; it applies if the other elements are exact."""


class Envelope:
    """The largest deviation per size of the reference."""

    def __init__(self) -> None:
        self._largest: dict[int, float] = {}
        self._counts: dict[int, int] = {}

    @classmethod
    def of(cls, keys: Array, largest: Array, counts: Array) -> Envelope:
        """Elements that are sorted into bins already."""
        made = cls()
        made._largest = dict(zip(keys.tolist(), largest.tolist(), strict=True))
        made._counts = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        return made

    def add(self, reference: Array, deviation: Array) -> None:
        """Add elements; those that are not finite are left out."""
        sizes, deviation = np.abs(reference.astype(np.float64).ravel()), deviation.ravel()
        finite = np.isfinite(sizes) & np.isfinite(deviation)
        sizes, deviation = sizes[finite], deviation[finite]
        if not sizes.size:
            return
        keys, places, counts = np.unique(bins_of(sizes), return_inverse=True, return_counts=True)
        largest = np.zeros(len(keys))
        np.maximum.at(largest, places, deviation)
        self.merge(Envelope.of(keys, largest, counts))

    def merge(self, other: Envelope) -> None:
        """Add all elements of another envelope."""
        for key, most in other._largest.items():
            self._largest[key] = max(self._largest.get(key, 0.0), most)
            self._counts[key] = self._counts.get(key, 0) + other._counts[key]

    def sizes_only(self) -> Envelope:
        """The same sizes, without deviations."""
        bare = Envelope()
        bare._largest, bare._counts = dict.fromkeys(self._largest, 0.0), dict(self._counts)
        return bare

    def fit(self, eps: float) -> Tolerance:
        """The tolerance that covers all deviations; at least one rounding step of the output's dtype.

        Large elements determine the relative part. Small elements are mostly sums of larger numbers: the deviation
        that the relative part does not cover there determines the absolute part.
        """
        sizes = {_size(key): most for key, most in self._largest.items()}
        top = max(sizes, default=0.0)
        large = [most / size for size, most in sizes.items() if size and size * _TOP >= top]
        rtol = max(eps, *large) if large else eps
        left = [most - rtol * size for size, most in sizes.items()]
        return Tolerance(rtol=rtol, atol=max(eps * self._typical(), 0.0, *left))

    def over(self, floor: Tolerance) -> float:
        """The largest deviation, as a multiple of what a tolerance allows."""
        allowed = ((most, floor.atol + floor.rtol * _size(key)) for key, most in self._largest.items())
        return max((most / limit if limit else math.inf for most, limit in allowed if most), default=0.0)

    def largest_size(self) -> float:
        """The size of the largest element."""
        return max(map(_size, self._largest), default=0.0)

    def _typical(self) -> float:
        """The median size of the elements that are not 0."""
        keys = sorted(key for key in self._counts if key != _ZERO)
        half, seen = sum(self._counts[key] for key in keys) / 2, 0
        for key in keys:
            seen += self._counts[key]
            if seen >= half:
                return _size(key)
        return 0.0


def bins_of(sizes: Array) -> Array:
    """The numbers of the bins that elements of these sizes belong to."""
    with np.errstate(divide="ignore"):
        steps = np.floor(_STEPS * np.log2(sizes))
    return np.asarray(np.maximum(steps, _ZERO), np.int64)


def rounding_of(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next larger number of a dtype."""
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def without_jumps(reference: Array, deviation: Array, eps: float, *, most: float = np.inf) -> Array:
    """The deviations, with NaN for those that rounding of a sum can't make: a few elements that move by far the most.

    Elements that move by more than the share `most` of their size become NaN as well.
    """
    sizes = np.abs(reference.astype(np.float64))
    finite = np.isfinite(sizes) & np.isfinite(deviation)
    if not finite.any():
        return np.full(deviation.shape, np.nan)
    with np.errstate(all="ignore"):
        scale = sizes + np.median(sizes[finite])
        share = np.where(finite & (scale > 0), deviation / scale, 0.0)
    usual = max(float(np.median(share[finite])), _LEAST * eps)
    return np.where(finite & (share <= min(_JUMP * usual, most)), deviation, np.nan)


def _size(key: int) -> float:
    return 0.0 if key == _ZERO else float(2.0 ** (key / _STEPS))
