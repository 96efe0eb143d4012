"""What boosters know of their inputs: thresholds, leaves, ranges, categories, missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onnx_gate.frameworks.boosters.splits import read_splits
from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import MOST_BOXES, Domains
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.domains.trees import boxes_of

pytestmark = [pytest.mark.extras, pytest.mark.models]

Array = npt.NDArray[Any]
ROWS = np.random.default_rng(5)
COUNT = 500
INCOME, AGE = ROWS.normal(52_000, 18_000, COUNT), ROWS.integers(18, 90, COUNT).astype(float)
KIND = ROWS.integers(0, 7, COUNT).astype(float)
RATE = np.where(ROWS.random(COUNT) < 0.2, np.nan, ROWS.normal(size=COUNT))
X = np.c_[INCOME, AGE, KIND, RATE]
WHOLE = np.c_[INCOME, AGE, KIND, np.nan_to_num(RATE)]
Y = ((INCOME > 51_000) ^ np.isin(KIND, [1, 4]) ^ (AGE > 60) ^ np.isnan(RATE)).astype(int)
LGB: dict[str, Any] = {"n_estimators": 6, "num_leaves": 9, "verbose": -1, "n_jobs": 1}
XGB: dict[str, Any] = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}
CAT: dict[str, Any] = {"iterations": 6, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


def lgb(rows: Array = X, named: Any = "auto", **options: Any) -> Any:
    """A classifier of LightGBM."""
    return lightgbm.LGBMClassifier(**{**LGB, **options}).fit(rows, Y, categorical_feature=named)


def xgb(rows: Array = X, **options: Any) -> Any:
    """A classifier of XGBoost."""
    return xgboost.XGBClassifier(**{**XGB, **options}).fit(rows, Y)


def cat(rows: Array = X, **options: Any) -> Any:
    """A classifier of CatBoost."""
    return catboost.CatBoostClassifier(**{**CAT, **options}).fit(rows, Y)


def asked(model: Any, framework: str, *inputs: InputSpec) -> Domains:
    """By the hook of the framework's plug-in."""
    given = inputs or (InputSpec(name="X", dtype="float32", shape=("batch", 4)),)
    spec = ModelSpec(id="m", line=1, framework=framework, folder="/", source=Location(), inputs=given)
    return get_plugin(framework).input_domain(model, spec, {})


def middles(found: Domains) -> Array:
    """The middle of each box, as float32, with ordinary values elsewhere."""
    rows = np.tile([50_000.0, 40.0, 2.0, 0.1], (len(found.boxes), 1))
    for row, box in zip(rows, found.boxes, strict=True):
        for (_, number), ends in box.items():
            row[number] = np.mean(ends)  # type: ignore[arg-type]
    return rows.astype(np.float32)


def lightgbm_leaves(model: Any, rows: Array) -> Array:
    """Of each row, the leaf in each tree."""
    return np.asarray(model.predict(rows, pred_leaf=True)).reshape(len(rows), -1)


def xgboost_leaves(model: Any, rows: Array) -> Array:
    """Of each row, the leaf in each tree."""
    return np.asarray(model.apply(rows)).reshape(len(rows), -1)


def catboost_leaves(model: Any, rows: Array) -> Array:
    """Of each row, the leaf in each tree."""
    return np.asarray(model.calc_leaf_indexes(rows)).reshape(len(rows), -1)


@pytest.mark.parametrize(
    ("framework", "model", "leaves"),
    [
        ("lightgbm", lgb, lightgbm_leaves),
        ("lightgbm", lambda: lgb(WHOLE, [2], cat_smooth=1, min_data_per_group=1), lightgbm_leaves),
        ("lightgbm", lambda: lgb(WHOLE, boosting_type="dart"), lightgbm_leaves),
        ("xgboost", xgb, xgboost_leaves),
        ("xgboost", lambda: xgb(booster="dart"), xgboost_leaves),
        ("xgboost", lambda: xgb(tree_method="exact"), xgboost_leaves),
        (
            "xgboost",
            lambda: xgb(enable_categorical=True, feature_types=["q", "q", "c", "q"], max_cat_to_onehot=2),
            xgboost_leaves,
        ),
        ("xgboost", lambda: xgb(enable_categorical=True, feature_types=["q", "q", "c", "q"]), xgboost_leaves),
        ("catboost", cat, catboost_leaves),
        ("catboost", lambda: cat(grow_policy="Lossguide"), catboost_leaves),
        ("catboost", lambda: cat(grow_policy="Depthwise", nan_mode="Max"), catboost_leaves),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_boxes_reach_every_leaf(
    framework: str, model: Callable[[], Any], leaves: Callable[[Any, Array], Array]
) -> None:
    """Of each tree all leaves that rows from all over the place reach, by the library's own account."""
    fitted = model()
    found = asked(fitted, framework)
    trees = read_splits(fitted).trees
    reached, possible = leaves(fitted, middles(found)), leaves(fitted, _many())
    assert len(trees) == reached.shape[1] == 6
    assert all(set(other) <= set(own) for own, other in zip(reached.T, possible.T, strict=True))
    assert found.origins == (Origin.LEAVES,)
    # Each box of a tree reaches a leaf of its own.
    for number, tree in enumerate(trees):
        boxes = [
            {("X", column): tuple(np.clip(ends, -1e6, 1e6)) for column, ends in box.items()}
            for box in boxes_of([tree], "seed")
        ]
        rows = middles(Domains(boxes=tuple(boxes)))
        assert len(set(leaves(fitted, rows)[:, number])) == len(boxes) > 3


def _many() -> Array:
    """Rows all over the place."""
    rng = np.random.default_rng(1)
    low, high = [-1e4, 10, 0, -3], [11e4, 95, 7, 3]
    rows = rng.uniform(low, high, (20_000, 4)).astype(np.float32)
    rows[:, 2] = np.floor(rows[:, 2])
    return rows


@pytest.mark.parametrize(
    ("framework", "model"), [("lightgbm", lgb), ("xgboost", xgb), ("catboost", cat)], ids=["lgb", "xgb", "cat"]
)
def test_thresholds_and_missing_values(framework: str, model: Callable[..., Any]) -> None:
    """All of them, and both sides of each in some box."""
    found = asked(model(), framework).inputs["X"].columns
    assert all(cut.at > -50_000 for cut in found[0].cuts) and any(cut.at > 40_000 for cut in found[0].cuts)
    assert all(18 < cut.at < 90 for cut in found[1].cuts) and found[1].cuts
    assert found[3].missing
    assert Origin.MISSING in found[3].origins and Origin.THRESHOLDS in found[3].origins


def test_what_a_tree_dump_says_is_a_cut() -> None:
    """Of LightGBM and XGBoost, against their own tables of nodes."""
    bare = lgb().booster_
    table = bare.trees_to_dataframe().dropna(subset=["split_feature"])
    for number, values in asked(bare, "lightgbm").inputs["X"].columns.items():
        expected = table[table.split_feature == f"Column_{number}"].threshold.astype(float).unique()
        np.testing.assert_allclose([cut.at for cut in values.cuts], np.sort(expected), atol=1e-30)
    other = xgb().get_booster()
    nodes = other.trees_to_dataframe()
    for number, values in asked(other, "xgboost").inputs["X"].columns.items():
        expected = nodes[nodes.Feature == f"f{number}"].Split.unique()
        np.testing.assert_allclose([cut.at for cut in values.cuts], np.sort(expected), rtol=1e-6)


def test_missing_values_that_were_never_seen() -> None:
    """LightGBM and CatBoost know whether there were any; XGBoost has a direction at each node."""
    for framework, model in (("lightgbm", lgb(WHOLE)), ("catboost", cat(WHOLE))):
        assert not any(values.missing for values in asked(model, framework).inputs["X"].columns.values())
    assert all(values.missing for values in asked(xgb(WHOLE), "xgboost").inputs["X"].columns.values())


def test_zeros_that_stand_for_missing_values() -> None:
    """A number beside 0 is not one: what goes wrong there only is no rounding."""
    columns = asked(lgb(np.nan_to_num(X), zero_as_missing=True), "lightgbm").inputs["X"].columns
    assert {0.0 in values.exact and 0 in values.marks for values in columns.values()} == {True}
    assert not any(values.exact for values in asked(lgb(WHOLE), "lightgbm").inputs["X"].columns.values())


def test_ranges_and_categories_of_lightgbm() -> None:
    """It keeps them beside its trees."""
    model = lgb(named=[2])
    found = asked(model, "lightgbm").inputs["X"].columns
    assert [found[0].low, found[0].high] == [pytest.approx(INCOME.min()), pytest.approx(INCOME.max())]
    assert found[2].choices == tuple(float(kind) for kind in range(7))
    assert found[2].unusual == (7.0,) and found[2].cuts == ()
    assert Origin.RANGES in found[0].origins and found[2].origins == (Origin.CATEGORIES,)


def test_categories_of_xgboost() -> None:
    """Those that some node asks for; a box names one of them."""
    model = xgb(enable_categorical=True, feature_types=["q", "q", "c", "q"], max_cat_to_onehot=2)
    found = asked(model, "xgboost")
    values = found.inputs["X"].columns[2]
    assert {1.0, 4.0} <= set(values.choices) <= set(range(7)) and values.unusual
    named = [box["X", 2] for box in found.boxes if ("X", 2) in box]
    assert named and all(low == high and low in range(8) for low, high in named)


def test_an_estimator_that_stopped_early_has_fewer_trees() -> None:
    """The trees after the best one are never asked."""
    model = xgboost.XGBClassifier(**{**XGB, "n_estimators": 60}, early_stopping_rounds=2)
    model.fit(X[:300], Y[:300], eval_set=[(X[300:], Y[300:])], verbose=False)
    assert len(read_splits(model).trees) == model.best_iteration + 1


def test_whole_numbers_and_several_inputs() -> None:
    """XGBoost splits 3 | 4 at 4: a box of whole numbers has room for one."""
    inputs = (
        InputSpec(name="income", dtype="float32", shape=("batch", 1)),
        InputSpec(name="age", dtype="int64", shape=("batch", 1)),
        InputSpec(name="rest", dtype="float32", shape=("batch", 2)),
    )
    found = asked(xgb(), "xgboost", *inputs)
    assert set(found.inputs) == {"income", "age", "rest"} and 1 in found.inputs["rest"].columns
    assert all(cut.at % 1 == 0.5 for cut in found.inputs["age"].columns[0].cuts)
    ends = [box["age", 0] for box in found.boxes if ("age", 0) in box]
    assert ends and all(np.floor(high) > low for low, high in ends)  # type: ignore[arg-type]


def test_a_model_without_trees_says_nothing() -> None:
    """A linear booster keeps coefficients alone."""
    assert asked(xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(WHOLE, Y), "xgboost") == Domains()


@pytest.mark.parametrize("kind", [lightgbm.LGBMClassifier, xgboost.XGBClassifier, catboost.CatBoostClassifier])
def test_behind_the_steps_of_a_pipeline(kind: Any) -> None:
    """Thresholds go back through the scaler, codes to their categories; wrappers are looked through."""
    options = {lightgbm.LGBMClassifier: LGB, xgboost.XGBClassifier: XGB, catboost.CatBoostClassifier: CAT}[kind]
    city = ROWS.choice(["Oslo", "Paris", "Rome"], COUNT)
    table = pd.DataFrame({"income": INCOME, "city": city})
    first = ColumnTransformer(
        [("num", StandardScaler(), ["income"]), ("cat", OneHotEncoder(sparse_output=False), ["city"])]
    )
    model = make_pipeline(first, kind(**options)).fit(table, (INCOME > 51_000) ^ (city == "Rome"))
    inputs = (
        InputSpec(name="income", dtype="float32", shape=("batch", 1)),
        InputSpec(name="city", dtype="string", shape=("batch", 1)),
    )
    found = asked(model, "sklearn", *inputs)
    assert 51_000 in [pytest.approx(cut.at, abs=1_000) for cut in found.inputs["income"].columns[0].cuts]
    assert all(cut.reach > 51_000 for cut in found.inputs["income"].columns[0].cuts)
    assert {str(box["city", 0][0]) for box in found.boxes if ("city", 0) in box} >= {"Rome"}
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "income": [rng.uniform(*box.get(("income", 0), (1.0, 2.0))) for box in found.boxes],  # type: ignore[arg-type]
            "city": [box.get(("city", 0), ("Oslo", "Oslo"))[0] for box in found.boxes],
        }
    )
    assert len(model.predict(rows)) == len(found.boxes) > 10
    if kind is lightgbm.LGBMClassifier:
        stacked = StackingClassifier([("a", model)], cv=2).fit(table, Y)
        assert asked(stacked, "sklearn", *inputs).inputs["income"].columns[0].cuts


@pytest.mark.parametrize(
    ("framework", "model"), [("lightgbm", lgb), ("xgboost", xgb), ("catboost", cat)], ids=["lgb", "xgb", "cat"]
)
def test_the_source_answers_rows_of_every_box(framework: str, model: Callable[..., Any]) -> None:
    """At most so many, finite, and the same each time."""
    options = {"lightgbm": {"n_estimators": 300, "num_leaves": 31}, "xgboost": {"n_estimators": 300}}
    fitted = model(**options.get(framework, {"iterations": 300}))
    found = asked(fitted, framework)
    assert MOST_BOXES / 2 < len(found.boxes) <= MOST_BOXES and found == asked(fitted, framework)
    rows = middles(found)
    assert np.isfinite(rows).all()
    assert len(fitted.predict(rows)) == len(rows)
