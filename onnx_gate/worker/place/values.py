"""Checks whether two values are the same up to rounding, and in which layout."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance

Array = npt.NDArray[Any]
TIMES = 8.0
"""Two values agree if they differ by at most this multiple of the noise."""
FLOOR = 8 * float(np.finfo("float32").eps)
"""Noise of one float32 step, relative to the largest number of a value: sums in another order differ by a few units."""
_GONE = 0.01
"""Share of elements that may differ although two values agree, such as rows on the other side of a threshold."""
_AS_LARGE, _MASKED = 0.99, 1e-3
"""A mask constant is recognised by these shares of the largest number: numbers above the first are the constant, and
all others are below the second."""
_FAR = 0.1
"""Share of the largest number of a column above which an error is far off."""
_TOO_SMALL = 4 * float(np.finfo("float32").eps)
"""A column below this share of the largest number may consist of rounding alone."""
_LOST = 4 * float(np.finfo("float32").eps)
"""The share of the largest number that a few operations in float32 lose."""
_LEAST_ROWS = 4
"""Fewest elements of a unit with which it can be recognised."""
_MOST_AXES = 5
_OF_COLUMN, _OF_SPREAD = 1e-3, 0.1
"""Shares of the largest number of a column, and of its standard deviation, above which an error is large for it."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How one value is rearranged to become the other."""

    axes: tuple[int, ...]
    """Order of axes for the transpose, which comes first; empty for no transpose."""
    shape: tuple[int, ...]
    """Shape for the reshape, which comes second."""

    def of(self, value: Array) -> Array:
        """The value in this layout."""
        moved = value.transpose(self.axes) if self.axes else value
        return np.asarray(moved, order="C").reshape(self.shape)


def noise_of(value: Array, measured: float = 0.0) -> float:
    """The noise of a value from rounding: the measured one, or that of one float32 step if that is larger."""
    scale = _scale(np.abs(value[np.isfinite(value)])) if value.dtype.kind == "f" else 0.0
    step = FLOOR if value.dtype != np.float16 else 8 * float(np.finfo("float16").eps)
    return max(measured, step * scale)


def _scale(sizes: Array) -> float:
    """The largest number, without the constant of a mask, such as −1e9."""
    if not sizes.size:
        return 0.0
    most = float(sizes.max())
    masked = sizes >= _AS_LARGE * most
    rest = float(sizes[~masked].max(initial=0.0))
    return rest if rest > 0 and masked.sum() > 1 and rest <= _MASKED * most else most


def agree(truth: Array, value: Array, noise: float = 0.0) -> bool:
    """Whether a value is the true one, up to rounding."""
    return wrong_share(truth, value, noise) == 0.0


def nearly(truth: Array, value: Array, noise: float = 0.0) -> bool:
    """Like `agree`, but a few elements may differ, unless they fill one unit: a wrong row of weights is not chance."""
    if truth.shape != value.shape:
        return False
    wrong = wrong_elements(truth, value, noise)
    return not wrong.any() or (bool(wrong.mean() <= _GONE) and not _of_one_unit(wrong))


def is_gone(before: Array, after: Array) -> bool:
    """Whether at most 1 % of the failing elements still fail, and these do not fill a unit; both are masks."""
    if before.shape != after.shape:
        return False
    return int(after.sum()) <= _GONE * int(before.sum()) and not _of_one_unit(after)


def _of_one_unit(wrong: Array) -> bool:
    """Whether a column or a channel is wrong in most of its elements."""
    axes = {1, wrong.ndim - 1} if wrong.ndim > 1 else set()
    sides = [np.moveaxis(wrong, axis, 0).reshape(wrong.shape[axis], -1) for axis in axes]
    return any(side.shape[1] >= _LEAST_ROWS and bool((2 * side.sum(axis=1) > side.shape[1]).any()) for side in sides)


def wrong_share(truth: Array, value: Array, noise: float = 0.0) -> float:
    """The share of elements that rounding does not explain."""
    if truth.shape != value.shape:
        return 1.0
    return float(np.mean(wrong_elements(truth, value, noise))) if truth.size else 0.0


def wrong_elements(truth: Array, value: Array, noise: float = 0.0) -> Array:
    """A mask of the elements that rounding does not explain; both values have the same shape."""
    if truth.dtype.kind not in "fc" or value.dtype.kind not in "fc":
        return np.asarray(truth != value)
    allowed = TIMES * noise_of(truth, noise)
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(value.astype("float64") - truth) > np.maximum(allowed, TIMES * FLOOR * np.abs(truth))
    return np.asarray((far | (np.isnan(value) != np.isnan(truth))) & ~(value == truth))


def off_in_column(truth: Array, value: Array) -> Array:
    """A mask of the elements whose error is large for their column, though it may be small beside other columns.

    A column is an index of the last axis. Both values have the same shape.
    """
    if truth.dtype.kind != "f" or value.dtype.kind != "f" or not truth.size:
        return np.zeros(truth.shape, dtype=bool)
    wide = [side.astype("float64").reshape(-1, side.shape[-1] if side.ndim > 1 else 1) for side in (truth, value)]
    rows = np.where(np.isfinite(wide[0]), wide[0], np.nan)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        largest = np.nanmax(np.abs(rows), axis=0)
        spread = np.nanstd(rows, axis=0) if len(rows) >= _LEAST_ROWS else np.full(largest.shape, np.inf)
        allowed = np.minimum(_OF_COLUMN * largest, np.maximum(_OF_SPREAD * spread, TIMES * FLOOR * largest))
        # What float32 loses of the largest number is no error of a column that should be 0, such as the distances of
        # points to themselves.
        off = np.abs(wide[1] - rows) > np.maximum(allowed, _LOST * np.nanmax(largest))
    return np.asarray(off.reshape(truth.shape))


def far_in_column(truth: Array, value: Array) -> Array:
    """A mask of the elements that are far off for a column that is small beside others, but more than their rounding.

    Stricter than `off_in_column`: of a value within the graph nobody knows the tolerance.
    """
    if truth.dtype.kind != "f" or value.dtype.kind != "f" or truth.ndim < 2 or not truth.size:
        return np.zeros(truth.shape, dtype=bool)
    wide, other = (side.astype("float64").reshape(-1, side.shape[-1]) for side in (truth, value))
    with np.errstate(all="ignore"):
        largest = np.abs(wide).max(axis=0)
        far = (np.abs(other - wide) > _FAR * largest) & (largest >= _TOO_SMALL * largest.max())
    return np.asarray(far.reshape(truth.shape))


def beyond(truth: Array, value: Array, tolerance: Tolerance) -> Array:
    """A mask of the elements that are out of tolerance; both values have the same shape."""
    with np.errstate(all="ignore"):
        near = np.isclose(value.astype("float64"), truth, tolerance.rtol, tolerance.atol, equal_nan=True)
    return np.asarray(~near)


def largest_error(truth: Array, value: Array) -> float:
    """The largest difference between a value and the true one; infinity if the shapes differ."""
    if truth.shape != value.shape:
        return float("inf")
    if truth.dtype.kind not in "fc":
        return float(np.mean(truth != value)) if truth.size else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(value.astype("float64") - truth)
    return float(np.nanmax(error)) if error.size and not np.isnan(error).all() else 0.0


def layouts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[Layout]:
    """The layouts that turn one shape into another: unchanged, reshaped, or with moved axes."""
    if int(np.prod(shape)) != int(np.prod(wanted)):
        return
    yield Layout(axes=(), shape=wanted)
    solid = len(shape)
    if not 2 <= solid <= _MOST_AXES:
        return
    for axes in permutations(range(solid)):
        moved = tuple(shape[axis] for axis in axes)
        if axes != tuple(range(solid)) and _folds(moved, wanted):
            yield Layout(axes=axes, shape=wanted)


def _folds(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether two shapes are equal, ignoring axes of length 1 and one joined pair of axes."""
    return _solid(shape) == _solid(wanted) or _joined(_solid(shape), _solid(wanted))


def _solid(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _joined(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether joining two neighbouring axes turns one shape into the other."""
    return any(
        (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]) == wanted for axis in range(len(shape) - 1)
    )


def same_content(one: Array, other: Array) -> bool:
    """Whether two stored tensors are the same, in any layout; floats are compared in the narrower dtype."""
    if one.size != other.size or (one.dtype.kind == "f") != (other.dtype.kind == "f"):
        return False
    if one.dtype.kind not in "fiub" or one.size == 0:
        return bool(np.array_equal(one, other))
    if one.dtype.kind == "f" and one.dtype != other.dtype:
        narrow = min(one.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
        one, other = one.astype(narrow), other.astype(narrow)
    return any(np.array_equal(way.of(other), one) for way in layouts(other.shape, one.shape))


def fingerprint(value: Array) -> tuple[float, float, float]:
    """Sum, sum of squares and largest absolute number: no layout changes these."""
    wide = value.astype("float64", copy=False)
    with np.errstate(all="ignore"):
        return float(wide.sum()), float(np.square(wide).sum()), float(np.abs(wide).max()) if wide.size else 0.0


def may_agree(one: tuple[float, float, float], other: tuple[float, float, float], size: int, noise: float) -> bool:
    """Whether two fingerprints can belong to values that agree; rejects most pairs cheaply."""
    allowed = TIMES * noise
    if not abs(one[2] - other[2]) <= allowed:
        return False
    largest = max(one[2], other[2])
    return abs(one[0] - other[0]) <= allowed * size and abs(one[1] - other[1]) <= 2 * allowed * largest * size


def telling(value: Array) -> bool:
    """Whether a value can be recognised: it has at least two different numbers, and all are finite."""
    if value.dtype.kind not in "f" or value.size < 2:
        return False
    return bool(np.isfinite(value).all() and value.min() != value.max())
