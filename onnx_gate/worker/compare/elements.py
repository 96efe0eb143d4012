"""All metrics of two float arrays in one pass, in chunks that fit the cache.

Each chunk goes through a fast path in the arrays' own dtype. Where the fast path can't decide (values that
aren't finite, squares that overflow or underflow, elements within rounding of their limit), that chunk is computed
again in float64, so that the result stays correct.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.compare.differing import RowCount

CHUNK = 3 << 16
# Wider than float32's rounding: an element this near its limit is compared again in float64.
_DOUBTFUL = 1 - 1e-5
_SUMMED = 1 << 12
"""Elements that are summed in their own dtype; sums of these are added in float64."""
_VANISHING = 1e-30
_MANY = 1 / 64
"""From this share of a chunk on, a pass over all its elements is faster than float64 for some of them."""
_ORDINARY = (1e-12, 1e12)
"""Between these, float32 can hold `rtol` and `atol / rtol`, and what they are multiplied with or added to."""
SATURATED = 1e-4
"""A probability this near to 0 or 1 says little about the score that it comes from."""

Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]


@dataclass
class Elements:
    """Running sums over all chunks of one output."""

    tolerance: Tolerance
    total: int = 0
    mismatched: int = 0
    nan_matched: int = 0
    nonfinite_mismatched: int = 0
    nan_mismatched: int = 0
    finite: int = 0
    nonzero: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    used: float = 0.0
    """The largest difference, as a share of what the tolerance allows for its element."""
    sum_abs: float = 0.0
    sum_rel: float = 0.0
    sum_dd: float = 0.0
    sum_dr: float = 0.0
    sum_rr: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf
    saturated: int = 0
    worst: int = -1
    """Flat index of the worst element added so far; a mismatched one, if there are any."""
    _worst_rank: tuple[int, float] = (-1, -1.0)

    def add(self, reference: npt.NDArray[np.generic], actual: npt.NDArray[np.generic], *, row: int = 0) -> int:
        """Add two arrays of one shape; the number of rows, of `row` elements each, that differ."""
        flat_reference, flat_actual = np.ravel(reference), np.ravel(actual)
        fast = flat_reference.dtype == flat_actual.dtype and flat_reference.dtype in (np.float32, np.float64)
        buffers = _Buffers(flat_reference.dtype, min(CHUNK, flat_reference.size)) if fast else None
        rows = RowCount(row) if row else None
        with np.errstate(all="ignore"):
            for start in range(0, flat_reference.size, CHUNK):
                r, a = flat_reference[start : start + CHUNK], flat_actual[start : start + CHUNK]
                if buffers is None or not self._add_fast(r, a, buffers.of(r.size), rows):
                    self._add_exact(r.astype(np.float64), a.astype(np.float64), rows)
                self.total += r.size
        return rows.count if rows else 0

    def _add_fast(self, r: Floats, a: Floats, buffers: _Buffers, rows: RowCount | None) -> bool:
        """Add a chunk in its own dtype; False, with nothing added, where that is not exact enough."""
        n, d, scale = r.size, buffers.first, buffers.second
        # All that reads `r` comes first, while it is still in the cache.
        np.subtract(a, r, out=d)
        sum_dr, sum_rr = float(np.dot(d, r)), float(np.dot(r, r))
        lowest, highest = float(_least(r)), float(_most(r))
        np.abs(r, out=scale)
        sum_dd = float(np.dot(d, d))
        np.abs(d, out=d)
        # `argmax` is faster than `max`, and misses no NaN either: it returns the position of the first one.
        at = int(d.argmax())
        largest = float(d[at])
        if not math.isfinite(sum_dd + sum_rr + largest) or sum_rr < _VANISHING * n:
            return False
        if largest > 0 and sum_dd < _VANISHING * n:
            return False
        self._look_at_range(r, lowest, highest, buffers)
        zeros = self._add_relative(buffers, nonzero=not lowest <= 0.0 <= highest, same=not largest)
        sum_abs = _sum(d, buffers.ones) if largest else 0.0
        wrong = self._look_at_use(r, a, at, self._least_of_note(lowest, highest), buffers) if largest else None
        if rows is not None:
            rows.skip(n) if wrong is None else rows.add(wrong)
        if self._worst_rank[0] <= 0:
            self._remember_worst((0, largest), at)
        self._add_sums(n, n - zeros, largest, sum_abs, sum_dd, sum_dr, sum_rr)
        return True

    def _add_relative(self, buffers: _Buffers, *, nonzero: bool, same: bool) -> int:
        """Add the relative differences of a chunk; the number of elements without one, as their reference is 0."""
        d, scale, work = buffers.first, buffers.second, buffers.third
        if same:
            return 0 if nonzero else int(scale.size - np.count_nonzero(np.not_equal(scale, 0, out=buffers.marks)))
        np.divide(d, scale, out=work)
        zeros, largest = 0, float(_most(work))
        if not math.isfinite(largest):
            zeros = int(np.count_nonzero(np.equal(scale, 0, out=buffers.marks)))
            work[buffers.marks] = 0.0
            largest = float(_most(work))
        self.max_rel = max(self.max_rel, largest)
        self.sum_rel += _sum(work, buffers.ones)
        return zeros

    def _least_of_note(self, lowest: float, highest: float) -> float:
        """A difference up to this can't raise `used`, if the reference lies between `lowest` and `highest`."""
        smallest = 0.0 if lowest <= 0.0 <= highest else min(abs(lowest), abs(highest))
        return self.used * (self.tolerance.atol + self.tolerance.rtol * smallest)

    def _look_at_use(self, r: Floats, a: Floats, at: int, least: float, buffers: _Buffers) -> Mask | None:
        """Update `used`; which elements are out of tolerance, None if there are none; `at` differs most."""
        d, tolerance = buffers.first, self.tolerance
        if d[at] > tolerance.atol * _DOUBTFUL or not least:
            most, unit = self._compute_shares(r, a, buffers)
            return self._count_mismatches(r, a, at, unit, buffers) if most > unit * _DOUBTFUL else None
        if d[at] > least:
            more = np.greater(d, d.dtype.type(least), out=buffers.marks)
            if np.count_nonzero(more) > _MANY * r.size:
                # If errors grow with their elements, `least` excludes too few of them.
                self._compute_shares(r, a, buffers)
            else:
                self._use(*_distances(r, a, more.nonzero()[0]))
        return None

    def _compute_shares(self, r: Floats, a: Floats, buffers: _Buffers) -> tuple[float, float]:
        """Each difference as a share of what the tolerance allows; returns the largest share, and their unit.

        The shares take the place of the absolute references. The largest ones are computed in float64.
        """
        d, scale = buffers.first, buffers.second
        # In place: a third array costs as much as the computation.
        share = scale
        atol, rtol = self.tolerance.atol, self.tolerance.rtol
        low, high = _ORDINARY
        if low <= rtol <= high and atol <= rtol * high:
            # `atol + rtol * scale` in units of rtol: one pass less.
            unit = rtol
            np.add(scale, d.dtype.type(atol / rtol), out=share)
        else:
            unit = 1.0
            np.multiply(scale, d.dtype.type(rtol), out=share)
            np.add(share, d.dtype.type(atol), out=share)
        np.divide(d, share, out=share)
        most = _most(share)
        if math.isnan(most):
            # 0 / 0: no difference, where no difference is allowed.
            share[np.isnan(share, out=buffers.marks)] = 0.0
            most = _most(share)
        if most > self.used * unit * _DOUBTFUL:
            more = np.greater_equal(share, most * d.dtype.type(_DOUBTFUL), out=buffers.marks).nonzero()[0]
            self._use(*_distances(r, a, more))
        return float(most), unit

    def _use(self, distance: npt.NDArray[np.float64], r: npt.NDArray[np.float64]) -> None:
        differing = distance > 0
        if not differing.any():
            return
        share = distance[differing] / (self.tolerance.atol + self.tolerance.rtol * np.abs(r[differing]))
        # Inf / Inf: both the distance and the limit overflow. The distance is within the limit, and uses all of it.
        share[np.isnan(share)] = 1.0
        self.used = max(self.used, float(share.max()))

    def _count_mismatches(self, r: Floats, a: Floats, at: int, unit: float, buffers: _Buffers) -> Mask:
        """Which elements have a share above `unit`: are out of tolerance; `at` differs most."""
        d, share, beyond, sure = buffers.first, buffers.second, buffers.marks, buffers.more_marks
        count = int(np.count_nonzero(np.greater(share, share.dtype.type(unit * _DOUBTFUL), out=beyond)))
        certain = int(np.count_nonzero(np.greater(share, share.dtype.type(unit / _DOUBTFUL), out=sure)))
        if certain:
            self.mismatched += certain
            worst = at if sure[at] else int(np.multiply(d, sure, out=share).argmax())
            self._remember_worst((1, float(d[worst])), worst)
        if certain < count:
            doubtful = np.not_equal(beyond, sure, out=beyond).nonzero()[0]
            distance, r64 = _distances(r, a, doubtful)
            indeed = self._beyond(distance, r64)
            self._count(distance, indeed, doubtful)
            sure[doubtful[indeed]] = True
        return sure

    def _add_exact(self, r: npt.NDArray[np.float64], a: npt.NDArray[np.float64], rows: RowCount | None) -> None:
        finite = np.isfinite(r) & np.isfinite(a)
        nan_r, nan_a = np.isnan(r), np.isnan(a)
        wrong = ~finite & ~(nan_r & nan_a) & (r != a)
        self.nan_matched += int(np.count_nonzero(nan_r & nan_a))
        self.nan_mismatched += int(np.count_nonzero(nan_r != nan_a))
        self.nonfinite_mismatched += int(np.count_nonzero(wrong))
        self.mismatched += int(np.count_nonzero(wrong))
        if wrong.any():
            self._remember_worst((2, math.inf), int(np.flatnonzero(wrong)[0]))
        positions = np.flatnonzero(finite)
        if positions.size:
            beyond = self._add_finite(r[positions], a[positions], positions)
            wrong[positions[beyond]] = True
        if rows is not None:
            rows.add(wrong)

    def _add_finite(
        self, r: npt.NDArray[np.float64], a: npt.NDArray[np.float64], positions: npt.NDArray[np.intp]
    ) -> Mask:
        """Add the finite elements of a chunk; which of them are out of tolerance."""
        self._look_at_range(r, float(r.min()), float(r.max()))
        d = np.abs(a - r)
        beyond = self._beyond(d, r)
        self._count(d, beyond, positions)
        self._use(d, r)
        if self._worst_rank[0] <= 0 and float(d.max()) > self._worst_rank[1]:
            self._remember_worst((0, float(d.max())), int(positions[d.argmax()]))
        nonzero = r != 0
        relative = d[nonzero] / np.abs(r[nonzero])
        if relative.size:
            self.max_rel = max(self.max_rel, float(relative.max()))
            self.sum_rel += float(relative.sum())
        sums = float(d.sum()), float(d @ d), float((a - r) @ r), float(r @ r)
        self._add_sums(r.size, int(relative.size), float(d.max()), *sums)
        return beyond

    def _look_at_range(self, r: Floats, lowest: float, highest: float, buffers: _Buffers | None = None) -> None:
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)
        if self.lowest >= 0.0 and self.highest <= 1.0:
            above = np.greater(r, SATURATED, out=buffers.marks if buffers else None)
            below = np.less(r, 1 - SATURATED, out=buffers.more_marks if buffers else None)
            self.saturated += r.size - int(np.count_nonzero(np.logical_and(above, below, out=above)))

    def _beyond(self, distance: npt.NDArray[np.float64], r: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        # `not (d <= limit)`, so that a NaN counts as out of tolerance.
        within: npt.NDArray[np.bool_] = distance <= self.tolerance.atol + self.tolerance.rtol * np.abs(r)
        return ~within

    def _count(
        self,
        distance: npt.NDArray[np.float64],
        beyond: npt.NDArray[np.bool_],
        positions: npt.NDArray[np.intp],
    ) -> None:
        count = int(np.count_nonzero(beyond))
        self.mismatched += count
        if count:
            at = int(np.where(beyond, distance, -1.0).argmax())
            self._remember_worst((1, float(distance[at])), int(positions[at]))

    def _remember_worst(self, rank: tuple[int, float], index: int) -> None:
        if rank > self._worst_rank:
            self._worst_rank = rank
            self.worst = self.total + index

    def _add_sums(
        self, finite: int, nonzero: int, largest: float, sum_abs: float, dd: float, dr: float, rr: float
    ) -> None:
        self.finite += finite
        self.nonzero += nonzero
        self.max_abs = max(self.max_abs, largest)
        self.sum_abs += sum_abs
        self.sum_dd += dd
        self.sum_dr += dr
        self.sum_rr += rr

    def metrics(self) -> dict[str, float | None]:
        """All metrics, None where undefined; a NaN or Inf on one side shows in those of the whole output."""
        n, largest = self.finite, self.max_abs
        if self.nonfinite_mismatched:
            largest = math.nan if self.nan_mismatched else math.inf
        return {
            "max_abs": largest if n or self.nonfinite_mismatched else None,
            "mean_abs": self.sum_abs / n if n else None,
            "max_rel": self.max_rel if self.nonzero else None,
            "mean_rel": self.sum_rel / self.nonzero if self.nonzero else None,
            "rmse": math.sqrt(self.sum_dd / n) if n else None,
            "cosine": self._cosine(),
            "snr_db": self._snr_db(),
            "used": math.inf if self.nonfinite_mismatched else self.used if n else None,
        }

    def spread(self) -> dict[str, float | int | None]:
        """The reference's range; saturated elements count only if all elements lie between 0 and 1."""
        if not self.finite:
            return {}
        between = self.lowest >= 0.0 and self.highest <= 1.0
        return {"lowest": self.lowest, "highest": self.highest, "saturated": self.saturated if between else 0}

    def _cosine(self) -> float | None:
        if self.nonfinite_mismatched:
            # A cosine of the finite elements alone would hide those that are missing.
            return None
        # a = r + d, so a·r and a·a follow from sums that are already known.
        aa = self.sum_rr + 2 * self.sum_dr + self.sum_dd
        if self.sum_rr <= 0 or aa <= 0:
            return 1.0 if self.finite and self.sum_rr == 0 and self.sum_dd == 0 else None
        # One root for each sum: the product of both may overflow or underflow where neither sum does.
        cosine = (self.sum_rr + self.sum_dr) / (math.sqrt(self.sum_rr) * math.sqrt(aa))
        # Squares of float64 can overflow: the cosine is then undefined, and must not be reported as 1.
        return max(-1.0, min(1.0, cosine)) if math.isfinite(self.sum_rr + aa) else None

    def _snr_db(self) -> float | None:
        if self.nonfinite_mismatched:
            return -math.inf
        if not self.finite:
            return None
        if self.sum_dd == 0:
            return math.inf
        if math.isinf(self.sum_rr):
            return None
        if self.sum_rr == 0 or math.isinf(self.sum_dd):
            return -math.inf
        # A difference of logarithms: the ratio of both sums may underflow or overflow where neither sum does.
        return 10 * (math.log10(self.sum_rr) - math.log10(self.sum_dd))


def _distances(
    r: Floats, a: Floats, positions: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The differences of the elements at `positions`, and their references, in float64."""
    wide = r[positions].astype(np.float64)
    return np.abs(a[positions].astype(np.float64) - wide), wide


# The methods of an array call these, by way of Python: for thousands of chunks, that takes a while.
_least, _most, _total = np.minimum.reduce, np.maximum.reduce, np.add.reduce


def _sum(values: Floats, ones: Floats) -> float:
    """The sum of a chunk, as products with a short vector: it stays in the nearest cache."""
    whole = values.size // ones.size * ones.size
    total = float(_total(values[:whole].reshape(-1, ones.size) @ ones, dtype=np.float64))
    return total if whole == values.size else total + float(np.dot(values[whole:], ones[: values.size - whole]))


class _Buffers:
    """Work space of one dtype, used for every chunk."""

    def __init__(self, dtype: np.dtype[np.generic], size: int) -> None:
        self.first, self.second, self.third = (np.empty(size, dtype) for _ in range(3))
        self.ones = np.ones(min(size, _SUMMED), dtype)
        self.marks, self.more_marks = (np.empty(size, np.bool_) for _ in range(2))

    def of(self, size: int) -> _Buffers:
        """The buffers for a chunk of this size; the last chunk may be smaller."""
        if size == self.first.size:
            return self
        smaller = object.__new__(_Buffers)
        smaller.__dict__.update({name: buffer[:size] for name, buffer in self.__dict__.items()})
        return smaller
