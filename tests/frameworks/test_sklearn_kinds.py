"""Every kind of scikit-learn estimator through the gate, in one run."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    IsolationForest,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    LogisticRegression,
    Perceptron,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDOneClassSVM,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.models

IRIS = load_iris()
X = IRIS.data.astype(np.float32).astype(np.float64)
Y, TWO = IRIS.target, (IRIS.target > 0).astype(int)
NAMES = IRIS.target_names[Y]
TAGS = np.c_[Y == 0, Y != 1].astype(int)
TARGETS = np.c_[Y, (Y + 1) % 3]
VOTERS = [("a", LogisticRegression(max_iter=500)), ("b", GaussianNB())]
CLASSES = ("label", "probabilities")

KINDS = {
    # classifiers with probabilities
    "tree": (DecisionTreeClassifier(max_depth=3), Y, CLASSES),
    "words": (DecisionTreeClassifier(max_depth=3), NAMES, CLASSES),
    "bools": (GradientBoostingClassifier(n_estimators=3), Y == 1, CLASSES),
    "float-labels": (LogisticRegression(max_iter=500), Y.astype(float), CLASSES),
    "bernoulli": (BernoulliNB(binarize=3.0), Y, CLASSES),
    "network": (MLPClassifier((4,), max_iter=30, random_state=0), Y, CLASSES),
    "svc-probabilities": (CalibratedClassifierCV(LinearSVC(), cv=2), Y, CLASSES),
    "mixture": (GaussianMixture(2, random_state=0), None, CLASSES),
    # decision scores: one column a class; one alone from LinearSVC and RidgeClassifier, as in scikit-learn
    "svc": (SVC(), Y, CLASSES),
    "nu-svc-ovo": (NuSVC(decision_function_shape="ovo"), Y, CLASSES),
    "linear-svc": (LinearSVC(), Y, CLASSES),
    "linear-svc-two": (LinearSVC(), TWO, CLASSES),
    "ridge-two": (RidgeClassifier(), TWO, CLASSES),
    "sgd-two": (SGDClassifier(random_state=0), TWO, CLASSES),
    "perceptron": (Perceptron(random_state=0), NAMES, CLASSES),
    "one-vs-one": (OneVsOneClassifier(LogisticRegression(max_iter=500)), Y, CLASSES),
    # several labels or targets at once
    "tags-neighbors": (KNeighborsClassifier(3), TAGS, CLASSES),
    "tags-one-vs-rest": (OneVsRestClassifier(LogisticRegression(max_iter=500)), TAGS, CLASSES),
    "targets-neighbors": (KNeighborsClassifier(3), TARGETS, CLASSES),
    # meta-estimators
    "grid": (
        GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1, 2]}, cv=2),
        Y,
        CLASSES,
    ),
    "grid-svc": (
        GridSearchCV(make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [1, 2]}, cv=2),
        Y,
        CLASSES,
    ),
    "soft-votes": (VotingClassifier(VOTERS, voting="soft", flatten_transform=False), Y, CLASSES),
    "hard-votes": (
        VotingClassifier(
            [*VOTERS, ("c", DecisionTreeClassifier(max_depth=1))], weights=np.array([2, 1, 1]), flatten_transform=False
        ),
        Y,
        CLASSES,
    ),
    "stacked": (StackingClassifier(VOTERS, cv=2), Y, CLASSES),
    "bagged": (BaggingClassifier(LogisticRegression(max_iter=500), n_estimators=3, random_state=0), Y, CLASSES),
    "boosted": (AdaBoostClassifier(n_estimators=3, random_state=0), Y, CLASSES),
    # regressors
    "extra-trees": (ExtraTreesRegressor(3, max_depth=3, random_state=0), Y, ("variable",)),
    "poisson": (PoissonRegressor(), Y, ("variable",)),
    "bayes": (BayesianRidge(), Y, ("variable",)),
    "gaussian-process": (GaussianProcessRegressor(alpha=0.5), Y, ("GPmean",)),
    "stacked-regressor": (StackingRegressor([("a", Ridge()), ("b", BayesianRidge())], cv=2), Y, ("variable",)),
    "two-targets": (MultiOutputRegressor(Ridge()), TARGETS, ("variable",)),
    # transformers, also at the end of a pipeline
    "pca": (make_pipeline(StandardScaler(), PCA(2)), None, ("variable",)),
    "polynomial": (PolynomialFeatures(), None, ("variable",)),
    "select": (SelectKBest(k=2), Y, ("variable",)),
    "eliminate": (RFE(LogisticRegression(max_iter=500), n_features_to_select=2), Y, ("variable",)),
    "imputer": (SimpleImputer(), None, ("variable",)),
    "union": (make_union(StandardScaler(), PCA(2)), None, ("union",)),
    "weighted-union": (
        FeatureUnion([("a", StandardScaler()), ("b", PCA(2))], transformer_weights={"a": 2.0}),
        None,
        ("union",),
    ),
    "columns": (
        make_column_transformer((StandardScaler(), [0, 1]), ("passthrough", [2]), (MinMaxScaler(), [3])),
        None,
        ("transformed_column",),
    ),
    "passthrough": (Pipeline([("scale", StandardScaler()), ("nothing", "passthrough")]), None, ("variable",)),
    # clusterers, outlier detectors, neighbours
    "clusters": (make_pipeline(StandardScaler(), KMeans(3, n_init=1, random_state=0)), None, ("label", "scores")),
    "mini-batch": (MiniBatchKMeans(3, n_init=1, random_state=0), None, ("label", "scores")),
    "isolation": (IsolationForest(n_estimators=5, random_state=0), None, ("label", "scores")),
    "one-class": (SGDOneClassSVM(random_state=0), None, ("label", "scores")),
    "nearest": (NearestNeighbors(n_neighbors=1, radius=None), None, ("index", "distance")),
}
SEQUENCES = {
    "tags-multi-output": (MultiOutputClassifier(LogisticRegression(max_iter=500)), TAGS),
    "targets-multi-output": (MultiOutputClassifier(LogisticRegression(max_iter=500)), TARGETS),
    "word-targets": (MultiOutputClassifier(LogisticRegression(max_iter=500)), np.c_[NAMES, NAMES[::-1]]),
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("kinds")
    np.savez(folder / "iris.npz", X=X[::3])
    entries = []
    for name, (model, target, *_) in {**KINDS, **SEQUENCES}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            joblib.dump(model.fit(X, target), folder / f"{name}.joblib")
        entries.append(f"  - {{id: {name}, source: {name}.joblib, data: iris.npz}}")
    defaults = (
        "defaults: {batches: [1, 50], tolerance: {rtol: 1e-3, atol: 1e-3}, "
        "inputs: {X: {dtype: float32, shape: [batch, 4]}}}"
    )
    return run_manifest(folder, f"version: 1\n{defaults}\nmodels:\n" + "\n".join(entries), strength=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_estimator_passes_under_its_own_names(kinds, kind):
    """The outputs are those that skl2onnx names, and every row of each was compared."""
    assert kinds[kind].verdict is Status.PASSED, (kinds[kind].error, [check.message for check in kinds[kind].checks])
    assert tuple(dict.fromkeys(check.output for check in kinds[kind].checks)) == KINDS[kind][2]
    assert all(check.total for check in kinds[kind].checks)


@pytest.mark.parametrize("kind", SEQUENCES)
def test_the_probabilities_of_several_targets_are_a_sequence(kinds, kind):
    """A MultiOutputClassifier answers a list of matrices, one a target."""
    assert kinds[kind].verdict is Status.PASSED, (kinds[kind].error, [check.message for check in kinds[kind].checks])
    assert {check.output for check in kinds[kind].checks} == {"label", "probabilities"}
