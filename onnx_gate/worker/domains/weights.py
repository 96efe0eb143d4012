"""Facts from the weights of a first linear step about its columns: a column with a small weight holds large values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_SMALL = 0.1
"""Below this share of the result, the term of a value of 1 has hardly any effect."""
_DEAD = 1e-7
"""Below this share, a weight is only a remainder of training and has no meaning."""


def spreads_of(weights: Any, offsets: Any) -> Array:
    """For each column, the value at which its term is as large as the result; NaN where 1 is large enough.

    `weights` has one row per output. With values around 1, a weight of 1e-5 beside an offset of 5 could be anything:
    the training data must have had values of 100,000 there.
    """
    each = np.abs(np.asarray(weights, dtype=np.float64)).max(axis=0, initial=0.0)
    whole = max(
        1.0, float(each.max(initial=0.0)), float(np.abs(np.asarray(offsets, dtype=np.float64)).max(initial=0.0))
    )
    said = (each > _DEAD * whole) & (each < _SMALL * whole)
    return np.where(said, whole / np.where(said, each, 1.0), np.nan)
