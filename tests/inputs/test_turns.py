"""Rows beside a decision, found by search between rows with different labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.domains.turns import Told, rows_beside_turns

LIMIT = Tolerance(rtol=1e-3, atol=1e-5)


def pool(dtype: str = "float32", low: float = 0.0, high: float = 100.0) -> dict[str, Any]:
    return {"x": np.random.default_rng(0).uniform(low, high, (40, 3)).astype(dtype)}


def search(rows: dict[str, Any], ask: Any, held: dict[str, Any] | None = None) -> Any:
    return rows_beside_turns(rows, held or {}, ask, limit=LIMIT, pairs=8, rng=np.random.default_rng(1))


def labels_only(rows: Any) -> Told:
    return Told(labels=(rows["x"].sum(axis=1) > 150).astype(int), scores=np.zeros((len(rows["x"]), 0)))


def with_scores(rows: Any) -> Told:
    share = 1 / (1 + np.exp(-(rows["x"].sum(axis=1).astype(np.float64) - 150) / 40))
    return Told(labels=(share > 0.6).astype(int), scores=np.stack([1 - share, share], axis=1))


def test_rows_lie_on_both_sides_of_a_sum() -> None:
    """No single input has this threshold; all rows are within a thousandth of it, and clear of rounding."""
    sums = search(pool(), labels_only)["x"].astype(np.float64).sum(axis=1)
    assert len(sums) == 16
    assert np.count_nonzero(sums > 150) == 8
    assert np.abs(sums - 150).max() < 0.15
    assert np.abs(sums - 150).min() > 64 * 2.0**-23 * 100


def test_scores_differ_by_more_than_the_tolerance() -> None:
    """From those at the turn, so that what is compared is no tie."""
    told = with_scores(search(pool(), with_scores))
    distance = np.abs(told.scores[:, 1] - 0.6)
    assert sorted(np.unique(told.labels)) == [0, 1]
    assert distance.min() > 1e-3 * 0.6
    assert distance.max() < 0.05


def test_a_tie_of_the_best_scores_is_kept_away_from() -> None:
    """The usual decision, at 0.5."""

    def ask(rows: Any) -> Told:
        told = with_scores(rows)
        return Told(labels=(told.scores[:, 1] > 0.5).astype(int), scores=told.scores)

    lead = np.abs(np.diff(ask(search(pool(), ask)).scores, axis=1))
    assert lead.min() > 1e-3


def test_votes_that_jump_are_no_distance() -> None:
    """A machine's score is its votes and, in part, how sure they are: that part has to move."""

    def ask(rows: Any) -> Told:
        sure = (rows["x"].sum(axis=1).astype(np.float64) - 150) / 300
        votes = (sure > 0).astype(int)
        return Told(labels=votes, scores=np.stack([1 - votes - sure, votes + sure], axis=1))

    sums = search(pool(), ask)["x"].astype(np.float64).sum(axis=1)
    assert np.abs(sums - 150).min() > 0.05


def test_scores_of_steps_are_near_enough_when_they_stay() -> None:
    """Trees: no row on one side of a threshold has another score than the rest of it."""

    def ask(rows: Any) -> Told:
        share = np.where(rows["x"][:, 0] > 50, 0.9, 0.2)
        return Told(labels=(share > 0.5).astype(int), scores=np.stack([1 - share, share], axis=1))

    assert np.median(np.abs(search(pool(), ask)["x"][:, 0] - 50)) < 0.1


def test_whole_numbers_are_halved_too() -> None:
    """They stay whole."""
    rows = search(pool("int64"), labels_only)["x"]
    assert rows.dtype == np.int64
    assert np.abs(rows.sum(axis=1) - 150).max() <= 6


def test_what_has_no_middle_is_never_mixed() -> None:
    """Codes, texts and missing values are those of one of the two rows."""
    rows = pool()
    rows["x"][:, 2] = np.where(np.arange(40) % 2, -999, 0)
    rows["city"] = np.array(["Oslo", "Rome"] * 20, dtype=object).reshape(40, 1)
    rows["x"][::5, 1] = np.nan
    held = {"x": np.isin(rows["x"], (-999, 0)), "city": np.zeros((40, 1), dtype=bool)}

    def ask(given: Any) -> Told:
        return Told(labels=(given["x"][:, 0] > 50).astype(int), scores=np.zeros((len(given["x"]), 0)))

    found = search(rows, ask, held)
    assert set(np.unique(found["x"][:, 2])) <= {-999.0, 0.0}
    assert set(found["city"].ravel()) <= {"Oslo", "Rome"}
    assert np.median(np.abs(found["x"][:, 0] - 50)) < 0.1


@pytest.mark.parametrize("decides", [lambda x: np.zeros(len(x), int), lambda x: np.isnan(x[:, 0]).astype(int)])
def test_no_decision_among_numbers_gives_no_rows(decides: Any) -> None:
    """One label for all, or labels that only a missing value tells apart."""
    rows = pool()
    rows["x"][:10, 0] = np.nan
    found = search(rows, lambda given: Told(labels=decides(given["x"]), scores=np.zeros((len(given["x"]), 0))))
    assert found is None
