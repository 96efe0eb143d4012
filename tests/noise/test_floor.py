"""Deviations of many elements become the tolerance that covers them, and no more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.noise.floor import SMOOTH, Envelope, rounding_of, without_jumps
from onnx_gate.worker.noise.moved import moved

EPS = rounding_of(np.dtype(np.float32))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("offset", [0.0, 1.0, 300.0])
def test_the_floor_covers_every_deviation_and_little_more(seed: int, offset: float) -> None:
    """Of any scale, relative and absolute."""
    draw = np.random.default_rng(seed)
    reference = draw.normal(offset, 1.0, 5000) * 10.0 ** draw.integers(-6, 6)
    rtol, atol = 10.0 ** draw.uniform(-6, -3), 10.0 ** draw.uniform(-6, -3) * np.abs(reference).mean()
    deviation = draw.random(5000) * (atol + rtol * np.abs(reference))
    envelope = Envelope()
    envelope.add(reference[:2500], deviation[:2500])
    other = Envelope()
    other.add(reference[2500:], deviation[2500:])
    envelope.merge(other)
    floor = envelope.fit(EPS)
    assert (deviation <= 1.0001 * (floor.atol + floor.rtol * np.abs(reference))).all()
    assert envelope.over(floor) == pytest.approx(1.0, rel=0.01)
    # As a whole it allows no more than a few times what was drawn from.
    assert np.median((floor.atol + floor.rtol * np.abs(reference)) / (atol + rtol * np.abs(reference))) < 3


def test_an_error_is_counted_in_units_of_the_floor() -> None:
    """Up to the width of a bin; where nothing is allowed, anything is beyond."""
    envelope = Envelope()
    envelope.add(np.array([1.0, 100.0]), np.array([1e-3, 5e-2]))
    assert envelope.over(Tolerance(rtol=1e-5, atol=0.0)) == pytest.approx(100, rel=0.1)
    zero = Envelope()
    zero.add(np.zeros(3), np.array([0.0, 0.0, 1e-9]))
    assert zero.over(Tolerance(rtol=1.0, atol=0.0)) == math.inf
    assert Envelope().over(Tolerance(rtol=0.0, atol=0.0)) == 0


def test_exact_answers_have_the_noise_of_their_dtype() -> None:
    """An element near 0 may be a sum of larger ones: it has a rounding of the usual size."""
    envelope = Envelope()
    envelope.add(np.array([0.0, 1e-9, 1.0, 1.1, 2.0]), np.zeros(5))
    floor = envelope.fit(EPS)
    assert floor.rtol == EPS
    assert 0.5 * EPS < floor.atol <= 1.1 * EPS


def test_a_jump_is_no_rounding() -> None:
    """One element of many that moves by far the most crossed a threshold; where all move, they move."""
    reference = np.linspace(1, 2, 1000)
    deviation = np.full(1000, 1e-7)
    deviation[7] = 0.1
    left = without_jumps(reference, deviation, EPS)
    assert np.isnan(left[7])
    assert np.count_nonzero(np.isnan(left)) == 1
    assert not np.isnan(without_jumps(reference, np.full(1000, 0.1), EPS)).any()
    assert np.isnan(without_jumps(reference, np.full(1000, 0.1), EPS, most=SMOOTH)).all()
    odd = without_jumps(np.array([1.0, np.inf, np.nan]), np.array([0.0, np.nan, np.nan]), EPS)
    assert np.isnan(odd).tolist() == [False, True, True]


def test_inputs_move_to_their_neighbours() -> None:
    """Whole numbers, which may be ids or classes, and what is not finite stay where they are."""
    given = np.array([0.0, 3.0, 0.1, -2.5, np.nan, np.inf], np.float32)
    after = moved({"x": given, "n": np.array([1, 2])}, 1)
    assert after["x"].dtype == np.float32
    assert np.array_equal(after["x"][[0, 1, 4, 5]], given[[0, 1, 4, 5]], equal_nan=True)
    assert (np.abs(after["x"][2:4] - given[2:4]) <= np.spacing(np.abs(given[2:4]))).all()
    assert (after["x"][2:4] != given[2:4]).all()
    assert after["n"].tolist() == [1, 2]
