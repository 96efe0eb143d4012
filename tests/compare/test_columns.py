"""Columns: how much each varies, and its noise about its mean; held against plain NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.worker.compare.columns import MOST_COLUMNS, Columns
from onnx_gate.worker.compare.outputs import OutputComparison

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
LIMITED = {"min_column_snr_db": 10.0}


def compare(
    reference: Any, actual: Any, *, limits: dict[str, float] | None = None, seen: Columns | None = None
) -> OutputDiff:
    """One case of one call."""
    rule = OutputRule(tolerance=TOLERANCE, limits=LIMITED if limits is None else limits)
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=rule, columns=seen)
    comparison.add(Answer(value=reference, dtype=reference.dtype.name), Actual(value=actual), rows=len(reference))
    return comparison.finish()


def drawn(*shape: int, mean: float = 0.0, deviation: float = 1.0, seed: int = 0) -> Any:
    """What a source might answer."""
    return np.random.default_rng(seed).normal(mean, deviation, size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 5), (10, 6, 5), (3, 4, 5, 6), (200_000, 2), (9, 5_000)])
@pytest.mark.parametrize("mean", [0.0, 295.0, -1e5])
def test_the_ratio_is_that_of_each_column_about_its_mean(shape: tuple[int, ...], mean: float) -> None:
    """Over all axes but the last; (N,) is one column."""
    reference = drawn(*shape, mean=mean, deviation=2.0)
    actual = reference + drawn(*shape, deviation=0.3, seed=1)
    rows = (reference if len(shape) > 1 else reference[:, None]).reshape(-1, shape[-1] if len(shape) > 1 else 1)
    rows = rows[:, :MOST_COLUMNS].astype(np.float64)
    noise = (actual.astype(np.float64) - reference.astype(np.float64)).reshape(len(rows), -1)[:, :MOST_COLUMNS]
    signal = rows.var(axis=0)
    if rows.shape[1] > 16:
        signal = np.maximum(signal, signal.mean())
    diff = compare(reference, actual)
    assert diff.column_snr_db == pytest.approx(np.min(10 * np.log10(signal / (noise**2).mean(axis=0))), abs=1e-3)
    assert diff.spread is not None
    assert diff.spread.rows == len(rows)
    total = rows.var(axis=0).sum() / (rows.var(axis=0) + rows.mean(axis=0) ** 2).sum()
    assert diff.spread.varying == pytest.approx(total, rel=1e-3)


def test_a_constant_answer_has_no_more_signal_than_noise() -> None:
    """295 ± 2: 43 dB as a whole, and nothing about the mean."""
    reference = drawn(100, 1, mean=295, deviation=2)
    diff = compare(reference, np.full_like(reference, 295), limits={"max_mismatch": 1.0, "min_snr_db": 15.0, **LIMITED})
    assert diff.snr_db is not None
    assert diff.snr_db > 40
    assert [breach.text.partition(" is ")[0] for breach in diff.breaches] == ["column_snr_db"]


def test_a_column_of_another_unit_is_seen() -> None:
    """One that is 0.5 ± 0.2 beside one of thousands: a constant there is invisible in the whole."""
    reference = np.concatenate([drawn(50, 1, mean=0.5, deviation=0.2), drawn(50, 1, mean=1e4, deviation=5e3)], axis=1)
    actual = reference.copy()
    actual[:, 0] = 0.5
    diff = compare(reference, actual, limits={"max_mismatch": 1.0, **LIMITED})
    assert diff.column_snr_db == pytest.approx(0, abs=0.5)
    assert diff.breaches


@pytest.mark.parametrize("kind", ["rare class", "dead activation"])
def test_a_column_that_stays_near_zero_is_no_alarm(kind: str) -> None:
    """Lower precision loses what is far below the scale that the columns share."""
    reference = np.abs(drawn(64, 8))
    reference[:, 3] *= 1e-6
    reference[reference < 0.1] = 0.0
    if kind == "rare class":
        reference[:, 3] = 1e-6
        reference /= reference.sum(axis=1, keepdims=True) + 1e-9
    actual = reference + 0.002 * drawn(64, 8, seed=1)
    assert not compare(reference, actual, limits={"max_mismatch": 1.0, **LIMITED}).breaches


def _beside(column: Any, others: Any) -> Any:
    return np.concatenate([column, others], axis=1).astype(np.float32)


OFFSETS = {
    "wide": _beside(drawn(64, 1, mean=295, deviation=1), drawn(64, 20, deviation=1000, seed=1)),
    "from 0 on": _beside(drawn(64, 1, mean=295, deviation=1), np.maximum(drawn(64, 3, deviation=1000, seed=1), 0)),
    "between 0 and 1": _beside(drawn(64, 1, mean=0.5, deviation=1e-3), np.random.default_rng(1).uniform(size=(64, 3))),
    "between 0 and 1, wide": _beside(
        drawn(64, 1, mean=0.5, deviation=1e-3), np.random.default_rng(1).uniform(size=(64, 30))
    ),
}


@pytest.mark.parametrize("kind", OFFSETS)
def test_a_column_with_an_offset_is_flat_among_many(kind: str) -> None:
    """What else is in the output doesn't matter: a constant there would pass."""
    reference = OFFSETS[kind]
    seen = Columns()
    seen.add(reference, reference, noise=False)
    seen.look_at_range(float(reference.min()), float(reference.max()))
    spread = seen.spread(Tolerance(rtol=1e-2, atol=1e-5))
    assert spread is not None
    assert (spread.flat, spread.column) == (1, 0)


@pytest.mark.parametrize("kind", ["wide", "from 0 on"])
@pytest.mark.parametrize("rows", [8, 64])
def test_a_constant_for_such_a_column_has_no_signal(kind: str, rows: int) -> None:
    """The average of the others is not lent to it."""
    reference = OFFSETS[kind][:rows]
    actual = reference.copy()
    actual[:, 0] = 295
    diff = compare(reference, actual, limits={"max_mismatch": 1.0, **LIMITED})
    assert diff.column_snr_db == pytest.approx(0, abs=1.5)
    assert diff.breaches


def test_a_small_unit_about_0_is_flat_among_many() -> None:
    """± 0.5 beside ± 1000, where the tolerance allows 1."""
    reference = _beside(drawn(64, 1, deviation=0.5), drawn(64, 20, deviation=1000, seed=1))
    seen = Columns()
    seen.add(reference, reference, noise=False)
    seen.look_at_range(float(reference.min()), float(reference.max()))
    spread = seen.spread(Tolerance(rtol=1e-3, atol=1.0))
    assert spread is not None
    assert (spread.flat, spread.column) == (1, 0)


def _softmax(scores: Any) -> Any:
    wide = np.exp(scores.astype(np.float64))
    return (wide / wide.sum(axis=1, keepdims=True)).astype(np.float32)


HEALTHY = {
    "classes": _softmax(drawn(64, 200, deviation=4)),
    "few classes, one rare": _softmax(drawn(64, 5) - np.array([0, 0, 0, 0, 14], np.float32)),
    "one-hot": np.eye(40, dtype=np.float32)[np.random.default_rng(0).integers(0, 40, 64)],
    "activations": np.maximum(drawn(64, 32) - np.linspace(0, 6, 32, dtype=np.float32), 0) + 0 * drawn(64, 32),
    "embedding": drawn(64, 300) / np.sqrt(np.float32(300)),
    "embedding with a dead dimension": _beside(1e-7 * drawn(64, 1), drawn(64, 300)),
    "embedding with a constant": _beside(3 + 1e-7 * drawn(64, 1), drawn(64, 300)),
    "embedding with outliers": drawn(64, 300) + np.where(np.arange(300) % 100, 0, -20).astype(np.float32),
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_outputs_are_not_flat(kind: str) -> None:
    """Nor do they miss a limit because of noise that is small beside the whole."""
    reference = HEALTHY[kind]
    spread = compare(reference, reference, limits={}).spread
    assert spread is not None
    assert spread.flat == 0
    noise = 0.03 * reference.std() * drawn(*reference.shape, seed=2)
    assert not compare(reference, reference + noise, limits={"max_mismatch": 1.0, **LIMITED}).breaches


def test_few_rows_wait_for_more() -> None:
    """The limit is held as soon as eight rows are known, also for the noise of the rows before."""
    seen = Columns()
    first, second = drawn(3, 2), drawn(30, 2, seed=1)
    wrong = compare(first, first + 5, limits={"max_mismatch": 1.0, **LIMITED}, seen=seen)
    assert (wrong.column_snr_db, wrong.spread, wrong.breaches) == (None, None, ())
    assert "min_column_snr_db" not in wrong.limits
    assert seen.not_held
    later = compare(second, second, limits={"max_mismatch": 1.0, **LIMITED}, seen=seen)
    signal = np.concatenate([first, second]).var(axis=0).min()
    assert later.column_snr_db == pytest.approx(10 * math.log10(signal / (25 * 3 / 33)), abs=1e-3)
    assert later.breaches
    assert not seen.not_held
    assert compare(second, second, seen=seen).column_snr_db == math.inf


def test_equal_rows_are_held_against_what_varied_before() -> None:
    """Those of an edge case; alone they have no signal."""
    seen = Columns()
    ordinary, edge = drawn(30, 2), np.ones((30, 2), np.float32)
    compare(ordinary, ordinary, seen=seen)
    diff = compare(edge, edge + np.float32(0.1), limits={"max_mismatch": 1.0, **LIMITED}, seen=seen)
    assert diff.column_snr_db == pytest.approx(18, abs=2)
    alone = Columns()
    assert compare(edge, edge + np.float32(0.1), limits={"max_mismatch": 1.0, **LIMITED}, seen=alone).breaches == ()
    assert alone.not_held


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_what_is_not_finite(broken: float) -> None:
    """On both sides the row is left out; on one side no limit of noise holds."""
    reference = drawn(40, 2)
    reference[[0, 17], 1] = broken
    noisy = reference + np.float32(0.01)
    diff = compare(reference, noisy, limits={"max_mismatch": 1.0, **LIMITED})
    assert diff.column_snr_db == pytest.approx(40, abs=3)
    assert diff.spread is not None
    assert diff.spread.rows == 38
    actual = reference.copy()
    actual[5, 0] = broken
    seen = Columns()
    assert compare(reference, actual, seen=seen).column_snr_db == -math.inf
    assert not seen.not_held, "the limit was held, and missed"


def test_columns_of_another_number_start_anew() -> None:
    """A length that varies is no column."""
    seen = Columns()
    compare(drawn(20, 3), drawn(20, 3), limits={}, seen=seen)
    diff = compare(drawn(9, 4), drawn(9, 4), limits={}, seen=seen)
    assert diff.spread is not None
    assert (diff.spread.rows, diff.spread.columns) == (9, 4)


def test_flat_columns_are_counted_and_the_flattest_is_named() -> None:
    """1990 ± 1 under a tolerance that allows 1.99; a constant column is none."""
    reference = np.concatenate(
        [drawn(50, 1), np.full((50, 1), 7, np.float32), drawn(50, 1, mean=1990, deviation=1, seed=2)], axis=1
    )
    spread = compare(reference, reference, limits={}).spread
    assert spread is not None
    assert (spread.columns, spread.flat, spread.column) == (2, 1, 2)
    assert spread.mean == pytest.approx(1990, abs=0.5)
    assert spread.deviation == pytest.approx(1, abs=0.2)
    assert spread.allowed == pytest.approx(1.99, abs=0.01)


def test_a_large_output_is_sampled_where_no_limit_asks() -> None:
    """What a column varies by is known from a part of its rows."""
    reference = drawn(1_000_000, 2, mean=3)
    spread = compare(reference, reference, limits={}).spread
    assert spread is not None
    assert 10_000 <= spread.rows <= 20_000
    assert spread.varying == pytest.approx(0.1, abs=0.01)
