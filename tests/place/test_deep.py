"""Deep networks: what the search costs grows with the network, and not with its square."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place.bench import Bench
from onnx_gate.worker.place.faults import Search
from onnx_gate.worker.place.pairs import Pairs, Truth

WIDTH = 8
FEED = {"x": np.random.default_rng(0).normal(size=(16, WIDTH)).astype("float32")}
HALVED = (("Mul", "p", "half", "q"), ("Tanh", "p", "", "t"), ("Mul", "q", "t", "u"))
LAST = (("Tanh", "p", "", "t"), ("Mul", "p", "t", "q"), ("Mul", "q", "half", "u"))
"""The same product, halved first or last: operators in the same order stand for different values."""


def network(path: Path, blocks: int, ways: tuple[tuple[str, str, str, str], ...], wrong: int = -1) -> Bench:
    """x + ½·p·tanh(p) with p = x @ w for each block; one of them may have other weights."""
    rng = np.random.default_rng(1)
    nodes: list[Any] = []
    stored = [numpy_helper.from_array(np.array(0.5, "float32"), "half")]
    last = "x"
    for at in range(blocks):
        weights = (rng.normal(size=(WIDTH, WIDTH)) / 4).astype("float32")
        stored.append(numpy_helper.from_array(weights * (3 if at == wrong else 1), f"w{at}"))
        names = {name: f"{name}{at}" for name in "pqtu"}
        nodes.append(helper.make_node("MatMul", [last, f"w{at}"], [names["p"]]))
        for op, *reads, made in ways:
            nodes.append(helper.make_node(op, [names.get(name, name) for name in reads if name], [names[made]]))
        nodes.append(helper.make_node("Add", [last, names["u"]], [f"x{at}"]))
        last = f"x{at}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return Bench(Blueprint(str(path), session=SessionSpec()))


@pytest.mark.parametrize("blocks", [6, 60])
def test_the_one_fault_is_found_with_as_many_sessions_at_any_depth(tmp_path, monkeypatch, blocks):
    """Behind a fault nothing agrees, so that every block there has proposals that are wrong: none is left."""
    right = network(tmp_path / "right.onnx", blocks, HALVED)
    file = network(tmp_path / "file.onnx", blocks, LAST, wrong=2)
    values = {"x": FEED["x"], **right.run(FEED, [name for name in right.live if name != "x"])}
    truth = Truth(values=values, ends={file.outputs[0]: right.outputs[0]}, bench=right, named=frozenset())
    opened: list[Blueprint] = []
    real = Blueprint.open

    def open_and_count(self: Blueprint, *args: Any, **keys: Any) -> Any:
        opened.append(self)
        return real(self, *args, **keys)

    monkeypatch.setattr(Blueprint, "open", open_and_count)
    pairs = Pairs(file, truth, FEED)
    pairs.settle()
    (fault,) = Search(pairs).faults()
    assert [node.proto.op_type for node in fault.nodes] == ["MatMul"]
    assert fault.cause == "weights"
    assert len(opened) <= 30
