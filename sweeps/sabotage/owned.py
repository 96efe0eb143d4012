"""Boosters with their own `predict`, as people write them. Factories import this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import xgboost

Array = np.ndarray[Any, Any]


class Owned:
    """Steps around the trees: `habit` names the step; it is empty for no step."""

    habit = ""
    order: tuple[int, ...] = ()

    def rows(self, X: Any) -> Any:
        """The rows that the trees get."""
        if self.habit == "double":
            return np.asarray(X)
        X = np.asarray(X, dtype=np.float32)
        if self.habit == "scale":
            return (X - np.float32(5)) / np.float32(12)
        if self.habit == "log":
            return np.log1p(np.abs(X))
        return X[:, list(self.order)] if self.habit == "columns" else X

    def answers(self, given: Any) -> Any:
        """The final answers, made from the answers of the trees."""
        given = np.asarray(given)
        if self.habit == "classes":
            return given[:, list(self.order)]
        if self.habit == "temperature":
            raised = given**0.5
            return np.asarray(raised / raised.sum(axis=1, keepdims=True))
        if self.habit == "expm1":
            return np.asarray(np.expm1(given))
        if self.habit == "noise":
            return np.asarray(given + np.random.default_rng().normal(0, 0.01, given.shape))
        return given


class OwnLGBMRegressor(Owned, lightgbm.LGBMRegressor):  # type: ignore[misc, unused-ignore]
    """A LightGBM regressor."""

    def predict(self, X: Any, *args: Any, **options: Any) -> Any:
        """The prediction with the steps around it."""
        limit = {"num_iteration": 5} if self.habit == "earlier" else {}
        return self.answers(lightgbm.LGBMRegressor.predict(self, self.rows(X), *args, **{**options, **limit}))


class OwnLGBMClassifier(Owned, lightgbm.LGBMClassifier):  # type: ignore[misc, unused-ignore]
    """A LightGBM classifier."""

    def predict_proba(self, X: Any, *args: Any, **options: Any) -> Any:
        """The prediction with the steps around it."""
        return self.answers(lightgbm.LGBMClassifier.predict_proba(self, self.rows(X), *args, **options))

    def predict(self, X: Any, *args: Any, **options: Any) -> Any:
        """The most likely class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class OwnXGBRegressor(Owned, xgboost.XGBRegressor):  # type: ignore[misc, unused-ignore]
    """An XGBoost regressor."""

    def predict(self, X: Any, *args: Any, **options: Any) -> Any:
        """The prediction with the steps around it."""
        limit = {"iteration_range": (0, 5)} if self.habit == "earlier" else {}
        return self.answers(xgboost.XGBRegressor.predict(self, self.rows(X), *args, **{**options, **limit}))


class OwnXGBClassifier(Owned, xgboost.XGBClassifier):  # type: ignore[misc, unused-ignore]
    """An XGBoost classifier."""

    def predict_proba(self, X: Any, *args: Any, **options: Any) -> Any:
        """The prediction with the steps around it."""
        return self.answers(xgboost.XGBClassifier.predict_proba(self, self.rows(X), *args, **options))

    def predict(self, X: Any, *args: Any, **options: Any) -> Any:
        """The most likely class."""
        return self.predict_proba(X).argmax(axis=1)


KINDS: dict[tuple[str, bool], Any] = {
    ("lightgbm", False): OwnLGBMRegressor,
    ("lightgbm", True): OwnLGBMClassifier,
    ("xgboost", False): OwnXGBRegressor,
    ("xgboost", True): OwnXGBClassifier,
}
"""Classes by library, and whether it is a classifier."""


def read(path: str) -> Any:
    """The model that was saved beside the manifest."""
    return joblib.load(Path(path))
