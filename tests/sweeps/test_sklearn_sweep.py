"""A tenth of scikit-learn's estimators through the gate and through a plain check; the whole is `make sweep`."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from importlib.metadata import version

import pytest

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Status
from sweeps.page import DOCS
from sweeps.sklearn_estimators import Sweep, summarize, sweep
from sweeps.sklearn_recipes import estimators

PASSING = (
    *("LogisticRegression", "Ridge", "StandardScaler", "PCA", "KMeans", "GaussianMixture", "IsolationForest"),
    *("MultiOutputClassifier", "ColumnTransformer", "GridSearchCV", "LabelEncoder", "OneHotEncoder"),
)
DIVERGING = {
    ("LinearDiscriminantAnalysis", "float32"): "conversion",
    ("TunedThresholdClassifierCV", "float32"): "conversion",
    ("Binarizer", "double"): "conversion",
    ("QuantileTransformer", "float32"): "conversion",
    ("KBinsDiscretizer", "float32"): "precision",
}
REFUSED = {
    ("DBSCAN", "float32"): "neither predict nor transform",
    ("DictVectorizer", "once"): "takes dicts",
    ("ClassifierChain", "float32"): "use a MultiOutputClassifier",
    ("Isomap", "float32"): "no converter for scikit-learn's Isomap",
    ("SimpleImputer", "double"): "Imputer(1)",
}
NAMES = [*PASSING, *(name for name, _ in (*DIVERGING, *REFUSED))]
SEED = 4
"""Draws the tenth."""
TENTH = 10


def drawn() -> list[str]:
    """A tenth of all estimators."""
    names = sorted(estimators())
    return sorted(random.Random(SEED).sample(names, len(names) // TENTH))


@pytest.fixture(scope="module")
def tenth(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """All of it in one run, whose verdicts alone matter."""
    return sweep(tmp_path_factory.mktemp("tenth"), drawn(), strength=False)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Those that something is known of, with their strength."""
    return sweep(tmp_path_factory.mktemp("sweep"), NAMES)


def _results(sample: Sweep, known: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], ModelResult]:
    """Those of the sample that something is known of, by name and width."""
    found = {(row.name, width): result for row in sample.rows for width, result in row.results.items()}
    return {which: found[which] for which in known}


def test_of_a_tenth_no_promise_is_broken_and_every_verdict_is_shared(tenth: Sweep) -> None:
    """No crash, no unknown cause, no endless message, a way out of every error; the plain check agrees."""
    assert tenth.problems == []
    assert [row.name for row in tenth.rows] == drawn()
    assert summarize(tenth.rows)["estimators"] == str(len(tenth.rows))


@pytest.mark.models
def test_no_promise_is_broken_and_every_verdict_is_shared(sample: Sweep) -> None:
    """The same of those that something is known of."""
    assert sample.problems == []
    assert {row.name for row in sample.rows} == {*NAMES}


@pytest.mark.models
def test_what_converts_well_passes(sample: Sweep) -> None:
    """In float32, or once where there are no floats."""
    verdicts = {row.name: next(iter(row.results.values())).verdict for row in sample.rows if row.name in PASSING}
    assert verdicts == dict.fromkeys(PASSING, Status.PASSED)


@pytest.mark.models
def test_what_is_known_to_diverge_does_and_for_that_reason(sample: Sweep) -> None:
    """With advice."""
    for which, result in _results(sample, DIVERGING).items():
        assert (result.verdict, result.cause) == ("diverged", DIVERGING[which]), which
        assert result.advice, which


@pytest.mark.models
def test_what_can_not_be_judged_says_why(sample: Sweep) -> None:
    """And how to get on."""
    for which, result in _results(sample, REFUSED).items():
        assert result.verdict == "error", which
        assert REFUSED[which] in result.error, which


def test_the_page_names_every_estimator():
    """Of the version of scikit-learn that it was written with."""
    page = (DOCS / "sklearn-coverage.md").read_text(encoding="utf-8")
    written_with = re.search(r"scikit-learn ([\w.]+)", page.split("Written by")[1])
    assert written_with
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert len(rows) == len(set(rows)) > 200
    if written_with[1] == version("scikit-learn"):
        assert set(rows) == set(estimators())
