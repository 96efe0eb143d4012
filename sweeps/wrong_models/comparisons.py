"""Models of whole numbers whose files take `<` for `<=`: they are wrong for values that equal a threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import onnx
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer
from sklearn.tree import DecisionTreeRegressor

from sweeps.wrong_models.boosters import extreme, light
from sweeps.wrong_models.edits import branches, change_list, nodes, set_attribute
from sweeps.wrong_models.entry import Array, Model, Random, entry, floats
from sweeps.wrong_models.sklearn_numbers import number

TABLE = {"X": floats(3)}


def counted(random: Random, rows: int = 400) -> Array:
    """Ages, minutes of parking (even numbers), and postal districts."""
    columns = [random.integers(18, 90, rows), 2 * random.integers(10, 120, rows), random.integers(1000, 9999, rows)]
    return np.column_stack(columns).astype(np.float32)


def even(table: Array) -> Array:
    """The table with even numbers alone: the middle of two is a whole number that another table holds."""
    return np.asarray(table // 2 * 2)


def fees(table: Array, random: Random) -> Array:
    """A target that depends on all columns, in steps."""
    steps = 10 * (table[:, 0] > random.integers(30, 60)) + table[:, 1] // 30 + 5 * (table[:, 2] > 5000)
    return np.asarray(steps + random.normal(0, 0.1, len(table)))


def compare_as(mode: bytes, *, all_nodes: bool) -> Callable[[onnx.ModelProto, Random], None]:
    """A sabotage: another comparison in all nodes of a tree ensemble, or in a random one."""

    def turn(file: onnx.ModelProto, random: Random) -> None:
        node = nodes(file, "TreeEnsembleRegressor", "TreeEnsembleClassifier")[0]
        chosen = branches(node) if all_nodes else [int(random.choice(branches(node)))]

        def change(modes: list[Any]) -> None:
            for place in chosen:
                modes[place] = mode

        change_list(node, "nodes_modes", change)

    return turn


def model_of(source: Any, table: Array, mode: bytes, *, all_nodes: bool = True) -> Model:
    """A model that is wrong on some rows of a table of whole numbers."""
    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=compare_as(mode, all_nodes=all_nodes))


@entry("sklearn", "comparison of a tree")
def tree_comparison(random: Random) -> Model:
    """One node of a tree behind an imputer compares with `<`."""
    table = counted(random)
    tree = DecisionTreeRegressor(max_depth=5, random_state=number(random))
    source = make_pipeline(SimpleImputer(), tree).fit(even(table), fees(table, random))
    return model_of(source, table, b"BRANCH_LT", all_nodes=False)


@entry("sklearn", "comparison of gradient boosting")
def histogram_comparison(random: Random) -> Model:
    """All nodes of histogram boosting compare with `<`."""
    table = counted(random)
    source = HistGradientBoostingRegressor(max_iter=20, random_state=number(random))
    return model_of(source.fit(even(table), fees(table, random)), table, b"BRANCH_LT")


@entry("sklearn", "comparison of a Binarizer")
def binarizer_comparison(random: Random) -> Model:
    """A Binarizer compares with `>=`: its threshold is the number just below."""
    table = counted(random)
    limit = float(random.integers(40, 70))
    source = make_pipeline(Binarizer(threshold=limit), LinearRegression()).fit(table, fees(table, random))

    def lower(file: onnx.ModelProto, drawn: Random) -> None:
        set_attribute(nodes(file, "Binarizer")[0], "threshold", float(np.nextafter(np.float32(limit), np.float32(0))))

    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=lower)


@entry("lightgbm", "comparison")
def lightgbm_comparison(random: Random) -> Model:
    """All nodes of LightGBM compare with `<`."""
    table = counted(random)
    source = light(random, lightgbm.LGBMRegressor).fit(even(table), fees(table, random))
    return model_of(source, table, b"BRANCH_LT")


@entry("xgboost", "comparison")
def xgboost_comparison(random: Random) -> Model:
    """All nodes of XGBoost compare with `<=`, as those of other libraries do."""
    table = counted(random)
    source = extreme(random, xgboost.XGBRegressor).fit(table, fees(table, random))
    return model_of(source, table, b"BRANCH_LEQ")
