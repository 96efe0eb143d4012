"""Does rounding alone explain it?"""

from __future__ import annotations

import numpy as np

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.triage.precision import (
    FLOAT32_EPS,
    compare_noise,
    explains,
    find_ties,
    judge_both,
    mismatches,
    nudge_feed,
    round_feed,
)

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
SCORES = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])


def test_flips_at_equal_scores_are_ties():
    """0.5 against 0.5: the sum in float32 decides."""
    labels = np.array([0, 0, 1, 0])
    actual = SCORES.astype(np.float32) + np.float32(6e-8)
    ties = find_ties((labels, np.array([1, 0, 1, 1])), (SCORES, actual))
    assert ties is not None
    assert (ties.how, ties.mismatched, ties.left, ties.size) == ("ties", 2, 0, 0.0)


def test_flips_with_a_margin_are_no_ties():
    """As of a converter that ignores a tuned threshold: the scores agree, and 0.2 is no 0.8."""
    labels = np.array([0, 0, 1, 0])
    assert find_ties((labels, np.array([0, 0, 0, 0])), (SCORES, SCORES.astype(np.float32))) is None


def test_scores_that_differ_make_no_tie():
    """A margin of 0.335 is none, however wrong the other side's scores are."""
    scores = np.array([[0.6675, 0.3325], [0.9, 0.1], [0.2, 0.8]])
    wrong = np.array([[0.3, 0.7], [0.9, 0.1], [0.2, 0.8]], np.float32)
    assert find_ties((np.array([0, 0, 1]), np.array([1, 0, 1])), (scores, wrong)) is None


def test_ties_of_distances_are_those_of_the_smallest():
    """A clusterer's label is the nearest centre."""
    distances = np.array([[1.0, 1.0, 9.0], [2.0, 5.0, 5.0], [7.0, 1.0, 3.0], [9.0, 4.0, 2.0]])
    labels = np.array([0, 0, 1, 2])
    assert find_ties((labels, np.array([1, 0, 1, 2])), (distances, distances)) is not None
    assert find_ties((labels, np.array([0, 1, 1, 2])), (distances, distances)) is None


def test_ties_of_one_score_are_at_its_zero():
    """A binary decision function; labels may be words."""
    scores, labels = np.array([1e-9, 2.0, -3.0]), np.array(["yes", "yes", "no"], object)
    noisy = (scores + 1e-7).astype(np.float32)
    assert find_ties((labels, np.array(["no", "yes", "no"], object)), (scores, noisy)) is not None
    assert find_ties((labels, np.array(["yes", "no", "no"], object)), (scores, noisy)) is None


def test_both_sides_may_be_as_far_from_the_truth():
    """And one of them may not."""
    judge = np.linspace(1, 2, 8)
    reference, actual = (judge + 2e-3).astype(np.float32), (judge - 2e-3).astype(np.float32)
    found = judge_both(judge, reference, actual, TOLERANCE)
    assert found is not None
    assert found.how == "judge"
    assert judge_both(judge, judge.astype(np.float32), (judge + 0.1).astype(np.float32), TOLERANCE) is None
    assert judge_both(judge, reference, np.full(8, np.nan, np.float32), TOLERANCE) is None


def test_the_sources_own_noise_is_held_against_the_difference():
    """An answer that jumps where the input is rounded, beside one that doesn't."""
    reference, actual = np.array([1.0, 2.0, 3.0]), np.array([5.0, 2.0, 3.0], np.float32)
    jumps, rests = np.array([5.0, 2.0, 3.0]), np.array([1.0 + 1e-7, 2.0, 3.0])
    assert compare_noise(reference, actual, [rests, jumps], TOLERANCE) is not None
    assert compare_noise(reference, actual, [rests, rests], TOLERANCE) is None
    assert compare_noise(reference, actual, [rests, jumps], TOLERANCE, smooth=True) is None
    labels = np.array([0, 1, 1])
    assert compare_noise(labels, np.array([1, 1, 1]), [labels, np.array([1, 0, 1])], TOLERANCE) is not None
    assert compare_noise(labels, np.array([1, 1, 1]), [labels], TOLERANCE) is None


def test_nearly_all_is_enough_and_nothing_is_not():
    """No mismatch at all was not explained."""
    assert explains(200, 2)
    assert not explains(200, 3)
    assert not explains(0, 0)


def test_nan_is_a_mismatch_unless_it_meets_nan():
    """Whatever the tolerance."""
    reference, actual = np.array([np.nan, np.nan, 1.0]), np.array([np.nan, 1.0, np.nan], np.float32)
    assert mismatches(reference, actual, TOLERANCE).tolist() == [False, True, True]


def test_feeds_are_moved_by_roundings_only():
    """Relative to the column; what isn't a float stays."""
    feed = {"x": np.array([[1.0, 1e6], [0.0, -1e6]]), "word": np.array(["a", "b"], object)}
    for number in range(8):
        moved = nudge_feed(feed, number)
        assert moved["word"] is feed["word"]
        steps = np.abs(moved["x"] - feed["x"]) / (FLOAT32_EPS * np.array([1.0, 1e6]))
        assert np.allclose(steps, steps[0, 0], rtol=1e-2)
        assert 0.9 < steps[0, 0] < 2.1
    assert round_feed({"x": np.array([0.1])})["x"][0] == np.float32(0.1)
