"""Sources that treat rows in ways of their own, as estimators; copied beside the manifest of test_rows."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class Estimator(TransformerMixin, BaseEstimator):
    """Answers with a function of the rows."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def transform(self, rows):
        return self.answer(rows)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def double():
    """Each row for itself."""
    return Estimator(lambda rows: rows * 2)


def add_mean():
    """Mixes the rows of a batch."""
    return Estimator(lambda rows: rows + rows.mean(axis=0))


def same():
    """Each row as it is."""
    return Estimator(lambda rows: rows)


def no_rows():
    """Answers a batch without rows, as few estimators do; refuses zeros."""

    def answer(rows):
        if len(rows) and not rows.any():
            raise ValueError("nothing but zeros")
        return rows

    return Estimator(answer)


def noisy():
    """Differs by rounding with the number of rows, as matrix products do."""
    return Estimator(lambda rows: rows * (1 + 1e-9 * len(rows)))


def column_of_labels():
    """One number a row, and no row for the other output: what has no row for each row is compared as it is."""
    return Estimator(lambda rows: np.array([[len(rows)]], dtype=float))
