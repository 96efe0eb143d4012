"""All metrics of two float arrays in one pass, in chunks that fit the cache.

Each chunk goes through a fast path in the arrays' own dtype. What the fast path can't settle (values that
aren't finite, squares that overflow or vanish, elements within rounding of their limit) is done again for
that chunk in float64, so that speed costs no correctness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance

CHUNK = 1 << 17
# Wider than float32's rounding: what lies this near its limit is judged again in float64.
_DOUBTFUL = 1 - 1e-5
_VANISHING = 1e-30
SATURATED = 1e-4
"""A probability this near to 0 or 1 says little of what is behind it."""

Floats = npt.NDArray[np.floating]


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
    """The largest share that a difference has of what the tolerance allows there."""
    sum_abs: float = 0.0
    sum_rel: float = 0.0
    sum_dd: float = 0.0
    sum_dr: float = 0.0
    sum_rr: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf
    saturated: int = 0
    worst: int = -1
    """Flat index into everything added so far; among the mismatched elements, if there are any."""
    _worst_rank: tuple[int, float] = (-1, -1.0)

    def add(self, reference: npt.NDArray[np.generic], actual: npt.NDArray[np.generic]) -> None:
        """Take in two arrays of one shape."""
        flat_reference, flat_actual = np.ravel(reference), np.ravel(actual)
        fast = flat_reference.dtype == flat_actual.dtype and flat_reference.dtype in (np.float32, np.float64)
        buffers = _Buffers(flat_reference.dtype, min(CHUNK, flat_reference.size)) if fast else None
        with np.errstate(all="ignore"):
            for start in range(0, flat_reference.size, CHUNK):
                r, a = flat_reference[start : start + CHUNK], flat_actual[start : start + CHUNK]
                if buffers is None or not self._add_fast(r, a, buffers):
                    self._add_exact(r.astype(np.float64), a.astype(np.float64))
                self.total += r.size

    def _add_fast(self, r: Floats, a: Floats, buffers: _Buffers) -> bool:
        """Take in a chunk in its own dtype; False, with nothing taken in, where that is not exact enough."""
        n = r.size
        d, scale, ones = buffers.first[:n], buffers.second[:n], buffers.ones[:n]
        np.subtract(a, r, out=d)
        sum_dd, sum_dr, sum_rr = float(d @ d), float(d @ r), float(r @ r)
        np.abs(d, out=d)
        largest = float(d.max())
        if not math.isfinite(sum_dd + sum_rr + largest) or sum_rr < _VANISHING * n:
            return False
        if largest > 0 and sum_dd < _VANISHING * n:
            return False
        lowest, highest = self._look_at_range(r)
        np.abs(r, out=scale)
        if largest > self.tolerance.atol * _DOUBTFUL:
            self._count_mismatches(r, a, d, scale, buffers.third[:n])
        if largest > self._worst_rank[1] and self._worst_rank[0] <= 0:
            self._remember_worst((0, largest), int(d.argmax()))
        around = lowest <= 0.0 <= highest
        if largest > (least := self._least_of_note(0.0 if around else min(abs(lowest), abs(highest)))):
            self._look_at_use(r, a, d, scale, least, buffers)
        zeros = n - int(np.count_nonzero(scale)) if around and float(scale.min()) == 0.0 else 0
        if zeros:
            scale[scale == 0.0] = np.inf
        sum_abs = float(d @ ones)
        np.divide(d, scale, out=d)
        self.max_rel = max(self.max_rel, float(d.max()))
        self.sum_rel += float(d @ ones)
        self._add_sums(n, n - zeros, largest, sum_abs, sum_dd, sum_dr, sum_rr)
        return True

    def _least_of_note(self, smallest: float) -> float:
        """What differs by no more can't use more of the tolerance than others do; of a smallest reference."""
        return self.used * (self.tolerance.atol + self.tolerance.rtol * smallest)

    def _look_at_use(self, r: Floats, a: Floats, d: Floats, scale: Floats, least: float, buffers: _Buffers) -> None:
        """All of a first chunk, in its own dtype; of the others only what can use more than it."""
        atol, work = d.dtype.type(self.tolerance.atol), buffers.third[: d.size]
        if not least and atol > 0:
            np.multiply(scale, d.dtype.type(self.tolerance.rtol), out=work)
            work += atol
            np.divide(d, work, out=work)
            at = int(work.argmax())
            distance, size = abs(float(a[at]) - float(r[at])), abs(float(r[at]))
            self.used = max(self.used, distance / (self.tolerance.atol + self.tolerance.rtol * size))
            return
        more = np.flatnonzero(np.greater(d, d.dtype.type(least), out=buffers.marks[: d.size]))
        r64 = r[more].astype(np.float64)
        self._use(np.abs(a[more].astype(np.float64) - r64), r64)

    def _use(self, distance: npt.NDArray[np.float64], r: npt.NDArray[np.float64]) -> None:
        differing = distance > 0
        if not differing.any():
            return
        share = distance[differing] / (self.tolerance.atol + self.tolerance.rtol * np.abs(r[differing]))
        # A distance that overflows, where as much is allowed: what is infinite is within it, and fills it.
        share[np.isnan(share)] = 1.0
        self.used = max(self.used, float(share.max()))

    def _count_mismatches(self, r: Floats, a: Floats, d: Floats, scale: Floats, work: Floats) -> None:
        np.multiply(scale, scale.dtype.type(self.tolerance.rtol * _DOUBTFUL), out=work)
        work += work.dtype.type(self.tolerance.atol * _DOUBTFUL)
        np.divide(d, work, out=work)
        beyond = work > 1
        count = int(np.count_nonzero(beyond))
        if not count:
            return
        sure = work > 1 / _DOUBTFUL**2
        sure_count = int(np.count_nonzero(sure))
        if sure_count < count:
            doubtful = np.flatnonzero(beyond & ~sure)
            r64, a64 = r[doubtful].astype(np.float64), a[doubtful].astype(np.float64)
            distance = np.abs(a64 - r64)
            self._count(distance, self._beyond(distance, r64), doubtful)
        if sure_count:
            self.mismatched += sure_count
            np.multiply(d, sure, out=work)
            if (rank := (1, float(work.max()))) > self._worst_rank:
                self._remember_worst(rank, int(work.argmax()))

    def _add_exact(self, r: npt.NDArray[np.float64], a: npt.NDArray[np.float64]) -> None:
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
        if not positions.size:
            return
        r, a = r[positions], a[positions]
        self._look_at_range(r)
        d = np.abs(a - r)
        self._count(d, self._beyond(d, r), positions)
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

    def _look_at_range(self, r: Floats) -> tuple[float, float]:
        lowest, highest = float(r.min()), float(r.max())
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)
        if self.lowest >= 0.0 and self.highest <= 1.0:
            self.saturated += r.size - int(np.count_nonzero((r > SATURATED) & (r < 1 - SATURATED)))
        return lowest, highest

    def _beyond(self, distance: npt.NDArray[np.float64], r: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        # `not (d <= limit)`, so that a NaN can't slip through.
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
        """Undefined ones are None; a NaN or Inf that met something else shows in all that speak of the whole."""
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
        """How much the reference varies; saturated elements count only where all are like probabilities."""
        if not self.finite:
            return {}
        between = self.lowest >= 0.0 and self.highest <= 1.0
        return {"lowest": self.lowest, "highest": self.highest, "saturated": self.saturated if between else 0}

    def _cosine(self) -> float | None:
        if self.nonfinite_mismatched:
            # The finite elements alone would speak for those that are missing.
            return None
        # a = r + d, so a·r and a·a come from the sums at hand.
        aa = self.sum_rr + 2 * self.sum_dr + self.sum_dd
        if self.sum_rr <= 0 or aa <= 0:
            return 1.0 if self.finite and self.sum_rr == 0 and self.sum_dd == 0 else None
        # A root each: the product of both sums may overflow, or vanish, where neither does.
        cosine = (self.sum_rr + self.sum_dr) / (math.sqrt(self.sum_rr) * math.sqrt(aa))
        # Squares of float64 can overflow: what is left of them says nothing, least of all 1.
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
        # The ratio of both sums may vanish, or overflow, where neither does.
        return 10 * (math.log10(self.sum_rr) - math.log10(self.sum_dd))


class _Buffers:
    """Work space of one dtype, used for every chunk."""

    def __init__(self, dtype: np.dtype[np.generic], size: int) -> None:
        self.first, self.second, self.third = (np.empty(size, dtype) for _ in range(3))
        self.ones = np.ones(size, dtype)
        self.marks = np.empty(size, np.bool_)
