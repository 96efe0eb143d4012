"""Files that compute in half precision by themselves, on a CPU that doesn't: the report says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value

HALF = TensorProto.FLOAT16
MANIFEST = """
version: 1
models:
  - {id: shipped, source: near.onnx, data: near.npz}
  - {id: other, framework: onnx, source: near.onnx}
  - {id: branch, source: branch.onnx}
  - {id: stored, source: stored.onnx}
  - {id: moved, source: moved.onnx}
  - id: torch
    framework: torch
    source: half.py:Half
    inputs: {x: {dtype: float16, shape: [batch, 3]}}
"""
TORCH = """
import torch


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(3, 2).half()

    def forward(self, x):
        return self.line(x)
"""


def _near(path: Path) -> None:
    """1990 ± 1, of which half precision keeps whole numbers."""
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=HALF),
        helper.make_node("MatMul", ["half", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    stored = {"w": np.eye(3, dtype=np.float16), "b": np.full(3, 1990, np.float16)}
    save(path, nodes, [value("x")], [value("y")], stored)


def _stored(path: Path) -> None:
    """Weights in float16 that are computed with in float32."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    save(path, nodes, [value("x")], [value("y")], {"w": np.eye(3, dtype=np.float16)})


def _moved(path: Path) -> None:
    """Rows of a float16 table: nothing is computed."""
    nodes = [
        helper.make_node("Gather", ["table", "row"], ["found"]),
        helper.make_node("Cast", ["found"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "wide"], ["y"]),
    ]
    stored = {"table": np.eye(3, dtype=np.float16), "row": np.array(1)}
    save(path, nodes, [value("x")], [value("y")], stored)


def _branch(path: Path) -> None:
    """Half precision within a branch only."""
    inner = []
    for op in ("Sin", "Cos"):
        nodes = [
            helper.make_node("Cast", ["x"], [f"{op}_half"], to=HALF),
            helper.make_node(op, [f"{op}_half"], [f"{op}_there"]),
            helper.make_node("Cast", [f"{op}_there"], [f"{op}_out"], to=TensorProto.FLOAT),
        ]
        inner.append(helper.make_graph(nodes, op, [], [value(f"{op}_out")]))
    node = helper.make_node("If", ["yes"], ["y"], then_branch=inner[0], else_branch=inner[1])
    save(path, [node], [value("x")], [value("y")], {"yes": np.array(True)})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("half")
    _near(folder / "near.onnx")
    _stored(folder / "stored.onnx")
    _moved(folder / "moved.onnx")
    _branch(folder / "branch.onnx")
    (folder / "half.py").write_text(TORCH)
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez(folder / "near.npz", x=rows, y=rows + 1990)
    return run_manifest(folder, MANIFEST)


def _told(run: Run, model_id: str) -> list[str]:
    coverage = run[model_id].coverage
    assert coverage is not None
    return [warning for warning in coverage.warnings if "half precision" in warning]


@pytest.mark.parametrize(
    ("model_id", "what"),
    [
        ("shipped", "2 nodes of the file compute in float16"),
        ("other", "2 nodes of the file compute in float16"),
        ("branch", "2 nodes of the file compute in float16"),
        ("torch", "of the file compute"),
    ],
)
def test_a_file_in_half_precision_is_said_not_to_be_computed_in_it(run: Run, model_id: str, what: str) -> None:
    """The CPU answers 1990.4, a GPU 1990."""
    [warning] = _told(run, model_id)
    assert warning.startswith("not computed in half precision: ")
    assert what in warning
    assert run[model_id].verdict is Status.PASSED


@pytest.mark.parametrize("model_id", ["stored", "moved"])
def test_weights_that_are_only_stored_in_half_are_not_meant(run: Run, model_id: str) -> None:
    """All of their arithmetic is float32."""
    assert _told(run, model_id) == []
