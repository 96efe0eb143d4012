"""The input column that a column inside a model comes from, and the way back to its values."""

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
    """The dtype of the input in the schema."""
    back: Change | None = None
    """Values of this column → values of the input, NaN where there are none; None if the column is the input itself."""
    trace: Callable[[Array], tuple[Array, Array, Array]] | None = None
    """Values of this column → values of the input, the largest operand on the way, and the slope of the way back, all
    in the values of the input."""
    rising: bool = True
    """Whether the column grows with the input."""
    codes: Mapping[Scalar, float] | None = None
    """The column's value for each value of the input, where those are a list; `back` has no meaning then."""
    misses: bool = True
    """Whether a missing value is still missing here."""

    @property
    def is_text(self) -> bool:
        """Whether the input holds text."""
        return self.dtype == "string"

    @property
    def is_raw(self) -> bool:
        """Whether the column is the input itself."""
        return self.back is None and self.codes is None

    @property
    def is_whole(self) -> bool:
        """Whether the column is the input itself, and holds integers."""
        return self.is_raw and not self.is_text and "float" not in self.dtype

    def to_input(self, values: Any) -> Array:
        """The values of the input that lead to these values."""
        given = np.asarray(values, dtype=np.float64)
        return given if self.back is None else self.back(given)

    def traced(self, values: Any) -> tuple[Array, Array, Array]:
        """For each value: the value of the input, the largest operand on the way, and the slope of the way back."""
        given = np.asarray(values, dtype=np.float64)
        return (given, np.abs(given), np.ones_like(given)) if self.trace is None else self.trace(given)


Columns = list[Column | None]
"""The columns that a part sees, in order; None for one that comes from several columns, or can't be inverted."""


def columns_of(given: InputSpec) -> Columns:
    """The columns of one input, as they are fed."""
    width = given.shape[-1] if len(given.shape) > 1 else 1
    count = width if isinstance(width, int) else 1
    return [Column(place=(given.name, number), dtype=given.dtype) for number in range(count)]


def changed(column: Column, *, forward: Change, inverse: Change, rising: bool, misses: bool) -> Column:
    """The column after a monotone function."""

    def back(values: Array) -> Array:
        return column.to_input(inverse(values))

    def trace(values: Array) -> tuple[Array, Array, Array]:
        # Rounding of values here is measured in the values of the input: it is multiplied by the slope of the way back.
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
"""The largest number of table rows that floats are aimed at; a larger table gets an even selection."""


def row_marks(rows: int, factor: float, shift: float) -> list[float]:
    """A float for each row of a table that factor · x + shift selects after any kind of rounding."""
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, MOST_TABLE_ROWS)).astype(np.int64))
    # With a quarter, rounding down, to the nearest and towards zero give the row, and rounding up gives the next.
    return [float(each) for each in (chosen + (0.0 if (factor, shift) == (1.0, 0.0) else 0.25) - shift) / factor]
