"""Data sets that come with scikit-learn, split into rows to fit on and rows to judge with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

from sweeps.wrong_models.entry import Array, Random

HELD_OUT = 0.25
"""The share of rows that a model is judged on."""
_LOADERS: dict[str, Callable[..., Any]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
UNKNOWN = 1
"""The id of a word that training has not seen; 0 is padding."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows to fit on, and rows that the model has not seen."""

    fit: Any
    fit_target: Array
    test: Any
    test_target: Array


def split(x: Any, y: Array, random: Random) -> Split:
    """A seeded split."""
    fit, test, fit_target, test_target = train_test_split(
        x, y, test_size=HELD_OUT, random_state=int(random.integers(2**31))
    )
    return Split(fit=fit, fit_target=fit_target, test=test, test_target=test_target)


def rows(name: str, random: Random) -> Split:
    """A data set of numbers."""
    x, y = _LOADERS[name](return_X_y=True)
    return split(x.astype(np.float32), y, random)


def rows_with_gaps(name: str, random: Random, share: float = 0.1) -> Split:
    """A data set of numbers with missing values, as in real measurements."""
    x, y = _LOADERS[name](return_X_y=True)
    gaps = np.where(random.random(x.shape) < share, np.nan, x).astype(np.float32)
    return split(gaps, y, random)


def people(random: Random) -> Split:
    """Diabetes patients as a table with words: age group, sex and six numbers."""
    given = datasets.load_diabetes(scaled=False, as_frame=True)
    table = given.data[["bmi", "bp", "s1", "s3", "s5", "s6"]].astype(np.float32)
    groups = pd.cut(given.data["age"], [0, 30, 40, 50, 60, 99], labels=["20s", "30s", "40s", "50s", "60s"])
    sex = given.data["sex"].map({1.0: "first", 2.0: "second"})
    return split(table.assign(age=groups.astype(object), sex=sex.astype(object)), given.target.to_numpy(), random)


def sentences(random: Random) -> Split:
    """Lines of the data sets' own descriptions; the class is the data set."""
    names = list(_LOADERS)
    lines = [(line, number) for number, name in enumerate(names) for line in _lines(_LOADERS[name]().DESCR)]
    return split(np.array([line for line, _ in lines], dtype=object), np.array([of for _, of in lines]), random)


def _lines(text: str) -> list[str]:
    """The words of each line, for lines with at least three words."""
    plain = [" ".join(re.findall(r"[a-z]+", line.lower())) for line in text.splitlines()]
    return [line for line in plain if line.count(" ") >= 2]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Sentences as ids, all of the same length."""

    fit: Array
    fit_target: Array
    test: Array
    size: int
    """Size of the vocabulary."""


def tokens(random: Random, length: int = 12) -> Tokens:
    """Sentences as ids; the vocabulary has the words that occur at least twice in the training sentences."""
    given = sentences(random)
    counted: dict[str, int] = {}
    for line in given.fit:
        for word in line.split():
            counted[word] = counted.get(word, 0) + 1
    known = {word: place + 2 for place, word in enumerate(sorted(word for word, n in counted.items() if n > 1))}

    def ids(lines: Array) -> Array:
        table = np.zeros((len(lines), length), dtype=np.int64)
        for row, line in enumerate(lines):
            found = [known.get(word, UNKNOWN) for word in line.split()[:length]]
            table[row, : len(found)] = found
        return table

    return Tokens(fit=ids(given.fit), fit_target=given.fit_target, test=ids(given.test), size=len(known) + 2)
