"""LightGBM, XGBoost and CatBoost through the whole gate: every kind of file, objective and label."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import joblib
import lightgbm
import numpy as np
import onnx
import onnxmltools
import pandas as pd
import pytest
import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.extras

IRIS, DIABETES, CANCER = load_iris(), load_diabetes(), load_breast_cancer()
HIGH = DIABETES.target > 140
BOTH = np.c_[DIABETES.target, -2 * DIABETES.target]
RANKS, GROUPS = (DIABETES.target / 90).astype(int), [44] * 10 + [2]
ROWS = np.random.default_rng(0)
HOLES = np.where(ROWS.random(DIABETES.data.shape) < 0.1, np.nan, DIABETES.data).astype(np.float32)
KINDS = np.c_[ROWS.integers(0, 12, 400), ROWS.normal(size=(400, 3))].astype(np.float32)
KINDS_TARGET = np.sin(KINDS[:, 0] * 7) + KINDS[:, 1]
DATA = {"iris": IRIS.data, "cancer": CANCER.data, "diabetes": DIABETES.data, "holes": HOLES, "kinds": KINDS}

LGB: dict[str, Any] = {"n_estimators": 8, "verbose": -1, "n_jobs": 1}
XGB = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}
CAT = {"iterations": 8, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


def _lgb(data="diabetes", target=None, **options):
    kind = {"diabetes": lightgbm.LGBMRegressor, "holes": lightgbm.LGBMRegressor}.get(data, lightgbm.LGBMClassifier)
    return kind(**LGB, **options).fit(DATA[data], _target(data, target))


def _xgb(data="diabetes", target=None, **options):
    kind = {"diabetes": xgboost.XGBRegressor, "holes": xgboost.XGBRegressor}.get(data, xgboost.XGBClassifier)
    return kind(**{**XGB, **options}).fit(DATA[data], _target(data, target))


def _cat(data="diabetes", target=None, **options):
    kind = {"diabetes": catboost.CatBoostRegressor, "holes": catboost.CatBoostRegressor}
    return kind.get(data, catboost.CatBoostClassifier)(**{**CAT, **options}).fit(DATA[data], _target(data, target))


def _target(data, target):
    known = {"iris": IRIS.target, "cancer": CANCER.target}.get(data, DIABETES.target)
    return known if target is None else target


def _lgb_early():
    model = lightgbm.LGBMRegressor(n_estimators=200, verbose=-1, n_jobs=1)
    held = {"eval_X": DIABETES.data[300:], "eval_y": DIABETES.target[300:]}
    stop: list[Callable[..., Any]] = [lightgbm.early_stopping(3, verbose=False)]
    return model.fit(DIABETES.data[:300], DIABETES.target[:300], **held, callbacks=stop)


def _xgb_early(**options):
    model = xgboost.XGBRegressor(n_estimators=200, early_stopping_rounds=3, n_jobs=1, **options)
    held = [(DIABETES.data[300:], DIABETES.target[300:])]
    return model.fit(DIABETES.data[:300], DIABETES.target[:300], eval_set=held, verbose=False)


def _cat_threshold():
    model = catboost.CatBoostClassifier(**CAT).fit(DIABETES.data, HIGH)
    model.set_probability_threshold(0.7)
    model.set_scale_and_bias(2.0, [0.1])
    return model


def _squares(answer, rows):
    return answer - rows.get_label(), np.ones_like(answer)


LIGHTGBM = {
    "bools": ("cancer", lambda: _lgb("cancer", CANCER.target == 1)),
    "words": ("iris", lambda: _lgb("iris", IRIS.target_names[IRIS.target])),
    "ova": ("iris", lambda: _lgb("iris", objective="multiclassova", sigmoid=2.0)),
    "cross_entropy_labels": ("cancer", lambda: _lgb("cancer", objective="cross_entropy")),
    "forest_classes": ("iris", lambda: _lgb("iris", boosting_type="rf", bagging_freq=1, bagging_fraction=0.6)),
    "forest": ("diabetes", lambda: _lgb(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6)),
    "dart": ("diabetes", lambda: _lgb(boosting_type="dart")),
    "nan": ("holes", lambda: _lgb("holes")),
    "nan_unseen": ("holes", lambda: _lgb("diabetes")),
    "poisson": ("diabetes", lambda: _lgb(objective="poisson")),
    "quantile": ("diabetes", lambda: _lgb(objective="quantile", alpha=0.3)),
    "mape": ("diabetes", lambda: _lgb(objective="mape")),
    "roots": ("diabetes", lambda: _lgb(reg_sqrt=True)),
    "shares": ("diabetes", lambda: _lgb(target=DIABETES.target / 400, objective="cross_entropy_lambda")),
    "ranker": ("diabetes", lambda: lightgbm.LGBMRanker(**LGB).fit(DIABETES.data, RANKS, group=GROUPS)),
    "early": ("diabetes", _lgb_early),
    "categories": ("kinds", lambda: lightgbm.LGBMRegressor(**LGB, min_data_per_group=5, cat_smooth=1).fit(
        KINDS, KINDS_TARGET, categorical_feature=[0]
    )),
}  # fmt: skip
XGBOOST = {
    "base_score": ("cancer", lambda: _xgb("cancer", base_score=0.2)),
    "softmax": ("iris", lambda: _xgb("iris", objective="multi:softmax")),
    "hinge": ("cancer", lambda: _xgb("cancer", objective="binary:hinge")),
    "parallel": ("iris", lambda: _xgb("iris", num_parallel_tree=3)),
    "forest": ("iris", lambda: xgboost.XGBRFClassifier(n_estimators=8, n_jobs=1).fit(IRIS.data, IRIS.target)),
    "dart": ("diabetes", lambda: _xgb(booster="dart", rate_drop=0.3)),
    "nan": ("holes", lambda: _xgb("holes")),
    "shares": ("diabetes", lambda: _xgb(target=DIABETES.target / 400, objective="reg:logistic")),
    "tweedie": ("diabetes", lambda: _xgb(objective="reg:tweedie")),
    "survival": ("diabetes", lambda: _xgb(objective="survival:cox")),
    "quantiles": ("diabetes", lambda: _xgb(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9])),
    "two_targets": ("diabetes", lambda: _xgb(target=BOTH)),
    "two_labels": ("diabetes", lambda: xgboost.XGBClassifier(**XGB).fit(
        DIABETES.data, (np.median(BOTH, axis=0) < BOTH).astype(int)
    )),
    "ranker": ("diabetes", lambda: xgboost.XGBRanker(**XGB).fit(DIABETES.data, RANKS, group=GROUPS)),
    "early": ("diabetes", lambda: _xgb_early(num_parallel_tree=2)),
    "named": ("diabetes", lambda: xgboost.XGBRegressor(**XGB).fit(
        pd.DataFrame(DIABETES.data, columns=DIABETES.feature_names), DIABETES.target
    )),
    "categories": ("kinds", lambda: xgboost.XGBRegressor(
        **XGB, enable_categorical=True, feature_types=["c", "q", "q", "q"]
    ).fit(KINDS, KINDS_TARGET)),
}  # fmt: skip
CATBOOST = {
    "bools": ("cancer", lambda: _cat("cancer", CANCER.target == 1)),
    "words": ("iris", lambda: _cat("iris", IRIS.target_names[IRIS.target])),
    "ova": ("iris", lambda: _cat("iris", loss_function="MultiClassOneVsAll")),
    "threshold": ("diabetes", _cat_threshold),
    "two_labels": ("diabetes", lambda: catboost.CatBoostClassifier(**CAT, loss_function="MultiLogloss").fit(
        DIABETES.data, np.c_[HIGH, DIABETES.target > 200].astype(int)
    )),
    "two_targets": ("diabetes", lambda: _cat(target=BOTH, loss_function="MultiRMSE")),
    "tweedie": ("diabetes", lambda: _cat(loss_function="Tweedie:variance_power=1.5")),
    "quantiles": ("diabetes", lambda: _cat(loss_function="MultiQuantile:alpha=0.1,0.9")),
    "nan": ("holes", lambda: _cat("holes")),
    "nan_highest": ("holes", lambda: _cat("holes", nan_mode="Max")),
    "plain_class": ("cancer", lambda: catboost.CatBoost({**CAT, "loss_function": "Logloss"}).fit(
        CANCER.data, CANCER.target
    )),
}  # fmt: skip


def _train(objective, data="diabetes", target=None, **options):
    """A native model of LightGBM."""
    rows = lightgbm.Dataset(DATA[data], _target(data, target))
    return lightgbm.train({"objective": objective, "verbose": -1, "num_threads": 1, **options}, rows, 8)


def _train_xgb(objective, data="diabetes", target=None, **options):
    """A native model of XGBoost."""
    return xgboost.train({"objective": objective, "nthread": 1, **options}, _matrix(data, target), 8)


def _matrix(data, target):
    return xgboost.DMatrix(DATA[data], _target(data, target))


FILES = {
    "binary.txt": ("cancer", lambda: _train("binary", "cancer")),
    "classes.txt": ("iris", lambda: _train("multiclass", "iris", num_class=3)),
    "values.txt": ("diabetes", lambda: _train("regression")),
    "forest.txt": ("diabetes", lambda: _train("gamma", boosting="rf", bagging_freq=1, bagging_fraction=0.6)),
    "own.txt": ("diabetes", lambda: _train(_squares)),
    "binary.json": ("cancer", lambda: _train_xgb("binary:logistic", "cancer")),
    "classes.ubj": ("iris", lambda: _train_xgb("multi:softprob", "iris", num_class=3)),
    "labels.ubj": ("iris", lambda: _train_xgb("multi:softmax", "iris", num_class=3)),
    "poisson.json": ("diabetes", lambda: _train_xgb("count:poisson")),
    "logits.json": ("diabetes", lambda: _train_xgb("binary:logitraw", target=HIGH)),
    "estimator.json": ("diabetes", _xgb_early),
    "binary.cbm": ("cancer", lambda: _cat("cancer", CANCER.target_names[CANCER.target])),
    "poisson.cbm": ("diabetes", lambda: _cat(loss_function="Poisson")),
    "ranker.cbm": ("diabetes", lambda: catboost.CatBoostRanker(**CAT).fit(
        DIABETES.data, DIABETES.target / 400, group_id=np.repeat(np.arange(11), 44)[:442]
    )),
}  # fmt: skip
REFUSED = {
    "lightgbm": {
        "linear": ("diabetes", lambda: _lgb(linear_tree=True)),
        "zeros": ("diabetes", lambda: lightgbm.LGBMRegressor(**LGB, zero_as_missing=True).fit(
            np.where(DIABETES.data > 0.02, 0, DIABETES.data), DIABETES.target
        )),
        "narrow": ("iris", lambda: _lgb("cancer")),
        "unfitted": ("iris", lambda: lightgbm.LGBMClassifier()),
        "foreign": ("iris", lambda: _xgb("iris")),
    },
    "xgboost": {
        "line": ("diabetes", lambda: xgboost.XGBRegressor(booster="gblinear", n_jobs=1).fit(
            DIABETES.data, DIABETES.target
        )),
        "vectors": ("diabetes", lambda: _xgb(target=BOTH, multi_strategy="multi_output_tree")),
        "zeros": ("diabetes", lambda: _xgb(missing=0.0)),
    },
    "catboost": {
        "categories": ("kinds", lambda: catboost.CatBoostRegressor(**CAT, cat_features=[0]).fit(
            pd.DataFrame(KINDS).astype({0: int}), KINDS_TARGET
        )),
        "unsymmetric": ("diabetes", lambda: _cat(grow_policy="Lossguide")),
        "uncertain": ("diabetes", lambda: _cat(loss_function="RMSEWithUncertainty")),
    },
}  # fmt: skip
FACTORIES = """
from pathlib import Path
import joblib

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda: joblib.load(Path(__file__).with_name(f"{name}.joblib"))
"""
BROKEN = {
    "empty.txt": b"",
    "prose.txt": b"dear diary\n",
    "settings.json": b'{"learning_rate": 0.1}',
    "words.json": b"not JSON at all",
    "junk.ubj": b"\x00\x01junk",
    "junk.cbm": b"CBM1 and then nothing",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("boosters")
    (folder / "made.py").write_text(FACTORIES)
    for name, rows in DATA.items():
        np.savez(folder / f"{name}.npz", X=rows)
    np.savez(folder / "fractions.npz", X=np.random.default_rng(0).uniform(0, 12, (64, 4)).astype("float32"))
    entries = [*_factories(folder), *_files(folder)]
    text = "version: 1\ndefaults: {batches: [1, 64], tolerance: {rtol: 1e-4, atol: 1e-5}}\nmodels:\n"
    return run_manifest(folder, text + "\n".join(entries))


def _factories(folder: Path) -> list[str]:
    entries = []
    known = {"lightgbm": LIGHTGBM, "xgboost": XGBOOST, "catboost": CATBOOST}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for framework, builds in known.items():
            for name, (data, build) in {**builds, **REFUSED[framework]}.items():
                joblib.dump(build(), folder / f"{framework}_{name}.joblib")
                source = f"source: 'made.py:{framework}_{name}', framework: {framework}"
                entries.append(_entry(f"{framework}-{name}", source, data))
    return entries


def _files(folder: Path) -> list[str]:
    entries = []
    for name, (data, build) in FILES.items():
        build().save_model(folder / name if name.endswith(".txt") else str(folder / name))
        entries.append(_entry(name, f"source: {name}", data))
    (folder / "half.txt").write_bytes((folder / "values.txt").read_bytes()[:4000])
    (folder / "half.json").write_bytes((folder / "poisson.json").read_bytes()[:4000])
    (folder / "half.cbm").write_bytes((folder / "poisson.cbm").read_bytes()[:4000])
    for name, content in BROKEN.items():
        (folder / name).write_bytes(content)
    broken = [*BROKEN, "half.txt", "half.json", "half.cbm"]
    more = {
        "zipmap": "source: classes.txt, convert: {zipmap: true}",
        "zipmap-words": "source: 'made.py:lightgbm_words', framework: lightgbm, convert: {zipmap: true}",
        "opset": "source: classes.ubj, convert: {opset: 15}",
        "ml-opset": "source: classes.txt, convert: {opsets: {ai.onnx.ml: 5}}",
    }
    return [
        *entries,
        *(_entry(name, f"source: {name}", "iris") for name in broken),
        *(_entry(name, source, "iris") for name, source in more.items()),
        "  - {id: double, source: values.txt, data: diabetes.npz, inputs: {X: {dtype: float64, shape: [batch, 10]}}}",
        "  - {id: two-inputs, source: classes.txt, inputs: {length: {dtype: float32, shape: [batch, 2]}, "
        "width: {dtype: int64, shape: [batch, 2]}}}",
        "  - {id: generated-categories, source: 'made.py:lightgbm_categories', framework: lightgbm, "
        "inputs: {X: {dtype: float32, shape: [batch, 4], range: [0, 12]}}}",
        "  - {id: given-categories, source: 'made.py:lightgbm_categories', framework: lightgbm, data: fractions.npz, "
        "inputs: {X: {dtype: float32, shape: [batch, 4]}}}",
        "  - {id: image, source: classes.txt, inputs: {X: {dtype: float32, shape: [batch, 2, 2]}}}",
    ]


def _entry(name: str, source: str, data: str) -> str:
    width = DATA[data].shape[1]
    return (
        f"  - {{id: {name.replace('_', '-')}, {source}, data: {data}.npz, "
        f"inputs: {{X: {{dtype: float32, shape: [batch, {width}]}}}}}}"
    )


CLASSES = {"label": "int64", "probabilities": "float32"}
WORDS = {"label": "string", "probabilities": "float32"}
VALUES = {"variable": "float32"}
OUTPUTS = {
    "lightgbm": {
        **dict.fromkeys(("bools", "ova", "cross_entropy_labels", "forest_classes"), CLASSES),
        "words": WORDS,
    },
    "xgboost": dict.fromkeys(("base_score", "softmax", "hinge", "parallel", "forest", "two_labels"), CLASSES),
    "catboost": {**dict.fromkeys(("bools", "ova", "threshold", "two_labels", "plain_class"), CLASSES), "words": WORDS},
    "file": {
        **dict.fromkeys(("binary.txt", "classes.txt", "binary.json", "classes.ubj", "labels.ubj"), CLASSES),
        "binary.cbm": WORDS,
    },
}
EXPECTED = [
    *((f"lightgbm-{name}", OUTPUTS["lightgbm"].get(name, VALUES)) for name in LIGHTGBM),
    *((f"xgboost-{name}", OUTPUTS["xgboost"].get(name, VALUES)) for name in XGBOOST),
    *((f"catboost-{name}", OUTPUTS["catboost"].get(name, VALUES)) for name in CATBOOST),
    *((name, OUTPUTS["file"].get(name, VALUES)) for name in FILES),
    ("opset", CLASSES),
    ("ml-opset", CLASSES),
    ("two-inputs", CLASSES),
    ("double", {"variable": "float64"}),
]


@pytest.mark.parametrize(("model", "outputs"), EXPECTED, ids=[name for name, _ in EXPECTED])
def test_boosters_pass_with_the_outputs_of_the_contract(models, model, outputs):
    """Labels and probabilities of classifiers, values of all others, for each objective, label and kind of tree."""
    found = models[model.replace("_", "-")]
    assert found.verdict is Status.PASSED, (found.error, [check.message for check in found.checks])
    assert {check.output: check.dtype for check in found.checks} == outputs


@pytest.mark.parametrize("model", ["zipmap", "zipmap-words"])
def test_a_zipmap_is_there_where_it_is_asked_for(models, model):
    """And compared as the matrix that it is."""
    assert models[model].verdict is Status.PASSED, models[model].error
    assert [node.op_type for node in _graph(models, model).graph.node].count("ZipMap") == 1


def test_several_targets_come_in_columns(models):
    """A column a target, a quantile or a label."""
    for model in ("xgboost-two-targets", "xgboost-quantiles", "catboost-two-targets", "catboost-quantiles"):
        assert {check.shape[1] for check in models[model].checks} == {2}, model
    for model in ("xgboost-two-labels", "catboost-two-labels"):
        assert {check.shape[1] for check in models[model].checks} == {2}, model


def test_an_early_stopped_model_ends_at_its_best_iteration(models):
    """As an estimator, also from the file that it was saved to; the trees after it aren't in the ONNX file."""
    assert _trees(models, "estimator.json") == _xgb_early().best_iteration + 1
    assert _trees(models, "lightgbm-early") == _lgb_early().best_iteration_


def _trees(models: Run, model: str) -> int:
    node = next(node for node in _graph(models, model).graph.node if node.op_type == "TreeEnsembleRegressor")
    ids = next(attribute.ints for attribute in node.attribute if attribute.name == "nodes_treeids")
    return len(set(ids))


def _graph(models: Run, model: str) -> onnx.ModelProto:
    return onnx.load(models.output / "models" / f"{model}.onnx")


def test_opsets_are_those_that_were_asked_for(models):
    """A newer ai.onnx.ml than every runtime loads becomes 3, and a note says so."""
    assert models["opset"].convert.opset == 15
    imported = {entry.domain: entry.version for entry in _graph(models, "ml-opset").opset_import}
    assert imported["ai.onnx.ml"] == 3
    assert any("asked for ai.onnx.ml 5, written with 3" in note for note in models["ml-opset"].notes)


def test_the_report_tells_of_rounded_thresholds(models):
    """LightGBM has float64 ones, the others float32 itself."""
    assert any("thresholds were rounded down to float32" in note for note in models["values.txt"].notes)
    assert not any("rounded down" in note for note in models["poisson.json"].notes)


def test_a_file_tells_of_the_data_as_given_where_it_computes_in_float64(models):
    """LightGBM does, alone as in scikit-learn; XGBoost and CatBoost round to float32 themselves."""
    [told] = _of_the_data_as_given(models["values.txt"])
    assert told == "ONNX Runtime on cpu agrees with the source on the data as given too"
    assert not any(_of_the_data_as_given(models[name]) for name in ("poisson.json", "poisson.cbm"))


def _of_the_data_as_given(result):
    warned = result.coverage.warnings if result.coverage else ()
    return [note for note in (*result.notes, *warned) if "the data as given" in note]


def test_a_fraction_for_a_category_is_named(models):
    """LightGBM cuts 3.7 to the category 3, ONNX compares 3.7 with 3."""
    found = models["generated-categories"]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.PREPROCESSING), found.advice
    assert re.search(r"Column 0 is a category, and was fed \d", found.advice)


def test_a_fraction_of_the_users_data_is_not_shown(models):
    """Only that there is one, and in which column."""
    found = models["given-categories"]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.PREPROCESSING), found.advice
    assert "Column 0 is a category, and was fed a number that isn't whole: lightgbm cuts that" in found.advice


@pytest.mark.parametrize(
    ("model", "cause", "words", "fix"),
    [
        ("lightgbm-linear", Cause.UNSUPPORTED_OPERATOR, "linear trees", "linear_tree: false"),
        ("lightgbm-zeros", Cause.UNSUPPORTED_OPERATOR, "zeros for missing values", "NaN for what is missing"),
        ("lightgbm-narrow", Cause.LOAD_FAILED, "have 4 columns, and the model was trained on 30", "[batch, 30]"),
        ("lightgbm-unfitted", Cause.LOAD_FAILED, "the LGBMClassifier is not fitted", "fit it"),
        ("lightgbm-foreign", Cause.LOAD_FAILED, "got a XGBClassifier, expected a model of lightgbm", "xgboost"),
        ("xgboost-line", Cause.UNSUPPORTED_OPERATOR, "`gblinear`", "linear model of scikit-learn"),
        ("xgboost-vectors", Cause.UNSUPPORTED_OPERATOR, "multi_output_tree", "one_output_per_tree"),
        ("xgboost-zeros", Cause.UNSUPPORTED_OPERATOR, "takes 0 for missing values", "NaN"),
        ("catboost-categories", Cause.UNSUPPORTED_OPERATOR, "categorical features ('0')", "one-hot"),
        ("catboost-unsymmetric", Cause.UNSUPPORTED_OPERATOR, "oblivious trees", "SymmetricTree"),
        ("catboost-uncertain", Cause.UNSUPPORTED_OPERATOR, "RMSEWithUncertainty", "RMSE"),
        ("image", Cause.LOAD_FAILED, "float32 with 3 dimensions", "shape: [batch, 4]"),
        ("empty.txt", Cause.LOAD_FAILED, "the file is empty", "checked out"),
        ("prose.txt", Cause.LOAD_FAILED, "this is no LightGBM model", "save_model"),
        ("half.txt", Cause.LOAD_FAILED, "the file is cut off", "save it again"),
        ("settings.json", Cause.LOAD_FAILED, "it is no XGBoost model", "save_model"),
        ("words.json", Cause.LOAD_FAILED, "it is no XGBoost model", "save_model"),
        ("half.json", Cause.LOAD_FAILED, "or not a whole one", "save_model"),
        ("junk.ubj", Cause.LOAD_FAILED, "it is no XGBoost model", "save_model"),
        ("junk.cbm", Cause.LOAD_FAILED, "it is no CatBoost model", "save_model"),
        ("half.cbm", Cause.LOAD_FAILED, "or not a whole one", "save_model"),
    ],
)
def test_what_cannot_be_judged_says_why(models, model, cause, words, fix):
    """The cause, what is wrong, and the way out."""
    found = models[model]
    assert (found.verdict, found.cause) == (Status.ERROR, cause), found.error
    assert words in found.error
    assert fix in found.error.partition("Fix: ")[2]
    assert len(found.error) < 2000
    assert "Stack trace" not in found.error


def test_the_versions_of_all_libraries_are_reported(models):
    """Also of XGBoost, whose distribution may have another name."""
    versions = models.result.environment.versions
    assert versions["lightgbm"] == lightgbm.__version__
    assert versions.get("xgboost", versions.get("xgboost-cpu")) == xgboost.__version__
    assert versions["catboost"] == catboost.__version__
    assert versions["onnxmltools"] == onnxmltools.__version__
