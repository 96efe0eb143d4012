"""Strength of real test data, and of poor data beside wrong models: a tenth of both, through the command."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sweeps.strength import healthy, poor
from sweeps.strength.faults import fault_of, points_at
from sweeps.wrong_models import suite

SEED = 4
"""Draws the tenth."""
WITHOUT_NETWORKS = ("sklearn_models", "onnx_models")
WRONG_WITHOUT_NETWORKS = ("sklearn_numbers", "sklearn_words")
"""To import and export the others takes longer than all of this."""


@pytest.mark.extras
def test_real_test_data_is_strong_or_the_report_says_why_not(tmp_path: Path) -> None:
    """A tenth of the healthy models passes, each with its strength; one that takes texts is always among them."""
    chosen = healthy.choose(tenth=SEED, families=WITHOUT_NETWORKS)
    chosen |= healthy.choose(only=["bayes_text"], families=["sklearn_models"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, judged = healthy.judge(tmp_path, chosen)
    assert len(judged) >= 3
    assert not healthy.shortcomings(judged)


@pytest.mark.extras
def test_survivors_point_at_what_poor_data_does_not_show(tmp_path: Path) -> None:
    """A tenth of the wrong models passes with poor data, and the sentences name where each is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, wrong = poor.judge(tmp_path, suite.choose(tenth=SEED, families=WRONG_WITHOUT_NETWORKS), seed=0)
    assert len(wrong) >= 3
    assert not poor.shortcomings(wrong)


def _file(weight: float, *, negated: bool = False) -> onnx.ModelProto:
    """x · weight, and perhaps the opposite of it."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in "xy"]
    nodes = [helper.make_node("Mul", ["x", "scale.weight"], ["product"], name="product_of")]
    nodes += [helper.make_node("Neg" if negated else "Identity", ["product"], ["y"], name="last")]
    stored = [numpy_helper.from_array(np.array(weight, dtype=np.float32), "scale.weight")]
    return helper.make_model(helper.make_graph(nodes, "net", values[:1], values[1:], stored))


def test_a_sentence_points_at_a_fault_if_it_names_it_whole() -> None:
    """The tensor or the node that was changed: no other one, no part of a name, and not outside of back-quotes."""
    tensor, node = fault_of(_file(1), _file(2)), fault_of(_file(1), _file(1, negated=True))
    assert points_at(tensor, ["no row makes use of `scale.weight (row 3)`"])
    assert not points_at(
        tensor, ["no row makes use of `scale.weight.second`", "no row reaches scale.weight", "`scale`"]
    )
    assert points_at(node, ["errors in `Neg last` change the answers by less than the limits allow"])
    assert not points_at(node, ["errors in `product_of` change the answers by less than the limits allow"])
    assert not points_at(tensor, ["no row has a missing value, and the model has learnt what to do with one"])
