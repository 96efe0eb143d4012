"""Estimators and their rows, each with one thing that is hard or wrong."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def scaled():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(*load_wine(return_X_y=True))


def iris():
    return LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True))


def named():
    rows, classes = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=500).fit(rows, np.array(["setosa", "versicolor", "virginica"])[classes])


def two_classes():
    rows, classes = load_wine(return_X_y=True)
    return LinearDiscriminantAnalysis().fit(rows[classes < 2], classes[classes < 2])


def clock():
    rows = seconds()["X"]
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, rows[:, 0] > np.median(rows))


def no_converter():
    return AdditiveChi2Sampler().fit(load_wine(return_X_y=True)[0])


def iris_rows():
    return {"X": load_iris(return_X_y=True)[0].astype(np.float32)}


def wine_rows():
    return {"X": load_wine(return_X_y=True)[0].astype(np.float32)}


def seconds():
    return {"X": 1_700_000_000 + np.random.default_rng(0).uniform(0, 3600, (500, 1))}
