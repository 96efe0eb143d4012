"""What variants are held to by default, through the whole gate: limits that see scale, and true half precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value

MANIFEST = """
version: 1
models:
  - {id: offset, source: offset.onnx, variants: [int8-dynamic, {int8-dynamic: {name: own, min_column_snr_db: -10}}]}
  - {id: wide, source: wide.onnx, variants: [{int8-dynamic: {reduce_range: true}}, fp16]}
  - {id: units, source: units.onnx, variants: [{int8-dynamic: {reduce_range: true}}]}
  - {id: mixed, source: mixed.onnx, outputs: {y: {rtol: 0.01, atol: 1e-5}}}
  - {id: small, source: mixed.onnx, variants: [{int8-dynamic: {reduce_range: true}}]}
  - {id: logits, source: logits.onnx, batches: [1, 7, 128], variants: [int8-dynamic]}
  - {id: unnamed, source: unnamed.onnx, batches: [1, 7, 128], variants: [int8-dynamic]}
  - {id: classes, source: classes.onnx, batches: [1, 7, 128], variants: [fp16, {int8-dynamic: {reduce_range: true}}]}
  - {id: near, source: near.onnx, variants: [fp16, {fp16: {name: io, keep_io: false}}]}
  - {id: asked, source: near.onnx, outputs: {y: {min_column_snr_db: 20}}}
  - {id: alone, source: near.onnx, batches: [1], outputs: {y: {min_column_snr_db: 20}}}
  - {id: one, source: wide.onnx, batches: [1], variants: [fp16]}
  - {id: large, source: large.onnx, variants: [fp16]}
  - {id: branch, source: branch.onnx, variants: [fp16]}
  - {id: direction, source: positive.onnx, outputs: {y: {rtol: 0, atol: 0, max_mismatch: 1, min_cosine: 0.99}}}
"""
RNG = np.random.default_rng(0)


def _drawn(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def _linear(path: Path, weights: Any, *, output: str = "y", bias: Any = None, softmax: bool = False) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], name="product")]
    nodes.append(helper.make_node("Add", ["product", "b"], ["sum"], name="sum"))
    nodes.append(helper.make_node("Softmax" if softmax else "Identity", ["sum"], [output], name="last"))
    inputs = [value("x", shape=["batch", len(weights)])]
    stored = {"w": weights, "b": np.zeros(weights.shape[1], np.float32) if bias is None else bias}
    save(path, nodes, inputs, [value(output, shape=["batch", weights.shape[1]])], stored)


def _offset(path: Path) -> None:
    """295 ± 2, all of it in one product: beside a weight of 295, int8 makes 0 of the others."""
    nodes = [
        helper.make_node("Pad", ["x", "pads", "one"], ["padded"]),
        helper.make_node("MatMul", ["padded", "w"], ["y"]),
    ]
    weights = np.concatenate([np.full((16, 1), 0.5, np.float32), np.full((1, 1), 295, np.float32)])
    stored = {"w": weights, "pads": np.array([0, 0, 0, 1], np.int64), "one": np.float32(1)}
    save(path, nodes, [value("x", shape=["batch", 16])], [value("y", shape=["batch", 1])], stored)


def _branch(path: Path) -> None:
    """Values inside of a branch can't be rounded from outside."""
    inner = [
        helper.make_graph(
            [helper.make_node(op, ["doubled"], [f"{op}_out"], name=op)],
            op,
            [],
            [value(f"{op}_out", shape=["batch", 3])],
        )
        for op in ("Sin", "Cos")
    ]
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["doubled"], name="double"),
        helper.make_node("If", ["yes"], ["y"], name="if", then_branch=inner[0], else_branch=inner[1]),
    ]
    stored = {"two": np.float32(2), "yes": np.array(True)}
    save(path, nodes, [value("x")], [value("y")], stored)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("limits")
    _offset(folder / "offset.onnx")
    _linear(folder / "wide.onnx", _drawn(32, 8), bias=np.full(8, 20, np.float32))
    _linear(folder / "units.onnx", _drawn(16, 2) * np.array([0.5, 1000], np.float32))
    outlier = _drawn(64, 200)
    outlier[0, 0] = 45
    _linear(folder / "logits.onnx", outlier, output="logits")
    _linear(folder / "unnamed.onnx", outlier)
    _linear(folder / "classes.onnx", 4 * _drawn(16, 10), softmax=True)
    _linear(folder / "near.onnx", np.eye(1, dtype=np.float32), bias=np.full(1, 1990, np.float32))
    _linear(
        folder / "large.onnx", np.array([[30_000], [-70_000], [1e-12]], np.float32) * np.eye(3, dtype=np.float32)[0]
    )
    _branch(folder / "branch.onnx")
    _linear(folder / "positive.onnx", _drawn(4, 3), bias=np.full(3, 100, np.float32))
    first = np.arange(20) == 0
    units = np.where(first, 0.25, 250).astype(np.float32)
    _linear(folder / "mixed.onnx", _drawn(16, 20) * units, bias=np.where(first, 295, 0).astype(np.float32))
    return run_manifest(folder, MANIFEST)


def test_a_constant_with_an_offset_is_no_int8_model(run: Run) -> None:
    """43 dB of the raw magnitude, none of what varies."""
    result = run["offset@int8-dynamic"]
    assert (result.verdict, result.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert "column_snr_db is " in result.advice
    [check] = run.checks("offset@int8-dynamic", case="batch=32")
    assert check.snr_db is not None
    assert check.column_snr_db is not None
    assert check.snr_db > 38
    assert check.column_snr_db < 3
    assert run["offset@own"].verdict is Status.PASSED


def test_a_target_of_a_small_unit_is_seen(run: Run) -> None:
    """Both columns have one scale of weights: the smaller is all 0."""
    assert run["units@int8-dynamic"].verdict is Status.DIVERGED


def test_a_small_unit_with_an_offset_is_seen_among_many_columns(run: Run) -> None:
    """295 ± 1 beside nineteen columns of ± 1000: a warning that names it, and int8 makes a constant of it."""
    coverage = run["mixed"].coverage
    assert coverage is not None
    [warning] = [told for told in coverage.warnings if "column 0 of `y` varies" in told]
    assert "about 29" in warning
    assert "add `outputs: {y: {min_column_snr_db: 20}}`" in warning
    assert run["small@int8-dynamic"].verdict is Status.DIVERGED


@pytest.mark.parametrize(
    "model_id", ["wide@int8-dynamic", "wide@fp16", "classes@fp16", "classes@int8-dynamic", "one@fp16", "branch@fp16"]
)
def test_a_healthy_variant_passes(run: Run, model_id: str) -> None:
    """Held to the same limits."""
    assert run[model_id].verdict is Status.PASSED, [check.message for check in run[model_id].checks]


def test_another_class_on_top_is_a_divergence(run: Run) -> None:
    """Of 200 classes; where the output doesn't say that it is scores, a warning."""
    result = run["logits@int8-dynamic"]
    assert result.verdict is Status.DIVERGED
    assert {check.case for check in result.checks if check.breaches} == {"batch=128"}
    assert "at least 0.95 is required" in result.advice
    unsure = run["unnamed@int8-dynamic"]
    assert unsure.verdict is Status.PASSED
    assert unsure.coverage is not None
    [warning] = unsure.coverage.warnings
    assert "another column is the largest" in warning


def test_half_precision_is_computed_in_half_precision(run: Run) -> None:
    """Between 1024 and 2048 float16 has whole numbers; the CPU alone answers 1990.4."""
    for model_id in ("near@fp16", "near@io"):
        result = run[model_id]
        assert (result.verdict, result.cause) == (Status.DIVERGED, Cause.PRECISION), model_id
        assert any(note.startswith("computed in half precision") for note in result.notes)
        [check] = run.checks(model_id, case="batch=32")
        assert check.rmse is not None
        assert 0.2 < check.rmse < 0.4


def test_what_can_not_be_computed_in_half_is_said(run: Run) -> None:
    """A warning in every report, and no note that says the opposite."""
    result = run["branch@fp16"]
    assert result.coverage is not None
    [warning] = [told for told in result.coverage.warnings if "half precision" in told]
    assert warning.startswith("not computed in half precision: ")
    assert "sub-graphs" in warning
    assert not any(note.startswith("computed in half") for note in result.notes)


def test_a_columns_limit_is_held_by_the_model_itself(run: Run) -> None:
    """1990 ± 1 is 100 dB in float32; without the limit there is a warning."""
    assert run["asked"].verdict is Status.PASSED
    assert run["asked"].coverage is not None
    assert run["asked"].coverage.warnings == ()
    near = run["near"].coverage
    assert near is not None
    [warning] = near.warnings
    assert "about 19" in warning
    assert "add `outputs: {y: {min_column_snr_db: 20}}`" in warning


def test_a_columns_limit_that_nothing_was_held_against(run: Run) -> None:
    """An error where the manifest names the output; a warning where it is the variant's default."""
    assert run["alone"].verdict is Status.ERROR
    assert "at least 8 rows" in run["alone"].error
    assert "Fix: feed more rows" in run["alone"].error
    coverage = run["one@fp16"].coverage
    assert coverage is not None
    assert any("`min_column_snr_db` of `y` was not held" in told for told in coverage.warnings)


def test_weights_are_cut_where_float16_ends(run: Run) -> None:
    """At 65,504, not at 10,000; what is tiny stays above 0."""
    model = onnx.load(run.output / "models" / "large@fp16.onnx")
    [weights] = [
        numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.name == "w" and tensor.data_type == TensorProto.FLOAT16
    ]
    assert weights[0, 0] == 30_000
    assert weights[1, 0] == -65_504
    assert 0 < weights[2, 0] < 1e-7
    [note] = [note for note in run["large@fp16"].notes if "too large" in note]
    assert "-70000" in note


def test_a_direction_alone_is_warned_of(run: Run) -> None:
    """100 ± 2 in three columns: a constant has the same direction."""
    result = run["direction"]
    assert result.verdict is Status.PASSED
    assert result.coverage is not None
    [warning] = result.coverage.warnings
    assert "would keep `min_cosine`" in warning
