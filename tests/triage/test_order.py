"""Right answers in the wrong order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import Tolerance
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.triage.order import find_order

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 6, 3)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2, 2, 1])


def cause_of(references: Mapping[str, Any], actuals: Mapping[str, Any]) -> Cause | None:
    """What is found, by its name alone."""
    found = find_order(references, actuals, TOLERANCE)
    return found.cause if found else None


def test_swapped_outputs_are_found():
    """Each under the other's name."""
    assert cause_of({"a": A, "b": B}, {"a": B, "b": A}) is Cause.OUTPUT_ORDER


@pytest.mark.parametrize("order", [[1, 0, 2], [2, 0, 1]])
def test_swapped_columns_are_found(order):
    """Probabilities whose classes are in another order."""
    assert cause_of({"p": A}, {"p": A[:, order]}) is Cause.LABEL_ORDER


def test_swapped_labels_are_found():
    """Each class is answered as just one other."""
    renamed = np.array([2, 0, 1])[LABELS]
    assert cause_of({"label": LABELS}, {"label": renamed}) is Cause.LABEL_ORDER
    words = np.array(["a", "b", "c"], object)
    assert cause_of({"label": words[LABELS]}, {"label": words[renamed]}) is Cause.LABEL_ORDER


def test_labels_and_columns_may_be_swapped_together():
    """As by an export with another list of classes."""
    references = {"label": LABELS, "p": A}
    actuals = {"label": np.array([1, 0, 2])[LABELS], "p": A[:, [1, 0, 2]]}
    assert cause_of(references, actuals) is Cause.LABEL_ORDER


@pytest.mark.parametrize(
    ("references", "actuals"),
    [
        ({"a": A}, {"a": A}),
        ({"a": A}, {"a": A + 1}),
        ({"a": A, "b": B}, {"a": B, "b": B}),
        ({"a": A, "b": B}, {"a": A, "b": B + 1}),
        ({"p": A}, {"p": np.repeat(A[:, :1], 3, axis=1)}),
        ({"p": A}, {"p": A[:3]}),
        ({"label": LABELS}, {"label": np.roll(LABELS, 1)}),
        ({"label": np.array([0, 1])}, {"label": np.array([1, 0])}),
    ],
)
def test_other_differences_are_not_taken_for_an_order(references, actuals):
    """Equal, plainly wrong, half of a swap, or too few rows to tell."""
    assert find_order(references, actuals, TOLERANCE) is None


def test_labels_of_rows_with_a_tie_say_nothing_of_an_order():
    """Of neighbours that vote for as many classes, the first class is answered, and another one in another order."""
    scores = np.tile(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]], "float32"), (5, 1))
    order = [1, 2, 0]
    references = {"label": scores.argmax(1), "p": scores}
    actuals = {"label": scores[:, order].argmax(1), "p": scores[:, order]}
    found = find_order(references, actuals, TOLERANCE)
    assert found is not None
    assert found.cause is Cause.LABEL_ORDER
    assert found.labels["label"] == {2: 0, 0: 1, 1: 2}
