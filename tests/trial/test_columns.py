"""The columns that a booster was fitted on, held against those of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.worker.inputs.data.fitted import check_columns

pytestmark = pytest.mark.extras

SPEC = ModelSpec(
    id="m",
    line=1,
    framework="lightgbm",
    folder="/",
    source=Location(shown="m.txt"),
    data=Location(file="t.csv", shown="t.csv"),
    inputs=(InputSpec(name="X", dtype="float32", shape=("batch", 3)),),
)
ROWS = np.arange(60.0).reshape(20, 3) % 7
TARGET = ROWS.sum(axis=1)


def lightgbm_of(rows):
    import lightgbm

    return lightgbm.train({"verbose": -1, "min_data_in_leaf": 1}, lightgbm.Dataset(rows, TARGET), num_boost_round=2)


def xgboost_of(rows):
    import xgboost

    return xgboost.train({}, xgboost.DMatrix(rows, TARGET), num_boost_round=2)


def catboost_of(rows):
    import catboost

    return catboost.CatBoostRegressor(iterations=2, silent=True, allow_writing_files=False).fit(rows, TARGET)


TRAIN = {"lightgbm": lightgbm_of, "xgboost": xgboost_of, "catboost": catboost_of}


@pytest.mark.parametrize(("library", "train"), TRAIN.items())
def test_a_booster_knows_its_columns(library, train):
    """Another order is refused, with the one to choose; the same one passes."""
    model = train(pd.DataFrame(ROWS, columns=["a", "b", "c"]))
    fitted = get_plugin(library).fitted_columns(model)
    check_columns(fitted, SPEC, {"X": ("a", "b", "c")})
    with pytest.raises(CannotJudge, match="the columns are c, b, a; the model was fitted on a, b, c") as caught:
        check_columns(fitted, SPEC, {"X": ("c", "b", "a")})
    assert "`columns: [a, b, c]`" in caught.value.fix


@pytest.mark.parametrize(("library", "train"), TRAIN.items())
def test_names_that_a_booster_made_up_are_none(library, train):
    """Fitted on an array, it takes columns of any name."""
    check_columns(get_plugin(library).fitted_columns(train(ROWS)), SPEC, {"X": ("c", "b", "a")})
