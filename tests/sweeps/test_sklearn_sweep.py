"""A sample of scikit-learn's estimators through the gate and through a plain check; the whole is `make sweep`."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

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


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Sweep:
    """All of the sample in one run."""
    return sweep(tmp_path_factory.mktemp("sweep"), NAMES)


def _result(sample: Sweep, name: str, width: str):
    return next(row for row in sample.rows if row.name == name).results[width]


def test_no_promise_is_broken_and_every_verdict_is_shared(sample):
    """No crash, no unknown cause, no endless message, a way out of every error; the plain check agrees."""
    assert sample.problems == []
    assert summarize(sample.rows)["estimators"] == str(len(NAMES))


@pytest.mark.parametrize("name", PASSING)
def test_what_converts_well_passes(sample, name):
    """In float32, or once where there are no floats."""
    row = next(row for row in sample.rows if row.name == name)
    assert next(iter(row.results.values())).verdict == "passed"


@pytest.mark.parametrize(("which", "cause"), DIVERGING.items())
def test_what_is_known_to_diverge_does_and_for_that_reason(sample, which, cause):
    """With advice."""
    result = _result(sample, *which)
    assert (result.verdict, result.cause) == ("diverged", cause)
    assert result.advice


@pytest.mark.parametrize(("which", "words"), REFUSED.items())
def test_what_can_not_be_judged_says_why(sample, which, words):
    """And how to get on."""
    result = _result(sample, *which)
    assert result.verdict == "error"
    assert words in result.error


def test_the_page_names_every_estimator():
    """Of the version of scikit-learn that it was written with."""
    page = (DOCS / "sklearn-coverage.md").read_text(encoding="utf-8")
    written_with = re.search(r"scikit-learn ([\w.]+)", page.split("Written by")[1])
    assert written_with
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert len(rows) == len(set(rows)) > 200
    if written_with[1] == version("scikit-learn"):
        assert set(rows) == set(estimators())
