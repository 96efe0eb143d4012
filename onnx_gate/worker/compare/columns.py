"""Columns of an output (its last axis): how much each one varies around its mean, and how much noise it has.

In an output of 295 ± 2, only the ± 2 carries information. Compared as a whole, a constant answer is near enough to it.
Compared column by column, around the mean of each column, a constant isn't. The sums run over all cases of a provider,
because a column of one row doesn't vary, and neither do the rows of an edge case.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import Spread
from onnx_gate.records.limits import FEWEST_ROWS

MOST_COLUMNS = 4_096
_CHUNK = 1 << 13
_SAMPLE = 1 << 15
"""Elements of a call that are enough to know how much columns vary; where noise is measured, all elements are used."""
_WIDE = 16
_COMPARABLE = 0.3
_FAINT = 1e-4
_NEGLIGIBLE = 1e-5
_OFFSET = 10.0
"""Means from this many standard deviations on: the column has a unit of its own, whatever the others' scale is. A dead
activation or a rare class stays near 0 instead."""
_FEW_ROWS = 32
_OF_FEW_ROWS = 0.1
"""Of fewer rows, the deviations of columns of one scale may differ by chance, so that more is asked of their ratio."""
# Several times the rounding of float32: a column that varies by less may be a constant that was computed twice.
_ROUNDING = 1e-6

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


class Columns:
    """Running sums of one output over the calls of all cases."""

    def __init__(self) -> None:
        self._held = False
        self._start(0)
        self._lowest, self._highest = math.inf, -math.inf

    def add(self, reference: Array, actual: Array, *, noise: bool) -> None:
        """Add one call; without noise, only as many of its rows as are enough."""
        r, a = _as_columns(reference), _as_columns(actual)
        if not r.size:
            return
        if r.shape[1] != self._width:
            # If the number of columns changes, they are different columns.
            self._start(r.shape[1])
        step = 1 if noise else -(-r.size // _SAMPLE)
        rows = step * max(1, _CHUNK // r.shape[1])
        with np.errstate(all="ignore"):
            for start in range(0, len(r), rows):
                part = slice(start, start + rows, step)
                self._add_rows(r[part].astype(np.float64), a[part].astype(np.float64) if noise else None)

    def look_at_range(self, lowest: float | None, highest: float | None) -> None:
        """Add the lowest and the highest element of a case's reference."""
        self._lowest = min(self._lowest, math.inf if lowest is None else lowest)
        self._highest = max(self._highest, -math.inf if highest is None else highest)

    def spread(self, tolerance: Tolerance) -> Spread | None:
        """How much the reference varies so far; None if there are too few rows."""
        if self._rows < FEWEST_ROWS:
            return None
        mean, variance = self._moments()
        deviation, counts = np.sqrt(variance), self._counted(mean, variance)
        known: dict[str, Any] = {
            "rows": self._rows,
            "columns": int(np.count_nonzero(counts)),
            "varying": _varying(mean, variance),
        }
        with np.errstate(over="ignore"):
            allowed = tolerance.atol + tolerance.rtol * np.abs(mean)
        flat = counts & (deviation <= allowed)
        if not flat.any():
            return Spread(**known)
        at = int(np.argmin(np.where(flat, deviation / np.maximum(allowed, 1e-300), np.inf)))
        return Spread(
            **known,
            flat=int(np.count_nonzero(flat)),
            column=at,
            mean=float(mean[at]),
            deviation=float(deviation[at]),
            allowed=float(allowed[at]),
        )

    def snr_db(self, *, broken: bool = False) -> float | None:
        """The smallest ratio among the columns that vary; None if there are too few rows or no column varies.

        Where answers are `broken`, that is, not finite on one side only, no signal is left: the ratio is -inf.

        The noise is that of the rows added since the last call that returned a ratio, so that every row counts.
        """
        if broken:
            self._held = True
            return -math.inf
        if self._rows < FEWEST_ROWS or not self._noisy_rows:
            return None
        signal, noise = self._signal_and_noise()
        if not signal.size:
            return None
        self._held = True
        self._forget_noise()
        with np.errstate(divide="ignore"):
            return float(np.min(10 * (np.log10(signal) - np.log10(noise))))

    def _signal_and_noise(self) -> tuple[Floats, Floats]:
        """Signal and noise of each column that varies.

        Probabilities are summed over all columns: few rows hold most of the signal of one class, and a single row that
        is nearly a tie would be all of its noise. Where columns share a scale, each has at least the average signal: a
        class that hardly occurs is lost in the noise of the others, and that is right. A column with an offset that
        varies by far less than the others has its own signal.
        """
        mean, variance = self._moments()
        noise = self._noise / self._noisy_rows
        if self._is_bounded():
            mean, variance, noise = (np.sum(each, keepdims=True) for each in (np.abs(mean), variance, noise))
            counts = variance > 0
        elif self._is_of_one_scale():
            most = (_COMPARABLE if self._rows >= _FEW_ROWS else _OF_FEW_ROWS) ** 2 * np.mean(variance)
            own = _has_an_offset(mean, variance) & (variance < most)
            variance = np.where(own, variance, np.maximum(variance, np.mean(variance)))
            counts = variance > 0
        else:
            counts = self._counted(mean, variance)
        counts &= np.sqrt(variance) > _ROUNDING * np.abs(mean)
        return variance[counts], noise[counts]

    @property
    def not_held(self) -> bool:
        """Whether noise was measured, but a ratio could never be computed."""
        return bool(self._noisy_rows) and not self._held

    def _start(self, width: int) -> None:
        self._width, self._rows = width, 0
        self._shift: Floats | None = None
        self._sum, self._squares = np.zeros(width), np.zeros(width)
        self._forget_noise()

    def _forget_noise(self) -> None:
        self._noise, self._noisy_rows = np.zeros(self._width), 0

    def _add_rows(self, r: Floats, a: Floats | None) -> None:
        shift = r[0] if self._shift is None else self._shift
        about = r - shift
        # A matrix product, because sums along the first axis are slow where there are few columns.
        ones = np.ones(len(r))
        squares = ones @ (about * about)
        noise = ones @ (a - r) ** 2 if a is not None else 0.0
        if not np.isfinite(squares + noise).all():
            self._add_finite_rows(r, a)
            return
        self._shift = shift
        self._rows += len(r)
        self._sum += ones @ about
        self._squares += squares
        if a is not None:
            self._noise += noise
            self._noisy_rows += len(r)

    def _add_finite_rows(self, r: Floats, a: Floats | None) -> None:
        """Add the finite rows only. Other metrics cover rows with NaN or Inf, and rows whose squares are too large."""
        finite = np.isfinite(r).all(axis=1) & (a is None or np.isfinite(a).all(axis=1))
        if finite.any() and not finite.all():
            self._add_rows(r[finite], None if a is None else a[finite])

    def _moments(self) -> tuple[Floats, Floats]:
        mean = self._sum / self._rows
        variance = np.maximum(0.0, self._squares / self._rows - mean**2)
        return mean + (0.0 if self._shift is None else self._shift), variance

    def _counted(self, mean: Floats, variance: Floats) -> npt.NDArray[np.bool_]:
        """The columns that vary by more than a share of the average, or that have an offset.

        A few columns may have different units. Columns of one scale may be dead activations and rare classes.
        """
        share = _NEGLIGIBLE
        if self._is_of_one_scale():
            share = _COMPARABLE if self._lowest >= 0.0 else _FAINT
        large = variance >= share**2 * np.mean(variance)
        counted: npt.NDArray[np.bool_] = (variance > 0) & (large | _has_an_offset(mean, variance))
        return counted

    def _is_of_one_scale(self) -> bool:
        """Whether the columns share a scale: probabilities, activations, and any output with many columns."""
        return self._width > _WIDE or self._is_bounded() or self._lowest == 0.0

    def _is_bounded(self) -> bool:
        return self._lowest >= 0.0 and self._highest <= 1.0


def _has_an_offset(mean: Floats, variance: Floats) -> npt.NDArray[np.bool_]:
    """The columns that vary far from 0, by more than rounding and by more than a negligible share of the average."""
    deviation = np.sqrt(variance)
    noise = np.maximum(_NEGLIGIBLE * np.sqrt(np.mean(variance)), _ROUNDING * np.abs(mean))
    found: npt.NDArray[np.bool_] = (np.abs(mean) >= _OFFSET * deviation) & (deviation > noise)
    return found


def _varying(mean: Floats, variance: Floats) -> float:
    # Squares of large float64 values are infinite: the share is then reported as 0.
    with np.errstate(over="ignore"):
        squares, about = float(np.sum(variance + mean**2)), float(np.sum(variance))
    return min(1.0, about / squares) if 0 < squares < math.inf else 0.0


def _as_columns(array: Array) -> Array:
    """The array as rows × columns; an array with one axis, or with no axis, is one column."""
    if array.ndim < 2:
        return array.reshape(-1, 1)
    return array.reshape(-1, array.shape[-1])[:, :MOST_COLUMNS] if array.size else array.reshape(0, 1)
