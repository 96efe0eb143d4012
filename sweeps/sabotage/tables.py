"""Draws random tables, and typical pipelines for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC

Array = np.ndarray[Any, Any]
Random = np.random.Generator
ROWS, TEST = 300, 64


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows to fit on, and rows to test with."""

    X: Array
    y: Array
    test: Array


def draw_table(random: Random, *, classes: int = 0, targets: int = 1, gaps: bool = False) -> Table:
    """A table with columns of different sizes and offsets; the target depends on all of them."""
    width = int(random.integers(4, 9))
    clean = random.standard_normal((ROWS + TEST, width))
    weights = random.normal(0, 1, (width, max(targets, classes)))
    answers = np.tanh(clean @ weights) * 2 + clean[:, :1] * clean[:, 1:2] + random.normal(0, 0.3, (ROWS + TEST, 1))
    X = (clean * random.uniform(0.5, 20, width) + random.uniform(-10, 40, width)).astype(np.float32)
    if gaps:
        X = np.where(random.random(X.shape) < 0.12, np.float32("nan"), X)
    y = answers.argmax(axis=1) if classes else answers[:, 0] if targets == 1 else answers
    return Table(X=X[:ROWS], y=y[:ROWS], test=X[ROWS:])


SCALERS = (StandardScaler, MinMaxScaler, RobustScaler)


def draw_classifier(random: Random, *, smooth: bool = False) -> Any:
    """A classifier as the last step; a smooth one has no thresholds."""
    seed = int(random.integers(1000))
    kinds: list[Any] = [
        LogisticRegression(max_iter=500),
        MLPClassifier((12,), max_iter=120, random_state=seed, activation=str(random.choice(["relu", "tanh"]))),
        SVC(probability=False, kernel="rbf", decision_function_shape="ovr"),
    ]
    if not smooth:
        kinds += [RandomForestClassifier(12, max_depth=5, random_state=seed), KNeighborsClassifier(7)]
        kinds += [GradientBoostingClassifier(n_estimators=12, max_depth=3, random_state=seed)]
    kinds = [kind for kind in kinds if not isinstance(kind, SVC)]
    return kinds[int(random.integers(len(kinds)))]


def draw_regressor(random: Random) -> Any:
    """A regressor as the last step."""
    seed = int(random.integers(1000))
    kinds: list[Any] = [
        LinearRegression(),
        Ridge(0.5),
        MLPRegressor((14,), max_iter=150, random_state=seed),
        RandomForestRegressor(10, max_depth=5, random_state=seed),
    ]
    return kinds[int(random.integers(len(kinds)))]


def draw_steps(random: Random, width: int, *, gaps: bool = False, scaler: bool = True) -> list[tuple[str, Any]]:
    """The steps before the last one."""
    steps: list[tuple[str, Any]] = [("impute", SimpleImputer(strategy="median"))] if gaps else []
    made = SCALERS[int(random.integers(len(SCALERS)))]
    if scaler and random.random() < 0.25:
        half = width // 2
        halves = [("low", made(), list(range(half))), ("high", StandardScaler(), list(range(half, width)))]
        steps.append(("scale", ColumnTransformer(halves)))
    elif scaler:
        steps.append(("scale", made()))
    if random.random() < 0.25:
        steps.append(("reduce", PCA(max(2, width - 1), random_state=0)))
    elif random.random() < 0.25:
        steps.append(("products", PolynomialFeatures(2, include_bias=False)))
    return steps


def pipeline(*steps: tuple[str, Any]) -> Any:
    """A pipeline of these steps."""
    return Pipeline(list(steps))
