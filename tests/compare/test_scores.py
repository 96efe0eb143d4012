"""Which outputs are scores of classes: variants have a limit on the largest of each of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.worker.compare.outputs import OutputComparison

DRAWN = np.random.default_rng(0).normal(size=(100, 200)).astype(np.float32)
SOFTMAX = (np.exp(DRAWN) / np.exp(DRAWN).sum(axis=1, keepdims=True)).astype(np.float32)
RULE = OutputRule(tolerance=Tolerance(rtol=0.0, atol=0.0), limits={"max_mismatch": 1.0}, for_scores={"min_top1": 0.95})


def compare(reference: Any, *, name: str = "y", rule: OutputRule = RULE, columns: Any = None) -> OutputDiff:
    """With another class on top in 17 rows of a hundred."""
    actual = reference.copy()
    wrong = max(1, round(0.17 * len(actual)))
    actual[:wrong] = np.roll(actual[:wrong], 1, axis=-1)
    comparison = OutputComparison(provider="cpu", case="c", output=name, rule=rule)
    answer = Answer(value=reference, dtype="float32", columns=columns)
    comparison.add(answer, Actual(value=actual), rows=len(reference))
    return comparison.finish()


@pytest.mark.parametrize(
    ("reference", "given"),
    [
        (DRAWN, {"columns": tuple(range(200))}),
        (SOFTMAX, {}),
        (np.log(SOFTMAX), {}),
        (DRAWN, {"name": "logits"}),
        (DRAWN, {"name": "class_scores"}),
        (DRAWN, {"name": "head.probs:0"}),
    ],
    ids=["classes are known", "probabilities", "their logarithms", "logits", "class_scores", "probs"],
)
def test_scores_have_to_keep_the_largest(reference: Any, given: dict[str, Any]) -> None:
    """83 of 100 are too few."""
    diff = compare(reference, **given)
    assert diff.limits["min_top1"] == 0.95
    assert [breach.text for breach in diff.breaches] == ["top1 is 0.83, at least 0.95 is required"]


@pytest.mark.parametrize("name", ["y", "embedding", "problem", "rescored"])
def test_what_may_be_scores_is_counted_only(name: str) -> None:
    """An embedding has a largest element too, and nobody cares which."""
    diff = compare(DRAWN, name=name)
    assert (diff.top1, diff.limits, diff.breaches) == (0.83, {"max_mismatch": 1.0}, ())


def test_a_limit_of_the_manifest_takes_the_place_of_the_default() -> None:
    """Also one that is lower."""
    rule = OutputRule(tolerance=RULE.tolerance, limits={"max_mismatch": 1.0, "min_top1": 0.8})
    assert compare(SOFTMAX, rule=rule).breaches == ()


def test_few_rows_are_not_held_to_a_share() -> None:
    """One of seven would be too many."""
    diff = compare(SOFTMAX[:7])
    assert (diff.limits, diff.breaches) == ({"max_mismatch": 1.0}, ())


@pytest.mark.parametrize("shape", [(100,), (100, 1), (100, 2), (10, 10, 20)])
def test_other_forms_are_no_scores(shape: tuple[int, ...]) -> None:
    """One value, two of anything, a sequence of vectors."""
    reference = DRAWN.reshape(-1)[: int(np.prod(shape))].reshape(shape)
    assert compare(reference).top1 is None


def test_a_model_in_full_precision_is_not_asked() -> None:
    """Its tolerance says more."""
    rule = OutputRule(tolerance=RULE.tolerance, limits={"max_mismatch": 1.0})
    assert compare(SOFTMAX, rule=rule).top1 is None
