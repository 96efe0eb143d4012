"""Models of LightGBM, XGBoost and CatBoost on incomes, with missing values and with categories."""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import numpy as np
import onnx
import xgboost

from sweeps.wrong_models.edits import (
    attribute,
    change_list,
    move_threshold,
    nodes,
    scale_leaf,
    turn_missing,
)
from sweeps.wrong_models.entry import Array, Model, Random, entry, floats
from sweeps.wrong_models.sklearn_numbers import number
from sweeps.wrong_models.tables import classes, people, spending, with_gaps

TABLE = {"X": floats(4)}
TREES = 20


def light(random: Random, kind: Any, **options: Any) -> Any:
    """A small LightGBM model of this kind."""
    return kind(n_estimators=TREES, num_leaves=12, verbosity=-1, n_jobs=1, random_state=number(random), **options)


def extreme(random: Random, kind: Any, **options: Any) -> Any:
    """A small XGBoost model of this kind."""
    return kind(n_estimators=TREES, max_depth=4, n_jobs=1, random_state=number(random), **options)


def cat(random: Random, kind: Any, **options: Any) -> Any:
    """A small CatBoost model of this kind."""
    seed = number(random)
    return kind(
        iterations=TREES, depth=4, verbose=False, thread_count=1, random_seed=seed, allow_writing_files=False, **options
    )


def branch_codes(random: Random, rows: int = 400) -> Array:
    """Incomes, and in the second column the code of a branch, from 20 to 39, which has more influence."""
    table = people(random, rows)
    table[:, 1] = random.integers(20, 40, rows)
    return table


def by_branch(table: Array, random: Random) -> Array:
    """A target that depends on the branch, in no order."""
    effects = random.normal(0, 3, 40)
    return np.asarray(effects[table[:, 1].astype(int)] + np.log(table[:, 0]))


def swap_category(file: onnx.ModelProto, random: Random) -> None:
    """Change one test for a category in a tree ensemble to another category."""
    node = nodes(file, "TreeEnsembleRegressor", "TreeEnsembleClassifier")[0]
    equal = [place for place, mode in enumerate(attribute(node, "nodes_modes")) if mode == b"BRANCH_EQ"]
    if not equal:
        raise LookupError("no test for a category in the trees")
    chosen = int(random.choice(equal))
    change_list(node, "nodes_values", lambda values: values.__setitem__(chosen, float(random.integers(20, 40))))


@entry("lightgbm", "leaf")
def lightgbm_leaf(random: Random) -> Model:
    """A wrong leaf of LightGBM."""
    table = people(random)
    model = light(random, lightgbm.LGBMRegressor).fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("lightgbm", "threshold")
def lightgbm_threshold(random: Random) -> Model:
    """A wrong threshold of LightGBM."""
    table = people(random)
    model = light(random, lightgbm.LGBMClassifier).fit(table, classes(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("lightgbm", "direction of missing values")
def lightgbm_missing(random: Random) -> Model:
    """Missing values go the other way in one node of LightGBM."""
    table = people(random)
    target = spending(table, random)
    gaps = with_gaps(table, random)
    model = light(random, lightgbm.LGBMRegressor).fit(gaps, target)
    return Model(source=model, inputs=TABLE, own={"X": gaps}, sabotage=turn_missing)


@entry("lightgbm", "category")
def lightgbm_category(random: Random) -> Model:
    """LightGBM's trees test for another category."""
    table = branch_codes(random)
    model = light(random, lightgbm.LGBMRegressor).fit(table, by_branch(table, random), categorical_feature=[1])
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=swap_category)


@entry("xgboost", "leaf")
def xgboost_leaf(random: Random) -> Model:
    """A wrong leaf of XGBoost."""
    table = people(random)
    model = extreme(random, xgboost.XGBClassifier).fit(table, classes(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("xgboost", "threshold")
def xgboost_threshold(random: Random) -> Model:
    """A wrong threshold of XGBoost."""
    table = people(random)
    model = extreme(random, xgboost.XGBRegressor).fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("xgboost", "direction of missing values")
def xgboost_missing(random: Random) -> Model:
    """Missing values go the other way in one node of XGBoost."""
    table = people(random)
    target = spending(table, random)
    gaps = with_gaps(table, random)
    model = extreme(random, xgboost.XGBRegressor).fit(gaps, target)
    return Model(source=model, inputs=TABLE, own={"X": gaps}, sabotage=turn_missing)


@entry("xgboost", "threshold of a rare region")
def xgboost_deep(random: Random) -> Model:
    """A wrong threshold in deep trees of XGBoost; few rows reach each threshold."""
    table = people(random, 800)
    model = extreme(random, xgboost.XGBRegressor, min_child_weight=1).set_params(max_depth=7)
    model.fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("catboost", "leaf")
def catboost_leaf(random: Random) -> Model:
    """A wrong leaf of CatBoost."""
    table = people(random)
    model = cat(random, catboost.CatBoostRegressor).fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("catboost", "threshold")
def catboost_threshold(random: Random) -> Model:
    """A wrong border of CatBoost."""
    table = people(random)
    model = cat(random, catboost.CatBoostClassifier).fit(table, classes(table, random, 2))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("catboost", "direction of missing values")
def catboost_missing(random: Random) -> Model:
    """Missing values go the other way at one border of CatBoost."""
    table = people(random)
    target = spending(table, random)
    gaps = with_gaps(table, random)
    model = cat(random, catboost.CatBoostRegressor, nan_mode="Min").fit(gaps, target)
    return Model(source=model, inputs=TABLE, own={"X": gaps}, sabotage=turn_missing)
