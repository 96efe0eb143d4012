"""Columns of one output have noise of their own: what is large in one of them covers no error in another."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gate.records.ran import FAR
from onnx_gate.worker.noise.columns import Deviations, merged
from onnx_gate.worker.noise.floor import rounding_of

EPS = rounding_of(np.dtype(np.float32))


def drawn(seed: int, rows: int, scales: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """References and deviations of columns, each with a noise of its own."""
    draw = np.random.default_rng(seed)
    reference = draw.normal(size=(rows, len(scales)))
    return reference, draw.random(reference.shape) * np.array(scales)


def of(reference: np.ndarray, deviation: np.ndarray) -> Deviations:
    """As one call."""
    found = Deviations()
    found.add(reference, deviation)
    return found


def test_an_error_in_a_quiet_column_is_not_covered_by_a_noisy_one() -> None:
    """As a whole it is far below the noise."""
    reference, noise = drawn(0, 40, [1.0, 1e-6, 1e-6])
    error = noise.copy()
    error[:, 2] = 3e-3
    times, floor = of(reference, error).compared(of(reference, noise), EPS)
    assert of(reference, error).whole.over(of(reference, noise).whole.fit(EPS)) < FAR
    assert times > 100
    assert floor.atol < 1e-4


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rows", [1, 3, 9, 200])
def test_rounding_of_any_columns_is_no_error(seed: int, rows: int) -> None:
    """Also where few rows show only a part of the noise."""
    scales = [10.0 ** np.random.default_rng(seed).uniform(-8, 2) for _ in range(6)]
    measured = [of(drawn(seed, rows, scales)[0], drawn(100 * seed + way, rows, scales)[1]) for way in range(8)]
    reference = drawn(seed, rows, scales)[0]
    errors = of(reference, drawn(9_999 + seed, rows, scales)[1])
    assert errors.compared(merged([errors.sizes_only(), *measured]), EPS)[0] < FAR


def test_calls_of_other_columns_are_compared_as_a_whole() -> None:
    """An axis that grows has no columns; neither have single numbers or thousands of columns."""
    for shapes in (((4, 3), (4, 5)), ((7,), (7,)), ((2, 5000), (2, 5000))):
        found = Deviations()
        for shape in shapes:
            found.add(np.ones(shape), np.full(shape, 1e-7))
        assert found.columns.beyond(found.columns, EPS) is None
        assert found.compared(found, EPS)[0] < FAR


def test_the_noise_of_an_edge_case_covers_no_error_in_the_others() -> None:
    """Huge inputs that cancel out have the noise of huge numbers."""
    reference, noise = drawn(0, 40, [1e-6])
    measured, errors = of(reference, noise), of(reference, 1e4 * noise)
    for each in (measured, errors):
        each.add(reference, np.ones(reference.shape), "huge")
    assert errors.whole.over(measured.whole.fit(EPS)) < FAR
    times, floor = errors.compared(measured, EPS)
    assert times > 100
    assert floor.atol < 1e-4
    assert measured.noisy_edges(EPS) == ("huge",)
    assert measured.compared(measured, EPS)[0] < FAR
