"""How many different rows were fed, and in which shapes."""

from __future__ import annotations

import numpy as np

from onnx_gate.worker.trial.samples import Samples, shape_of


def test_rows_count_once_over_all_feeds():
    """At whatever batch size they come, and in whatever order."""
    rows = np.arange(12.0).reshape(6, 2)
    samples = Samples()
    assert samples.add({"X": rows[:1]}, 1) == 1
    assert samples.add({"X": rows}, 6) == 5
    assert samples.add({"X": rows[::-1]}, 6) == 0
    assert samples.add({"X": np.repeat(rows[:1] + 100, 3, axis=0)}, 3) == 1


def test_all_inputs_make_up_a_row():
    """Those without a batch are part of every row; text counts as numbers do."""
    one, two = np.array([["a"], ["b"]], object), np.ones((2, 3))
    samples = Samples()
    assert samples.add({"words": one, "scale": np.array([1.0, 2.0, 3.0]), "X": two}, 2) == 2
    assert samples.add({"words": one, "scale": np.array([1.0, 2.0, 4.0]), "X": two}, 2) == 2
    assert samples.add({"words": one, "scale": np.array([1.0, 2.0, 4.0]), "X": two}, 2) == 0


def test_without_a_batch_a_feed_is_a_sample():
    """Sequences and missing values too."""
    samples = Samples()
    assert samples.add({"x": np.ones(3)}, None) == 1
    assert samples.add({"x": np.ones(3)}, None) == 0
    assert samples.add({"x": [np.ones(3), np.ones(2)], "y": None}, None) == 1


def test_recorded_tables_are_made_of_rows():
    """Nobody says what their batch is: the first size is, where all tables have the same."""
    samples = Samples()
    assert samples.add({"x": np.arange(90.0).reshape(45, 2)}, None) == 45
    assert samples.add({"x": np.ones((2, 3)), "y": np.ones((4, 3))}, None) == 1


def test_shapes_are_told_by_input():
    """As they were fed."""
    assert shape_of({"x": np.ones((7, 4)), "n": np.float32(1).reshape(())}) == "7×4, scalar"
    assert shape_of({"x": [1, 2], "y": None}) == "list, none"
