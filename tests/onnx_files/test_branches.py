"""Sizes that a file compares with a number, and what is said where only one side of it was run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
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


COUNTED = {
    "all elements": ([("Size", ["x"], "n")], "Less", 300, ("Less", 100)),
    "their product": ([("Shape", ["x"], "shape"), ("ReduceProd", ["shape"], "n")], "Greater", 301, ("Greater", 100)),
    "a slice": (
        [("Shape", ["x"], "shape"), ("Slice", ["shape", "begin", "end"], "cut"), ("Squeeze", ["cut"], "n")],
        "Greater",
        100,
        ("Greater", 100),
    ),
    "a size of a value within": (
        [("Relu", ["x"], "inner"), ("Shape", ["inner"], "shape"), ("Gather", ["shape", "begin"], "n")],
        "GreaterOrEqual",
        64,
        ("GreaterOrEqual", 64),
    ),
    "less one": ([("Size", ["x"], "all"), ("Sub", ["three", "all"], "n")], "Less", -297, ("Greater", 100)),
    "no such number": ([("Size", ["x"], "n")], "Equal", 100, None),
}


@pytest.mark.parametrize("how", COUNTED)
def test_a_number_that_is_made_of_a_size_is_led_back_to_it(tmp_path: Path, how: str) -> None:
    """Elements are counted, shapes cut and multiplied: the question is the same."""
    steps, op, number, expected = COUNTED[how]
    nodes = [helper.make_node(operator, inputs, [output]) for operator, inputs, output in steps]
    nodes += [
        helper.make_node(op, ["n", "number"], ["asked"]),
        helper.make_node("Where", ["asked", "x", "x"], ["y"]),
    ]
    stored = {"number": np.array([number]), "begin": np.array([0]), "end": np.array([1]), "three": np.array([3])}
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], stored)
    model = onnx.load(path)
    model.graph.value_info.append(value("inner"))
    onnx.save(model, path)
    found = tuple(SizeBranch(input="x", axis=0, op=op, number=at) for op, at in ([expected] if expected else []))
    assert read_graph(str(path), "m.onnx").branches == found


def test_an_input_without_a_shape_has_sizes_all_the_same(tmp_path: Path) -> None:
    """One of them may be looked at; their product is nobody's."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "second"], ["n"]),
        helper.make_node("Greater", ["n", "number"], ["asked"]),
        helper.make_node("Size", ["x"], ["all"]),
        helper.make_node("Greater", ["all", "number"], ["asked_too"]),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    open_shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    stored = {"number": np.array(9), "second": np.array(1)}
    path = save(tmp_path / "m.onnx", nodes, [open_shape], [value("y")], stored)
    assert read_graph(str(path), "m.onnx").branches == (SizeBranch(input="x", axis=1, op="Greater", number=9),)


def test_a_comparison_within_a_branch_is_found(tmp_path: Path) -> None:
    """Sub-graphs see the sizes around them."""
    inner = [
        helper.make_graph(
            [
                helper.make_node("Greater", ["n", "number"], [f"asked_{side}"]),
                helper.make_node("Where", [f"asked_{side}", "x", "x"], [f"y_{side}"]),
            ],
            side,
            [],
            [value(f"y_{side}")],
        )
        for side in ("then", "else")
    ]
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=inner[0], else_branch=inner[1]),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x")], [value("y")], {"number": np.array([29]), "yes": np.array(True)}
    )
    assert set(read_graph(str(path), "m.onnx").branches) == {SizeBranch(input="x", axis=0, op="Greater", number=9)}


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


@pytest.mark.parametrize(
    ("op", "bounds", "numbers"),
    [("Min", ["n", "low"], [64]), ("Max", ["low", "n"], [64]), ("Clip", ["n", "low", "high"], [64, 100])],
)
def test_a_size_that_is_cut_off_at_a_number_is_found(tmp_path: Path, op: str, bounds: list[str], numbers: list[int]):
    """Beyond it, the file goes on with another size."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=0, end=1),
        helper.make_node(op, bounds, ["kept"]),
        helper.make_node("Cast", ["kept"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "factor"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], {"low": np.array(64), "high": np.array(100)})
    found = read_graph(str(path), "m.onnx").branches
    assert found == tuple(SizeBranch(input="x", axis=0, op="Greater", number=number) for number in numbers)


POSITIONS = {
    "a window": ([("Sub", ["row", "column"], "d"), ("Abs", ["d"], "a"), ("Less", ["a", "64"], "y")], ("Less", 65)),
    "parts": (
        [("Cast", ["p"], "f"), ("Div", ["f", "32."], "q"), ("Floor", ["q"], "y")],
        ("GreaterOrEqual", 33),
    ),
    "a cycle": ([("Mod", ["p", "64"], "y")], ("GreaterOrEqual", 65)),
    "an end": ([("Min", ["p", "64"], "y")], ("Greater", 65)),
    "one position": ([("Equal", ["p", "64"], "y")], ("GreaterOrEqual", 65)),
    "a scale": ([("Cast", ["p"], "f"), ("Div", ["f", "32."], "q"), ("Sin", ["q"], "y")], None),
}


@pytest.mark.parametrize("how", POSITIONS)
def test_positions_that_are_compared_with_a_number_are_found(tmp_path: Path, how: str) -> None:
    """A window of 64 positions is no window for a shorter row, so that a wrong one is not seen there."""
    steps, found = POSITIONS[how]
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=0, end=1),
        helper.make_node("Squeeze", ["n"], ["size"]),
        helper.make_node("Range", ["0", "size", "1"], ["p"]),
        helper.make_node("Unsqueeze", ["p", "first"], ["row"]),
        helper.make_node("Unsqueeze", ["p", "last"], ["column"]),
        *(
            helper.make_node(op, given, [made], to=1) if op == "Cast" else helper.make_node(op, given, [made])
            for op, given, made in steps
        ),
    ]
    constants = {
        **{str(number): np.array(number) for number in (0, 1, 64)},
        "32.": np.float32(32),
        "first": np.array([0]),
        "last": np.array([1]),
    }
    kind = {"Less": TensorProto.BOOL, "Equal": TensorProto.BOOL, "Mod": TensorProto.INT64, "Min": TensorProto.INT64}
    output = helper.make_tensor_value_info("y", kind.get(steps[-1][0], TensorProto.FLOAT), None)
    graph = read_graph(str(save(tmp_path / "m.onnx", nodes, [value("x")], [output], constants)), "m.onnx")
    assert graph.branches == (
        (SizeBranch(input="x", axis=0, op=found[0], number=found[1], longer=True),) if found else ()
    )


def test_positions_need_no_shorter_row() -> None:
    """Its positions are those at the beginning of a longer one."""
    branch = SizeBranch(input="x", axis=0, op="GreaterOrEqual", number=2, longer=True)
    assert not untried_branches((branch,), {"x": ("batch",)}, {"batch": {4, 16}})
    (warning,) = untried_branches((branch,), {"x": ("batch",)}, {"batch": {1}})
    assert "Add `batches: [1, 2]`" in warning
