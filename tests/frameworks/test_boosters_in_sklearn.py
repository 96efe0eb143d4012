"""Boosters as steps of pipelines and members of meta-estimators, and what is known to go wrong there."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import catboost
import joblib
import lightgbm
import numpy as np
import onnxmltools
import onnxruntime
import pytest
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx.sklapi import CastTransformer
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import StackingClassifier, VotingClassifier, VotingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.boosters.lightgbm import round_down
from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.installing import install
from onnx_gate.worker.user_code import failed
from tests.conftest import Run, run_manifest

pytestmark = [pytest.mark.extras, pytest.mark.models]

IRIS, DIABETES, CANCER = load_iris(), load_diabetes(), load_breast_cancer()
# As it is served: a row that was trained on lies on a threshold then, to the last bit.
ROWS = DIABETES.data.astype(np.float32)
DATA = {"iris": IRIS.data, "cancer": CANCER.data, "diabetes": ROWS}
# Thresholds of LightGBM lie halfway between the values of the training data: on these rows.
EVEN = np.random.default_rng(0).integers(0, 50, (1500, 3)).astype(np.float32)
BETWEEN = np.random.default_rng(1).integers(0, 99, (400, 3)).astype(np.float32) / 2
DATA["between"] = BETWEEN


def _lgbm(**options):
    return lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1, **options)


def _xgbm(**options):
    return xgboost.XGBClassifier(n_estimators=5, n_jobs=1, **options)


def _cat(**options):
    settings = {"iterations": 5, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return catboost.CatBoostClassifier(**settings, **options)


def _three():
    return [("lgbm", _lgbm()), ("xgbm", _xgbm()), ("cat", _cat())]


def _in_double(scaler):
    """The recipe: the scaler computes in float64 on both sides."""
    return CastTransformer(dtype=np.float64), scaler, CastTransformer(dtype=np.float32)


def _scaled(*steps):
    return make_pipeline(*steps, xgboost.XGBRegressor(n_jobs=1)).fit(ROWS, DIABETES.target)


def _alone(make):
    return make().fit(IRIS.data, IRIS.target)


def _step(make):
    return make_pipeline(*_in_double(StandardScaler()), make()).fit(CANCER.data.astype(np.float32), CANCER.target)


def _calibrated(make):
    return CalibratedClassifierCV(make(), cv=2).fit(CANCER.data, CANCER.target)


def _searched():
    return GridSearchCV(_cat(), {"depth": [2, 3]}, cv=2).fit(IRIS.data, IRIS.target_names[IRIS.target])


def _even_regressor(*steps):
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1)
    return make_pipeline(*steps, model).fit(EVEN, EVEN[:, 0] + 3 * (EVEN[:, 1] % 7))


BOOSTERS = {"lgbm": _lgbm, "xgbm": _xgbm, "cat": _cat}
MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    **{
        f"{name}-alone": ("iris", partial(_alone, make)) for name, make in BOOSTERS.items()},
    **{f"{name}-step": ("cancer", partial(_step, make)) for name, make in BOOSTERS.items()},
    "voting": (
        "iris",
        lambda: VotingClassifier(_three(), voting="soft", flatten_transform=False).fit(IRIS.data, IRIS.target),
    ),
    "stacking": (
        "iris",
        lambda: StackingClassifier(_three(), cv=2).fit(IRIS.data, IRIS.target),
    ),
    **{f"{name}-calibrated": ("cancer", partial(_calibrated, make)) for name, make in BOOSTERS.items()},
    "searched": ("iris", lambda: _searched()),
    "regressors": (
        "diabetes",
        lambda: VotingRegressor(
            [
                ("a", lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1)),
                ("b", xgboost.XGBRegressor(n_estimators=5, n_jobs=1)),
                ("c", catboost.CatBoostRegressor(iterations=5, verbose=0, thread_count=1, allow_writing_files=False)),
                ("d", Ridge()),
            ]
        ).fit(ROWS, DIABETES.target),
    ),
    "scaled-xgboost": ("diabetes", lambda: _scaled(StandardScaler())),
    "scaled-xgboost-in-double": ("diabetes", lambda: _scaled(*_in_double(StandardScaler()))),
    "cat-values": ("diabetes", lambda: catboost.CatBoostRegressor(
        iterations=5, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(ROWS, DIABETES.target)),
    "scaled-lightgbm": ("between", lambda: _even_regressor(StandardScaler())),
    "scaled-lightgbm-in-double": ("between", lambda: _even_regressor(*_in_double(StandardScaler()))),
    "unscaled-lightgbm": ("between", lambda: _even_regressor()),
    "linear-lightgbm": (
        "diabetes",
        lambda: make_pipeline(StandardScaler(), lightgbm.LGBMRegressor(linear_tree=True, verbose=-1, n_jobs=1)).fit(
            ROWS, DIABETES.target
        ),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("in_sklearn")
    entries = []
    for name, rows in DATA.items():
        np.savez(folder / f"{name}.npz", X=rows.astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (data, build) in MODELS.items():
            joblib.dump(build(), folder / f"{name}.joblib")
            entries.append(
                f"  - {{id: {name}, source: {name}.joblib, data: {data}.npz, "
                f"inputs: {{X: {{dtype: float32, shape: [batch, {DATA[data].shape[1]}]}}}}}}"
            )
        entries += [*_columns(folder), *_shipped(folder)]
    (folder / "needs.pkl").write_bytes(b"cno_such_booster\nBooster\n)R.")
    entries.append("  - {id: not-installed, source: needs.pkl, inputs: {X: {dtype: float32, shape: [batch, 4]}}}")
    text = "version: 1\ndefaults: {batches: [1, 64], tolerance: {rtol: 1e-3, atol: 1e-5}}\nmodels:\n"
    return run_manifest(folder, text + "\n".join(entries), strength=True)


def _columns(folder: Path) -> list[str]:
    """A one-hot encoded column beside numbers, as people do for CatBoost."""
    import pandas as pd

    sizes = IRIS.data[:, :2].astype(np.float32)
    table = pd.DataFrame({"kind": IRIS.target_names[IRIS.target], "length": sizes[:, 0], "width": sizes[:, 1]})
    table.to_csv(folder / "table.csv", index=False)
    encode = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder="passthrough")
    joblib.dump(make_pipeline(encode, _cat()).fit(table, IRIS.target), folder / "columns.joblib")
    return [
        "  - {id: columns, source: columns.joblib, data: table.csv, inputs: {kind: {dtype: string, shape: [batch, 1]}, "
        "length: {dtype: float32, shape: [batch, 1]}, width: {dtype: float32, shape: [batch, 1]}}}"
    ]


def _shipped(folder: Path) -> list[str]:
    """What onnxmltools makes of a random forest of LightGBM that hasn't got 100 trees."""
    options: dict[str, Any] = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
    forest = lightgbm.LGBMRegressor(n_estimators=8, verbose=-1, n_jobs=1, **options).fit(ROWS, DIABETES.target)
    forest.booster_.save_model(folder / "forest.txt")
    converted = onnxmltools.convert_lightgbm(forest, initial_types=[("X", FloatTensorType([None, 10]))])
    (folder / "forest.onnx").write_bytes(converted.SerializeToString())
    return ["  - {id: shipped-forest, source: forest.txt, onnx: forest.onnx, data: diabetes.npz}"]


@pytest.mark.parametrize(
    "model",
    [name for name in [*MODELS, "columns"] if name not in ("scaled-xgboost", "scaled-lightgbm", "linear-lightgbm")],
)
def test_boosters_inside_of_others_pass(models, model):
    """Each library alone in a joblib file, as a step, in votes, stacks, searches and calibrations."""
    found = models[model]
    assert found.verdict is Status.PASSED, (found.error, [check.message for check in found.checks])


def test_a_scaler_moves_rows_across_the_splits_of_xgboost(models):
    """Its thresholds are values of the training data: 93 of 442 rows; computed in float64, none."""
    found = models["scaled-xgboost"]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert _wrong(models, "scaled-xgboost") > 50
    assert "Cast to float64 before the StandardScaler and back to float32 after it" in found.advice
    assert models["scaled-xgboost-in-double"].verdict is Status.PASSED


def test_a_scaler_moves_rows_across_the_splits_of_lightgbm(models):
    """101 of 400 rows that lie on thresholds go the other way; without the scaler, or with the casts, none does."""
    found = models["scaled-lightgbm"]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert _wrong(models, "scaled-lightgbm") > 5
    assert "thresholds are float64" in found.advice
    assert "Drop it and train again" in found.advice


def _wrong(models: Run, model: str) -> int:
    return max(check.mismatched for check in models[model].checks)


def test_a_refusal_inside_of_a_pipeline_keeps_its_way_out(models):
    """The same words as for the booster alone."""
    found = models["linear-lightgbm"]
    assert (found.verdict, found.cause) == (Status.ERROR, Cause.UNSUPPORTED_OPERATOR)
    assert "linear trees" in found.error
    assert "linear_tree: false" in found.error


def test_a_known_fault_of_another_converter_is_named(models):
    """onnxmltools divides by 100 whatever the number of trees: the shipped file is wrong on every row."""
    found = models["shipped-forest"]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.WEIGHTS)
    assert "by 100, whatever the number of its trees" in found.advice
    assert "Leave `onnx:` out" in found.advice


def test_a_pickle_that_needs_a_missing_package_names_it(models):
    """And how to get it into the run."""
    found = models["not-installed"]
    assert (found.verdict, found.cause) == (Status.ERROR, Cause.LOAD_FAILED)
    assert "install 'no_such_booster'" in found.error


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_a_pickle_that_needs_a_missing_library_names_our_extra(monkeypatch, library):
    """It brings what converts the model, too."""
    content = pickle.dumps(BOOSTERS[{"lightgbm": "lgbm", "xgboost": "xgbm", "catboost": "cat"}[library]]())
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        pickle.loads(content)
    assert failed(Cause.LOAD_FAILED, "model.pkl", caught.value).fix.startswith(install(library))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_a_missing_library_names_our_extra(monkeypatch, library):
    """Before anything is read."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == library else name)
    with pytest.raises(CannotJudge, match=f"{library} is not installed, which models of the framework") as caught:
        get_plugin(library)
    assert caught.value.fix == install(library)


def test_thresholds_rounded_to_the_nearest_flip_rows(tmp_path):
    """onnxmltools alone: ordinary rows go the other way; with thresholds rounded down, none of them does."""
    joined = 0
    for seed in range(3):
        chosen = np.random.default_rng(seed).permutation(len(ROWS))[:330]
        model = lightgbm.LGBMRegressor(verbose=-1, n_jobs=1).fit(ROWS[chosen], DIABETES.target[chosen])
        reference = model.booster_.predict(ROWS)
        nearest = onnxmltools.convert_lightgbm(model, initial_types=[("X", FloatTensorType([None, 10]))])
        joined += _flips(nearest.SerializeToString(), reference)
        assert _flips(_converted_here(model, tmp_path), reference) == 0
    assert joined >= 3


def _converted_here(model, folder: Path) -> bytes:
    from onnx_gate.frameworks.boosters import lightgbm as framework
    from onnx_gate.records.asked import InputSpec, Location, ModelSpec

    schema = InputSpec(name="X", dtype="float32", shape=("batch", 10))
    source = Location(shown="model")
    spec = ModelSpec(id="m", line=1, framework="lightgbm", folder=str(folder), source=source, inputs=(schema,))
    framework.convert(model, spec, folder / "m.onnx", {})
    return (folder / "m.onnx").read_bytes()


def _flips(content: bytes, reference) -> int:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (answered,) = session.run(None, {"X": ROWS})
    return int(np.count_nonzero(np.abs(answered.ravel() - reference) > 0.01))


@pytest.mark.parametrize(
    "value", [0.1, 0.3, -0.1, 1e-35, -1e-35, 1e300, -1e300, 0.0, 1.5, float(np.float32(0.1)), 1e-320]
)
def test_no_float32_lies_between_a_threshold_and_the_one_rounded_down(value):
    """So `<=` answers the same for every float32."""
    down = round_down(value)
    with np.errstate(over="ignore"):
        up = float(np.nextafter(np.float32(down), np.float32(np.inf)))
    assert down == np.float32(down)
    assert down <= value < up or (np.isneginf(down) and value < -3e38)
