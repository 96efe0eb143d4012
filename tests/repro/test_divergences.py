"""Ten divergences of shipped files: `repro.py` shows each again, and passes with the mended file."""

from __future__ import annotations

import copy
from typing import Any

import joblib
import numpy as np
import onnx
import pytest
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from onnx_gate.vocabulary import ReproRows, Status
from tests.conftest import Run, run_manifest
from tests.place.shipped import ship
from tests.place.test_classic import CANCER, C, X, Y, models
from tests.repro.test_scripts import call

pytestmark = pytest.mark.models


def more() -> dict[str, tuple[Any, Any, Any]]:
    """Three beside those of the places: weights, an intercept, a tree of other depth."""
    ridge = make_pipeline(StandardScaler(), Ridge()).fit(X, Y)
    stale = copy.deepcopy(ridge)
    stale[-1].coef_ = stale[-1].coef_ * 1.2
    logistic = make_pipeline(MinMaxScaler(), LogisticRegression()).fit(C, CANCER.target)
    moved = copy.deepcopy(logistic)
    moved[-1].intercept_ = moved[-1].intercept_ + 0.7
    trees = [DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, Y) for depth in (4, 5)]
    return {"stale": (ridge, stale, X), "moved": (logistic, moved, C), "tree": (*trees, X)}


ALL = ("no-scaler", "other-scaler", "other-forest", "other-rate", "activation", "component", "columns")
TEN = (*ALL, "stale", "moved", "tree")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """All of them in one run; every other one may show its data."""
    folder = tmp_path_factory.mktemp("ten")
    entries = []
    known = {**models(), **more()}
    for number, name in enumerate(TEN):
        source, shipped, data = known[name]
        joblib.dump(source, folder / f"{name}.joblib")
        np.save(folder / f"{name}.npy", data)
        options = {"zipmap": False} if hasattr(shipped, "predict_proba") else None
        ship(to_onnx(shipped, data[:1], options=options, target_opset=20), folder / f"{name}.onnx")
        schema = f"inputs: {{X: {{dtype: float32, shape: [batch, {data.shape[1]}]}}}}"
        entries.append(
            f"  - {{id: {name}, source: {name}.joblib, onnx: {name}.onnx, data: {name}.npy, batches: [64], {schema}, "
            f"repro: {{data: {str(number % 2 == 0).lower()}}}}}"
        )
    return run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries))


@pytest.mark.parametrize("name", TEN)
def test_it_shows_again_and_not_with_the_mended_file(run, name):
    """With nothing but onnx, onnxruntime and NumPy."""
    model = run[name]
    folder = run.output / f"repro/{name}"
    assert model.verdict is Status.DIVERGED and model.repro is not None, (model.error, model.notes)
    assert model.repro.rows is (ReproRows.FED if TEN.index(name) % 2 == 0 else ReproRows.GENERATED)
    assert call(folder / "repro.py")[0] == 1
    code, said = call(folder / "repro.py", folder / "mended.onnx")
    assert code == 0, said


def test_the_part_passes_with_the_weights_of_the_source(run, tmp_path):
    """A graph of the same interface, in which one tensor was exchanged by hand."""
    source = joblib.load(run.output.parent / "component.joblib")
    part = onnx.load(str(run.output / "repro/component/place.onnx"))
    (stored,) = [tensor for tensor in part.graph.initializer if list(tensor.dims) == [10, 5]]
    stored.CopyFrom(onnx.numpy_helper.from_array(source[1].components_.T.astype("float32"), stored.name))
    onnx.save(part, str(tmp_path / "mended.onnx"))
    code, said = call(run.output / "repro/component/place.py", tmp_path / "mended.onnx")
    assert code == 0, said


@pytest.mark.parametrize("name", [name for name in TEN if name != "columns"])
def test_the_part_that_is_wrong_shows_it_too(run, name):
    """Cut out, with true values going in."""
    assert run[name].repro.place, run[name].repro
    assert call(run.output / f"repro/{name}/place.py")[0] == 1
