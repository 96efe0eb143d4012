"""The float64 judge: how much of the error of a part is rounding, and how much of it is a fault."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place import rounding
from onnx_gate.worker.place.bench import Bench
from onnx_gate.worker.place.pairs import Pairs, Truth
from onnx_gate.worker.place.rounding import rounding_at
from onnx_gate.worker.place.values import nearly, noise_of

FAR = np.random.default_rng(4).normal(100, 1, (64, 8)).astype("float32")
"""Numbers with a large offset: their variance, computed from squares, is mostly rounding."""


def bench_of(path: Path, nodes: Sequence[Any], weights: dict[str, np.ndarray]) -> Bench:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", None])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path / "m.onnx")
    return Bench(Blueprint(str(path / "m.onnx"), session=SessionSpec()))


def spread(path: Path, scale: float = 1.0) -> Bench:
    """E[x²] − E[x]² of each row, times a scale, and then a bend."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "last"], ["of_squares"]),
        helper.make_node("ReduceMean", ["x", "last"], ["mean"]),
        helper.make_node("Mul", ["mean", "mean"], ["squared"]),
        helper.make_node("Sub", ["of_squares", "squared"], ["spread"]),
        helper.make_node("Mul", ["spread", "scale"], ["scaled"]),
        helper.make_node("Tanh", ["scaled"], ["y"]),
    ]
    return bench_of(path, nodes, {"last": np.array([-1]), "scale": np.array([scale], "float32")})


def settled(bench: Bench, known: Sequence[str], values: dict[str, np.ndarray]) -> Pairs:
    truth = Truth(values={name: values[name] for name in ("x", *known, "y")}, ends={"y": "y"})
    pairs = Pairs(bench, truth, {"x": FAR})
    pairs.settle()
    return pairs


def true_values(scale: float = 1.0) -> dict[str, np.ndarray]:
    """What the source would report if it computed in float64."""
    wide = FAR.astype("float64")
    scaled = scale * wide.var(axis=-1, keepdims=True)
    values = {"x": FAR, "scaled": scaled, "y": np.tanh(scaled)}
    return {name: value.astype("float32") for name, value in values.items()}


def test_what_float32_loses_at_a_place_is_rounding(tmp_path: Path) -> None:
    """The variance of numbers far from 0 is off by far more than one step of its own size."""
    bench, true = spread(tmp_path), true_values()
    own = bench.run({"x": FAR}, ["scaled"])["scaled"]
    assert not nearly(true["scaled"], own)
    noise = rounding_at(bench, "scaled", own, {}, {"x": FAR})
    assert noise > 50 * noise_of(true["scaled"])
    assert nearly(true["scaled"], own, noise)


def test_a_wrong_weight_is_equally_wrong_in_float64(tmp_path: Path) -> None:
    """So the judge calls none of it rounding, and the value stays wrong."""
    weights = np.random.default_rng(1).normal(size=(8, 4)).astype("float32")
    bench = bench_of(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")], {"w": 1.01 * weights})
    feed = {"x": FAR - 100}
    own = bench.run(feed, ["y"])["y"]
    noise = rounding_at(bench, "y", own, {}, feed)
    assert noise < 1e-5
    assert not nearly((feed["x"] @ weights).astype("float32"), own, noise)


def test_cancellation_is_no_fault(tmp_path: Path) -> None:
    """What float32 can't compute better is right, so that the true value behind it is used for what follows."""
    pairs = settled(spread(tmp_path), ["scaled"], true_values())
    assert "scaled" in pairs.found
    assert [pair.value for pair in pairs.wrong()] == []


def test_a_fault_beside_cancellation_is_still_one(tmp_path: Path) -> None:
    """The spread is scaled by another number than in the source."""
    pairs = settled(spread(tmp_path, scale=3.0), ["scaled"], true_values(scale=0.5))
    assert pairs.wrong()


def test_convolutions_are_judged_too(tmp_path: Path) -> None:
    """ONNX Runtime has no Conv in float64, so the reference implementation computes it."""
    random = np.random.default_rng(2)
    kernel = random.normal(size=(3, 1, 3)).astype("float32")
    kernel -= kernel.mean(axis=-1, keepdims=True)
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["image"]),
        helper.make_node("Conv", ["image", "w"], ["y"], "conv"),
    ]
    bench = bench_of(tmp_path, nodes, {"one": np.array([1]), "w": kernel})
    own = bench.run({"x": FAR}, ["y"])["y"]
    wide = np.stack(
        [np.array([np.convolve(row, k[0, ::-1], "valid") for k in kernel]) for row in FAR.astype("float64")]
    )
    error = float(np.abs(wide - own).max())
    assert rounding_at(bench, "y", own, {}, {"x": FAR}) == pytest.approx(error, rel=0.5)


def test_weights_above_the_limit_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge costs memory only up to a limit: beyond it, one step of float32 is the measure."""
    bench = spread(tmp_path)
    own = bench.run({"x": FAR}, ["scaled"])["scaled"]
    monkeypatch.setattr(rounding, "MOST_BYTES", 4)
    monkeypatch.setattr(bench, "cut", lambda *_: pytest.fail("cut out in spite of the limit"))
    assert rounding_at(bench, "scaled", own, {}, {"x": FAR}) == 0.0


def test_a_tree_has_no_rounding(tmp_path: Path) -> None:
    """It compares float32 numbers: in float64, a row on a threshold would go another way."""
    tree = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        "tree",
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.1, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )
    graph = helper.make_graph(
        [tree],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "t.onnx")
    bench = Bench(Blueprint(str(tmp_path / "t.onnx"), session=SessionSpec()))
    own = bench.run({"x": FAR}, ["y"])["y"]
    assert rounding_at(bench, "y", own, {}, {"x": FAR}) == 0.0


def test_what_rounding_destroys_is_not_right(tmp_path: Path) -> None:
    """So far from 0 that nothing is left of the variance: this is the fault that people want to see."""
    bench = spread(tmp_path)
    feed = {"x": FAR + 3000}
    own = bench.run(feed, ["scaled"])["scaled"]
    assert rounding_at(bench, "scaled", own, {}, feed) == 0.0
