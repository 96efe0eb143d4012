"""A source that refuses some rows: the others are compared, so that a wrong file is still found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

CODE = """
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler


def check(rows):
    if (np.asarray(rows) < 0).any():
        raise ValueError("incomes are not negative")
    return rows


def forest():
    random = np.random.default_rng(0)
    rows = random.lognormal(1, 1, (400, 3)).astype(np.float32)
    model = make_pipeline(FunctionTransformer(check), StandardScaler(), RandomForestRegressor(5, random_state=0))
    return model.fit(rows, rows @ np.array([1, 3, 9]))
"""
MANIFEST = """
version: 1
defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 3]}}}
models:
  - {id: right, source: 'model.py:forest', onnx: right.onnx}
  - {id: wrong, source: 'model.py:forest', onnx: wrong.onnx}
"""


def _with_a_wrong_leaf(model: Any) -> Any:
    """Of the second tree, the leaf at the end."""
    [trees] = [node for node in model.graph.node if node.op_type == "TreeEnsembleRegressor"]
    [numbers] = [each for each in trees.attribute if each.name == "target_treeids"]
    [weights] = [each for each in trees.attribute if each.name == "target_weights"]
    last = max(place for place, number in enumerate(numbers.ints) if number == 1)
    weights.floats[last] += 1000
    return model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The file of the steps after the check, and the same with one wrong leaf."""
    folder: Path = tmp_path_factory.mktemp("refused")
    (folder / "model.py").write_text(CODE)
    space: dict[str, Any] = {"__name__": "model"}
    exec(CODE, space)
    steps = space["forest"]()[1:]
    made = convert_sklearn(steps, initial_types=[("X", FloatTensorType([None, 3]))], target_opset=18)
    onnx.save(made, str(folder / "right.onnx"))
    onnx.save(_with_a_wrong_leaf(made), str(folder / "wrong.onnx"))
    return run_manifest(folder, MANIFEST)


def test_the_landmarks_that_the_source_answers_are_kept(models: Run) -> None:
    """Most thresholds and leaves: ordinary values of the scaler are negative in every third row."""
    model = models["right"]
    assert model.verdict is Status.PASSED, (model.error, model.checks)
    assert model.domains is not None
    assert model.domains.refused > 0
    assert model.domains.rows > 2 * model.domains.refused
    assert any("row" in note and "incomes are not negative" in note for note in model.notes)


def test_one_wrong_leaf_is_found(models: Run) -> None:
    """Though the source refuses a part of the rows."""
    assert models["wrong"].verdict is Status.DIVERGED
