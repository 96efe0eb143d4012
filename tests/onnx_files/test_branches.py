"""Sizes that a file compares with a number, and what is said where only one side of it was run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_gate.records.found import SizeBranch
from onnx_gate.vocabulary import Status
from onnx_gate.worker.onnx_files.branches import untried_branches
from onnx_gate.worker.onnx_files.graph import read_graph
from tests.conftest import Run
from tests.onnx_models import save, value


def branching(path: Path, *, turned: bool = False, start: bool = False) -> Path:
    """y = x, and 2·x where there are more than 100 rows."""
    sides = [
        helper.make_graph([helper.make_node("Mul", ["x", factor], [f"y_{factor}"])], factor, [], [value(f"y_{factor}")])
        for factor in ("two", "one")
    ]
    size = (
        [helper.make_node("Shape", ["x"], ["n"], start=0, end=1)]
        if start
        else [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["n"]),
        ]
    )
    compare = ("Less", ["hundred", "n_"]) if turned else ("Greater", ["n_", "hundred"])
    nodes = [
        *size,
        helper.make_node("Reshape", ["n", "flat"], ["n_"]),
        helper.make_node(*compare, ["many"]),
        helper.make_node("If", ["many"], ["y"], then_branch=sides[0], else_branch=sides[1]),
    ]
    constants = {
        "zero": np.array([0]),
        "flat": np.array([1]),
        "hundred": np.array([100]),
        "one": np.float32(1),
        "two": np.float32(2),
    }
    return save(path, nodes, [value("x")], [value("y")], constants)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("start", [False, True])
def test_a_size_that_is_compared_with_a_number_is_found(tmp_path: Path, turned: bool, start: bool) -> None:
    """On either side of the operator, however the exporter writes it."""
    graph = read_graph(str(branching(tmp_path / "m.onnx", turned=turned, start=start)), "m.onnx")
    assert graph.branches == (SizeBranch(input="x", axis=0, op="Greater", number=100),)


@pytest.mark.parametrize(("op", "number", "warned"), [("Greater", 8, True), ("Equal", 1, False), ("Equal", -1, False)])
def test_only_a_side_that_could_be_run_is_missed(op: str, number: int, warned: bool) -> None:
    """Exporters compare sizes with 1 and −1 to broadcast: no size is −1, and 1 was run."""
    branches = (SizeBranch(input="x", axis=0, op=op, number=number),)
    assert bool(untried_branches(branches, {"x": ("batch", 3)}, {"batch": {1, 4}})) is warned
    assert untried_branches(branches, {"x": (4, 3)}, {"batch": {1, 4}}) == []


def test_a_branch_that_no_batch_takes_is_a_warning(run: Callable[..., Run], tmp_path: Path) -> None:
    """With the line to paste, which silences it."""
    branching(tmp_path / "m.onnx")
    first = run("version: 1\nmodels: [{id: m, source: m.onnx, batches: [1, 4]}]")["m"]
    assert first.verdict is Status.PASSED
    assert first.coverage is not None
    (warning,) = [text for text in first.coverage.warnings if "asks whether" in text]
    assert "asks whether batch > 100" in warning
    assert "`batches: [1, 4, 101]`" in warning
    second = run("version: 1\nmodels: [{id: m, source: m.onnx, batches: [1, 4, 101]}]")["m"]
    assert second.coverage is not None
    assert not any("asks whether" in text for text in second.coverage.warnings)


def test_broken_nodes_are_left_to_the_runtime(tmp_path: Path) -> None:
    """Nodes without inputs or outputs."""
    nodes = [
        helper.make_node("Shape", [], ["s"]),
        helper.make_node("Shape", ["x"], []),
        helper.make_node("Less", ["s"], ["l"]),
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.INT64, [1], [1])),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    assert read_graph(str(save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")])), "m.onnx").branches == ()
