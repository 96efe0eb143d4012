"""A number that stands for something else, such as -999 for what is unknown, is looked for exactly.

What lies beside it is an ordinary number: that both sides agree there excuses nothing, and no rounding leads from one
to the other.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import onnx
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

CODE = """
import torch

from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline


class Unknown(torch.nn.Module):
    def forward(self, x):
        return 2 * torch.where(x == -999, torch.full_like(x, 40.0), x)


class Counted(torch.nn.Module):
    def forward(self, x):
        there = (x != -1).float()
        return (x * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)


def unknown():
    return Unknown().eval()


def counted():
    return Counted().eval()


def imputed():
    rows = [[-999.0, 3.0], [20.0, 5.0], [60.0, -999.0], [10.0, 9.0]]
    return make_pipeline(SimpleImputer(missing_values=-999.0), LinearRegression()).fit(rows, [1.0, 2.0, 3.0, 5.0])
"""
X2 = "{X: {dtype: float32, shape: [batch, 2]}}"


def save_unknown(path: Path, *, sought: float, instead: float, shape: tuple[str | int, ...] = ("batch", 3)) -> None:
    """`unknown` as a file, which looks for one number and puts another in its place."""
    nodes = [
        helper.make_node("Equal", ["x", "sought"], ["there"]),
        helper.make_node("Where", ["there", "instead", "x"], ["filled"]),
        helper.make_node("Mul", ["filled", "two"], ["y"]),
    ]
    numbers = {"sought": sought, "instead": instead, "two": 2.0}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [helper.make_tensor(name, TensorProto.FLOAT, [], [number]) for name, number in numbers.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def save_counted(path: Path) -> None:
    """`counted` as a file that counts all."""
    node = helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 1))],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def save_imputed(path: Path, *, more: float) -> None:
    """`imputed` as a file that fills in another number."""
    rows = [[-999.0, 3.0], [20.0, 5.0], [60.0, -999.0], [10.0, 9.0]]
    source = make_pipeline(SimpleImputer(missing_values=-999.0), LinearRegression()).fit(rows, [1.0, 2.0, 3.0, 5.0])
    model = to_onnx(source, initial_types=[("X", FloatTensorType([None, 2]))])
    (filled,) = [a for n in model.graph.node for a in n.attribute if a.name == "imputed_value_floats"]
    filled.floats[0] += more
    onnx.save(model, path)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("sentinels")
    (folder / "models.py").write_text(dedent(CODE))
    save_unknown(folder / "right.onnx", sought=-999, instead=40)
    save_unknown(folder / "filled.onnx", sought=-999, instead=0)
    save_unknown(folder / "other.onnx", sought=-998, instead=40)
    save_unknown(folder / "flat.onnx", sought=-999, instead=0, shape=("batch",))
    save_counted(folder / "counted.onnx")
    save_imputed(folder / "imputed.onnx", more=0.0)
    save_imputed(folder / "median.onnx", more=20.0)
    torch = "framework: torch, inputs: {x: {dtype: float32, shape: [batch, 3]}}"
    return run_manifest(
        folder,
        f"""
        version: 1
        models:
          - {{id: right, source: 'models.py:unknown', onnx: right.onnx, {torch}}}
          - {{id: filled, source: 'models.py:unknown', onnx: filled.onnx, {torch}}}
          - {{id: other, source: 'models.py:unknown', onnx: other.onnx, {torch}}}
          - {{id: flat, source: 'models.py:unknown', onnx: flat.onnx, framework: torch,
              inputs: {{x: {{dtype: float32, shape: [batch]}}}}}}
          - {{id: counted, source: 'models.py:counted', onnx: counted.onnx, {torch}}}
          - {{id: imputed, source: 'models.py:imputed', onnx: imputed.onnx, framework: sklearn, inputs: {X2}}}
          - {{id: median, source: 'models.py:imputed', onnx: median.onnx, framework: sklearn, inputs: {X2}}}
        """,
    )


@pytest.mark.parametrize("name", ["filled", "other", "flat", "counted", "median"])
def test_a_file_that_takes_it_for_something_else_diverged(judged: Run, name: str) -> None:
    """And rounding is not blamed for it."""
    model = judged[name]
    assert model.verdict is Status.DIVERGED
    assert model.cause is not Cause.PRECISION
    assert "rounding decides" not in model.advice
    assert model.mended is not None and model.mended.passes


@pytest.mark.parametrize("name", ["right", "imputed"])
def test_a_file_that_looks_for_the_same_number_passes(judged: Run, name: str) -> None:
    """It was fed: the report says that constants or missing values of the model were."""
    model = judged[name]
    assert model.verdict is Status.PASSED
    assert model.domains is not None
    assert model.domains.reached == model.domains.landmarks > 0
