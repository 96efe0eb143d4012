"""Where a column that a part of a model sees comes from: the input that is fed, and the way back to its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import Place
from onnx_gate.vocabulary import Scalar

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column at some place of a model, as a function of one column of an input."""

    place: Place
    """The column of the input."""
    dtype: str
    """Of the input, as the schema has it."""
    back: Change | None = None
    """Its values → those of the input, NaN where there are none; None where it is the input itself."""
    trace: Callable[[Array], tuple[Array, Array, Array]] | None = None
    """Its values → those of the input, the largest operand on the way, and the slope of the way back, all in the
    values of the input."""
    rising: bool = True
    """Whether it grows with the input."""
    codes: Mapping[Scalar, float] | None = None
    """What it holds for each value of the input, where those are a list; `back` has no meaning then."""
    misses: bool = True
    """Whether a missing value gets here as one."""

    @property
    def is_text(self) -> bool:
        """Whether the input holds text."""
        return self.dtype == "string"

    @property
    def is_raw(self) -> bool:
        """Whether it is the input itself."""
        return self.back is None and self.codes is None

    @property
    def is_whole(self) -> bool:
        """Whether it is the input itself, and holds whole numbers."""
        return self.is_raw and not self.is_text and "float" not in self.dtype

    def to_input(self, values: Any) -> Array:
        """In the values of the input."""
        given = np.asarray(values, dtype=np.float64)
        return given if self.back is None else self.back(given)

    def traced(self, values: Any) -> tuple[Array, Array, Array]:
        """Of each value: in the input, the largest operand on the way, and the slope of the way back."""
        given = np.asarray(values, dtype=np.float64)
        return (given, np.abs(given), np.ones_like(given)) if self.trace is None else self.trace(given)


Columns = list[Column | None]
"""What a part sees, in order; None for what comes from several columns, or can't be followed."""


def columns_of(given: InputSpec) -> Columns:
    """Those of one input as it is fed."""
    width = given.shape[-1] if len(given.shape) > 1 else 1
    count = width if isinstance(width, int) else 1
    return [Column(place=(given.name, number), dtype=given.dtype) for number in range(count)]


def changed(column: Column, *, forward: Change, inverse: Change, rising: bool, misses: bool) -> Column:
    """The column after a monotone function of it."""

    def back(values: Array) -> Array:
        return column.to_input(inverse(values))

    def trace(values: Array) -> tuple[Array, Array, Array]:
        # Rounding of what is computed here counts in the values of the input: times the slope of the way back.
        before = inverse(values)
        inputs, reach, slope = column.traced(before)
        step = np.maximum(np.abs(before), 1.0) * 1e-4
        with np.errstate(all="ignore"):
            slope = slope * 2 * step / np.abs(forward(before + step) - forward(before - step))
            offset = np.abs(forward(np.zeros(1)))[0]
            operands = np.maximum(np.abs(values), offset if np.isfinite(offset) else 0.0) * slope
        reach = np.fmax(np.fmax(reach, np.abs(inputs)), np.where(np.isfinite(operands), operands, 0.0))
        return inputs, reach, slope

    return Column(
        place=column.place,
        dtype=column.dtype,
        back=back,
        trace=trace,
        rising=column.rising == rising,
        misses=column.misses and misses,
    )


MOST_TABLE_ROWS = 512
"""Rows of a table that floats are aimed at; of a larger one, so many spread over it."""


def row_marks(rows: int, factor: float, shift: float) -> list[float]:
    """A float for each row of a table that factor · x + shift chooses once it is rounded, whichever way that is."""
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, MOST_TABLE_ROWS)).astype(np.int64))
    # A quarter: down, to the nearest and off the digits give the row, and up gives the next.
    return [float(each) for each in (chosen + (0.0 if (factor, shift) == (1.0, 0.0) else 0.25) - shift) / factor]
