"""Damaged files, quantised models and weights beside the file: what loads isn't right by that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_gate.vocabulary import Cause, Status
from tests import onnx_models
from tests.conftest import Run, run_manifest
from tests.onnx_models import value
from tests.onnx_values import data_set

DAMAGED = 40
"""Of one byte each, at places all over the file."""


def network(path: Path) -> Path:
    """Two layers whose weights are within the file."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["y"]),
    ]
    shapes = {"w1": (3, 8), "b1": (8,), "w2": (8, 3), "b2": (3,)}
    stored = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return onnx_models.save(path, nodes, [value("x")], [value("y")], stored)


def quantised(path: Path) -> Path:
    """A linear layer as QuantizeLinear and DequantizeLinear leave it: int8 on both sides."""
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "sx", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "sx", "z"], ["xd"]),
        node("DequantizeLinear", ["wq", "sw", "z"], ["wd"]),
        node("MatMul", ["xd", "wd"], ["m"]),
        node("QuantizeLinear", ["m", "sy", "z"], ["mq"]),
        node("DequantizeLinear", ["mq", "sy", "z"], ["y"]),
    ]
    weights = np.random.default_rng(0).integers(-127, 127, (64, 3)).astype(np.int8)
    stored = {
        "sx": np.float32(0.02),
        "sw": np.float32(0.01),
        "sy": np.float32(0.1),
        "z": np.int8(0),
        "wq": weights,
    }
    shapes = [value("x", shape=["batch", 64]), value("y")]
    return onnx_models.save(path, nodes, shapes[:1], shapes[1:], stored)


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Run:
    """All models in one run."""
    folder = tmp_path_factory.mktemp("faults")
    content = network(folder / "whole.onnx").read_bytes()
    x = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    data_set(folder / "data/test_data_set_0", [x], [_reference(folder / "whole.onnx", x)])
    ids = ["whole"]
    for number in range(DAMAGED):
        place = number * len(content) // DAMAGED
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        (folder / f"damaged-{number}.onnx").write_bytes(damaged)
        ids.append(f"damaged-{number}")
    lines = [f"  - {{id: {name}, framework: onnx, source: {name}.onnx, data: data}}" for name in ids]
    quantised(folder / "quantised.onnx")
    lines += ["  - {id: quantised, framework: onnx, source: quantised.onnx, tolerance: {rtol: 0, atol: 0.1001}}"]
    return run_manifest(folder, "\n".join(["version: 1", "models:", *lines]))


def _reference(path: Path, x: np.ndarray) -> np.ndarray:
    """In float64, by numpy."""
    stored = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(str(path)).graph.initializer}
    hidden = np.maximum(x @ stored["w1"] + stored["b1"], 0)
    return (hidden @ stored["w2"] + stored["b2"]).astype(np.float32)


def test_the_file_itself_passes(judged):
    """So that what the others show is the damage."""
    assert judged["whole"].verdict is Status.PASSED


def test_no_damaged_file_crashes_or_passes_with_other_answers(judged):
    """Some don't load, some run and answer something else; one byte may also be of no weight (a name, a doc)."""
    verdicts = {number: judged[f"damaged-{number}"] for number in range(DAMAGED)}
    assert {model.verdict for model in verdicts.values()} >= {Status.ERROR, Status.DIVERGED}
    for number, model in verdicts.items():
        assert model.cause not in (Cause.CRASHED, Cause.UNKNOWN), (number, model.error, model.advice)
        if model.verdict is Status.PASSED:
            assert all(check.mismatched == 0 and check.total == 21 for check in model.checks)
        elif model.verdict is Status.ERROR:
            assert "Fix:" in model.error, (number, model.error)


def test_damaged_weights_are_found(judged):
    """Where the sign or the exponent of a weight changed, the file loads and diverges."""
    diverged = [judged[f"damaged-{number}"] for number in range(DAMAGED)]
    assert any(model.verdict is Status.DIVERGED and model.cause != Cause.CONTRACT for model in diverged)


def test_an_int8_model_that_saturates_is_told_as_the_optimisers_doing(judged):
    """Without VNNI the fused kernel adds up pairs in 16 bits; with it, both agree to a step of the last scale."""
    model = judged["quantised"]
    if model.verdict is Status.PASSED:
        assert all(check.max_abs <= 0.1001 for check in model.checks)
    else:
        assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPTIMIZER)
        assert any("out of tolerance" in check.message for check in model.checks)
