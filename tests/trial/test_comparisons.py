"""A file that takes `<` for `<=` is wrong for values that equal a threshold, as whole numbers often do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pytest
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

ROWS = np.random.default_rng(3).integers(9, 45, size=(500, 2)) * 2
TARGET = np.where(ROWS[:, 0] > 40, ROWS[:, 1], 100 + ROWS[:, 0])
MISSING = np.where(np.arange(500)[:, None] % 2, [[2.0, 1.0]], [[4.0, 7.0]])
SOURCES: dict[str, Any] = {
    "ages": DecisionTreeRegressor(max_depth=4, random_state=0).fit(ROWS, TARGET),
    "imputed": make_pipeline(SimpleImputer(), DecisionTreeRegressor(max_depth=4, random_state=0)).fit(ROWS, TARGET),
    "median": make_pipeline(SimpleImputer(strategy="median"), DecisionTreeClassifier(max_depth=1)).fit(
        MISSING[:, :1], MISSING[:, 0] > 3
    ),
    "flags": make_pipeline(Binarizer(threshold=50.0), LinearRegression()).fit(ROWS, TARGET),
    "scaled": make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4, random_state=0)).fit(ROWS, TARGET),
}
"""The median of `median` is 3, and so is the threshold of its tree: a missing value lies on it."""


def width(name: str) -> int:
    """The number of columns."""
    return 1 if name == "median" else 2


def converted(name: str) -> onnx.ModelProto:
    """The file of a source."""
    source = SOURCES[name]
    options = {id(source): {"zipmap": False}} if hasattr(source, "classes_") else None
    types = [("X", FloatTensorType([None, width(name)]))]
    file: onnx.ModelProto = to_onnx(source, initial_types=types, options=options)
    return file


def turn(file: onnx.ModelProto, *, only: int | None = None) -> None:
    """Take `<` for `<=` in all nodes of a tree, or in one of them; in a Binarizer, `>=` for `>`."""
    if file.graph.node[0].op_type == "Binarizer":
        file.graph.node[0].attribute[0].f = float(np.nextafter(np.float32(50), np.float32(0)))
        return
    modes = next(given for node in file.graph.node for given in node.attribute if given.name == "nodes_modes")
    places = [place for place, mode in enumerate(modes.strings) if mode == b"BRANCH_LEQ"]
    for place in places if only is None else [places[only]]:
        modes.strings[place] = b"BRANCH_LT"


def fill_more(file: onnx.ModelProto) -> None:
    """Put a slightly larger number in the place of a missing value."""
    filled = next(given for node in file.graph.node for given in node.attribute if given.name == "imputed_value_floats")
    filled.floats[0] += 0.25


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Each source with its file, with one that compares differently, and with one that fills in another number."""
    folder: Path = tmp_path_factory.mktemp("comparisons")
    models = []
    for name, source in SOURCES.items():
        joblib.dump(source, folder / f"{name}.joblib")
        for kind in ("same", "other", "last", "filled")[: 4 if name == "median" else 3]:
            file = converted(name)
            if kind in ("other", "last"):
                turn(file, only=-1 if kind == "last" and width(name) > 1 else None)
            if kind == "filled":
                fill_more(file)
            onnx.save(file, folder / f"{name}-{kind}.onnx")
            models.append(
                f"  - {{id: {name}-{kind}, source: {name}.joblib, onnx: {name}-{kind}.onnx, "
                f"inputs: {{X: {{dtype: float32, shape: [batch, {width(name)}]}}}}}}\n"
            )
    return run_manifest(folder, "version: 1\nmodels:\n" + "".join(models))


@pytest.mark.parametrize("name", list(SOURCES))
def test_the_file_that_compares_as_its_source_does_passes(judged: Run, name: str) -> None:
    """Also on a threshold."""
    assert judged[f"{name}-same"].verdict is Status.PASSED


@pytest.mark.parametrize("name", ["ages", "imputed", "median", "flags"])
@pytest.mark.parametrize("kind", ["other", "last"])
def test_the_file_that_compares_in_another_way_diverged(judged: Run, name: str, kind: str) -> None:
    """In all nodes, or in the last one alone: a row on the way to it holds its threshold."""
    model = judged[f"{name}-{kind}"]
    assert model.verdict is Status.DIVERGED
    assert {check.case for check in model.checks if check.status is Status.DIVERGED} == {"domain"}


def test_a_median_that_equals_a_threshold_is_told_from_a_number_beside_it(judged: Run) -> None:
    """No rounding moves a missing value."""
    assert judged["median-filled"].verdict is Status.DIVERGED


@pytest.mark.parametrize("kind", ["other", "last"])
def test_behind_a_scaler_rounding_decides_on_which_side_a_threshold_lies(judged: Run, kind: str) -> None:
    """So no row holds it, and none is judged there."""
    assert judged[f"scaled-{kind}"].verdict is Status.PASSED
