"""Boosters on the diabetes data that comes with scikit-learn, with holes in it."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def split():
    rows, progress = load_diabetes(return_X_y=True)
    holes = np.random.default_rng(0).random(rows.shape) < 0.05
    rows = np.where(holes, np.nan, rows).astype(np.float32)
    return train_test_split(rows, progress, test_size=0.3, random_state=0)


def forest():
    from lightgbm import LGBMRegressor

    rows, _, progress, _ = split()
    model = LGBMRegressor(
        verbose=-1, boosting_type="rf", n_estimators=40, bagging_freq=1, bagging_fraction=0.7, n_jobs=1
    )
    return model.fit(rows, progress)


def words():
    from catboost import CatBoostClassifier

    rows, _, progress, _ = split()
    model = CatBoostClassifier(iterations=40, depth=4, verbose=0, thread_count=1, allow_writing_files=False)
    return model.fit(rows, np.where(progress > 140, "fast", "slow"))


def scaled():
    from skl2onnx.sklapi import CastTransformer
    from xgboost import XGBRegressor

    rows, _, progress, _ = split()
    in_double = CastTransformer(dtype=np.float64), StandardScaler(), CastTransformer(dtype=np.float32)
    return make_pipeline(*in_double, XGBRegressor(n_estimators=40, n_jobs=1)).fit(rows, progress)


def test_rows():
    _, rows, _, _ = split()
    return {"X": rows}
