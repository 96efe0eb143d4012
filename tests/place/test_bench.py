"""Values of a graph are looked at, and replaced, without changing what it computes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place.bench import Bench
from onnx_gate.worker.place.columns import find_order, reordered, search_order
from onnx_gate.worker.place.exchanges.differences import other_epsilon
from onnx_gate.worker.place.values import Layout, agree, layouts, nearly, noise_of, wrong_share

W = np.arange(6, dtype="float32").reshape(2, 3)
FEED = {"x": np.array([[1, 2], [3, -4]], "float32")}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """relu(x @ w), then its double if its sum is positive; the weight lies behind an Identity."""
    then, other = (
        helper.make_graph(
            [helper.make_node(op, ["h", "h"], ["r"])],
            op,
            [],
            [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
        )
        for op in ("Add", "Sub")
    )
    nodes = [
        helper.make_node("Identity", ["w"], ["same"]),
        helper.make_node("MatMul", ["x", "same"], ["m"], "product"),
        helper.make_node("Relu", ["m"], ["h"], "relu"),
        helper.make_node("ReduceSum", ["h"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], "branch", then_branch=then, else_branch=other),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.zeros((), "float32"), "zero")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return Bench(Blueprint(str(path), session=SessionSpec()))


def test_values_are_those_of_the_file(bench):
    """In the order in which they are computed; what nothing feeds is no value, but stored."""
    seen = bench.run(FEED, ["m", "h", "y"])
    np.testing.assert_array_equal(seen["m"], FEED["x"] @ W)
    np.testing.assert_array_equal(seen["y"], 2 * np.maximum(FEED["x"] @ W, 0))
    assert "same" not in bench.live
    np.testing.assert_array_equal(bench.constant("same"), W)
    assert bench.live[0] == "x"
    assert bench.label(bench.live[1]) == "x"


def test_a_value_that_is_given_is_read_by_all_and_still_computed(bench):
    """Also within a branch."""
    given = np.full((2, 3), 5, "float32")
    seen = bench.run(FEED, ["h", "y"], {"h": given})
    np.testing.assert_array_equal(seen["h"], np.maximum(FEED["x"] @ W, 0))
    np.testing.assert_array_equal(seen["y"], 2 * given)
    np.testing.assert_array_equal(bench.run({}, ["y"], {"h": -given, "s": np.float32(-1)})["y"], np.zeros((2, 3)))


def test_shapes_are_known_without_the_values(bench):
    """For the budget of memory."""
    assert bench.sizes(FEED, ["m", "s"]) == {"m": (2, 3), "s": ()}


def test_what_lies_between_two_values(bench):
    """Without the nodes that are ours."""
    own = [node.proto.name for node in bench.between("y", ["m"]) if node.own]
    assert own == ["relu", "", "", "branch"]


def test_layouts_bring_one_value_into_the_form_of_the_other():
    """As it is, reshaped, transposed, with two axes joined."""
    value = np.arange(24.0).reshape(2, 3, 4)
    for other in (value, value.reshape(6, 4), value.transpose(0, 2, 1), value.transpose(1, 0, 2).reshape(6, 4)):
        assert any(np.array_equal(way.of(value), other) for way in layouts(value.shape, other.shape))
    assert list(layouts((2, 3), (5,))) == []
    assert Layout(axes=(), shape=(6, 4)).of(value).shape == (6, 4)


def test_rounding_agrees_and_a_wrong_row_does_not():
    """Up to eight times the noise; one element of two hundred is few."""
    truth = np.linspace(1, 2, 200, dtype="float32")
    assert agree(truth, truth * np.float32(1 + 2e-7))
    one = truth.copy()
    one[3] += 0.01
    assert not agree(truth, one)
    assert nearly(truth, one)
    assert wrong_share(truth, one) == 1 / 200
    rows = np.tile(truth, (8, 1))
    row, column = rows.copy(), rows.copy()
    row[3, :10], column[:, 3] = 0.0, 0.0
    assert nearly(rows, row) and not nearly(rows, column)
    assert nearly(rows[:3], column[:3])
    assert wrong_share(truth, truth[:5]) == 1.0
    assert wrong_share(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])) == 0.0
    assert wrong_share(np.array([np.nan, 1.0]), np.array([0.0, 1.0])) == 0.5


def test_the_constant_of_a_mask_is_no_scale_of_the_noise():
    """Scores beside −1e9 are held to their own size, and the constant to its own."""
    truth = np.linspace(-2, 2, 64, dtype="float32").reshape(8, 8)
    truth[:, 5:] = -1e9
    scaled = np.where(truth < -1e8, truth, truth * np.float32(1.1))
    assert wrong_share(truth, scaled) > 0.5
    assert agree(truth, truth + np.float32(1e-7))
    moved = truth.copy()
    moved[:, 5:] += 64
    assert agree(truth, moved)
    large = np.linspace(1, 1e9, 64, dtype="float32")
    assert noise_of(large) == pytest.approx(noise_of(large[-1:]))


def test_another_epsilon_shows_in_what_it_was_computed_into():
    """The variances of the source explain it; other weights they don't."""
    random = np.random.default_rng(0)
    scale, variance = random.uniform(0.5, 2, 12), random.uniform(0.3, 2, 12)
    kernel = random.normal(size=(7, 12))
    right, wrong = (scale / np.sqrt(variance + epsilon) for epsilon in (1e-3, 0.1))
    weights = [scale.astype("float32"), variance.astype("float32")]
    for ours, theirs in ((wrong, right), (kernel * wrong, kernel * right)):
        assert other_epsilon(ours.astype("float32"), theirs.astype("float32"), weights)
    unit = (kernel * right).astype("float32")
    unit[:, 3] *= 3
    assert not other_epsilon(unit, (kernel * right).astype("float32"), [*weights, random.normal(size=12)])
    stale = right * random.uniform(0.9, 1.1, 12)
    assert not other_epsilon(stale.astype("float32"), right.astype("float32"), weights)
    assert not other_epsilon(right.astype("float32"), right.astype("float32"), weights)


def test_the_order_of_columns_is_found_by_what_they_do():
    """Over several inputs too; of columns that do the same any will do; a file that is wrong otherwise has none."""
    rng = np.random.default_rng(0)
    feed = {"a": rng.normal(size=(9, 4)).astype("float32"), "b": rng.normal(size=(9, 2)).astype("float32")}
    order = (3, 0, 5, 1, 2, 4)

    def source(given):
        x = np.hstack([given["a"], given["b"]]).astype("float64")
        return {"y": np.tanh(x @ np.array([1, -2, 3, 0.5, 0, 0.1])) + (x[:, 1] > 0.3)}

    def file(given):
        whole = np.hstack([given["a"], given["b"]])[:, list(order)]
        return source({"a": whole[:, :4], "b": whole[:, 4:]})

    found = find_order(feed, source, file)
    assert found is not None
    np.testing.assert_allclose(file(reordered(feed, found))["y"], source(feed)["y"])
    assert find_order(feed, source, source) is None
    assert find_order(feed, source, lambda given: {"y": 2 * source(given)["y"]}) is None
    assert find_order({"a": feed["a"][:, :1]}, source, file) is None


def test_the_order_of_columns_is_searched_for_where_only_answers_are_known():
    """Columns change places as long as the answers come nearer to those that were recorded."""
    random = np.random.default_rng(2)
    rows, weights = random.normal(size=(64, 7)), random.normal(size=(7, 3))
    order = [3, 0, 1, 2, 6, 5, 4]

    def source(feed):
        return {"y": np.tanh(feed["x"] @ weights)}

    def file(feed):
        return source({"x": feed["x"][:, order]})

    feed = {"x": rows}
    found = search_order(feed, source(feed), file, time.monotonic() + 60)
    assert found is not None
    np.testing.assert_allclose(file(reordered(feed, found))["y"], source(feed)["y"])
    assert search_order(feed, source(feed), source, time.monotonic() + 60) is None
