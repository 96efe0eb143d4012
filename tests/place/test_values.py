"""Which elements of a value are far off, as a whole and for their own column."""

from __future__ import annotations

import numpy as np

from onnx_gate.worker.place.values import off_in_column


def test_an_error_that_is_large_for_its_column_is_seen() -> None:
    """Beside a column of much larger numbers."""
    truth = np.column_stack([np.arange(8.0) * 1e4, np.arange(8.0)]).astype(np.float32)
    wrong = truth.copy()
    wrong[:, 1] *= 2
    assert off_in_column(truth, wrong)[1:, 1].all()
    assert not off_in_column(truth, wrong)[:, 0].any()


def test_a_column_of_zeros_is_no_measure() -> None:
    """Distances of points to themselves: what is left of them in float32 is small beside all others."""
    truth = np.zeros((8, 2), np.float32)
    truth[:, 0] = np.arange(8.0) * 100
    value = truth.copy()
    value[3, 1] = 7e-5
    assert not off_in_column(truth, value).any()
