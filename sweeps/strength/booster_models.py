"""Healthy models of XGBoost, LightGBM and CatBoost, each with rows that it has not seen."""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import xgboost

from sweeps.strength.sklearn_models import SEED, on_table
from sweeps.strength.tables import rows, rows_with_gaps
from sweeps.wrong_models.entry import Entry

_TREES = 20


def _entry(framework: str, name: str, estimator: Any, *, gaps: bool = False) -> Entry:
    load = rows_with_gaps if gaps else rows
    place = f"{name}, with missing values" if gaps else name
    return Entry(framework=framework, place=place, build=lambda random: on_table(estimator, load(name, random)))


def _extreme(kind: Any) -> Any:
    return kind(n_estimators=_TREES, max_depth=4, n_jobs=1, random_state=SEED)


def _light(kind: Any) -> Any:
    return kind(n_estimators=_TREES, num_leaves=12, verbosity=-1, n_jobs=1, random_state=SEED)


def _cat(kind: Any) -> Any:
    return kind(iterations=_TREES, depth=4, verbose=False, thread_count=1, random_seed=SEED, allow_writing_files=False)


MODELS = {
    "xgboost": _entry("xgboost", "wine", _extreme(xgboost.XGBClassifier)),
    "xgboost_gaps": _entry("xgboost", "diabetes", _extreme(xgboost.XGBRegressor), gaps=True),
    "lightgbm": _entry("lightgbm", "cancer", _light(lightgbm.LGBMClassifier)),
    "lightgbm_gaps": _entry("lightgbm", "diabetes", _light(lightgbm.LGBMRegressor), gaps=True),
    "catboost": _entry("catboost", "cancer", _cat(catboost.CatBoostClassifier)),
    "catboost_gaps": _entry("catboost", "diabetes", _cat(catboost.CatBoostRegressor), gaps=True),
}
"""Entries by name."""
