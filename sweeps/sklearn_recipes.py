"""Recipes for fitting each estimator of scikit-learn: on which data, and with which parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils import all_estimators
from threadpoolctl import threadpool_limits

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "many", "models", "answer")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Rows to fit and to judge on."""

    rows: Any
    """Numbers, texts or labels."""
    target: Any = None
    """The target of a supervised estimator."""

    @property
    def is_float(self) -> bool:
        """Whether the data can be declared in float32 and in float64."""
        return bool(self.rows.dtype.kind == "f")


@cache
def load_data(name: str) -> Data:
    """One of the data sets that come with scikit-learn, or a small one made from them."""
    iris, digits = datasets.load_iris(), datasets.load_digits()
    diabetes, cancer, wine = datasets.load_diabetes(), datasets.load_breast_cancer(), datasets.load_wine()
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random(iris.data.shape) < 0.1, np.nan, iris.data)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(3, 9))) for _ in range(60)]
    made = {
        "iris": (iris.data, iris.target),
        "iris, two targets": (iris.data, np.c_[iris.target == 1, iris.target == 2].astype(int)),
        "iris, kernel": (iris.data @ iris.data.T, iris.target),
        "iris, gaps": (gaps, iris.target),
        "iris, rounded": (np.round(iris.data), iris.target),
        "iris, rounded, two classes": (np.round(iris.data), (iris.target > 0).astype(int)),
        "iris, labels": (iris.target.astype(np.int64), iris.target),
        "diabetes": (diabetes.data, diabetes.target),
        "diabetes, two targets": (diabetes.data, np.c_[diabetes.target, 300 - diabetes.target**0.9]),
        "diabetes, one column": (diabetes.data[:, 2:3], diabetes.target),
        "breast_cancer": (cancer.data, cancer.target),
        "wine": (wine.data, wine.target),
        "digits": (digits.data[:600], digits.target[:600]),
        "digits, images": (digits.images[:60], digits.target[:60]),
        "texts": (np.array(texts, dtype=object), np.arange(60) % 2),
    }
    rows, target = made[name]
    return Data(rows=rows, target=target)


DATA = {
    "breast_cancer": """GenericUnivariateSelect KNeighborsTransformer LinearDiscriminantAnalysis SelectFdr SelectFpr
        SelectFwe SelectKBest SelectPercentile""",
    "iris": """AffinityPropagation BaggingClassifier LabelPropagation LabelSpreading
        MDS NuSVC OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier RFE RFECV RadiusNeighborsClassifier
        LogisticRegressionCV SequentialFeatureSelector SpectralEmbedding TSNE ClassicalMDS NearestNeighbors BernoulliRBM
        HistGradientBoostingClassifier""",
    "iris, two targets": "ClassifierChain MultiOutputClassifier",
    "iris, kernel": "KernelCenterer",
    "iris, gaps": "SimpleImputer KNNImputer MissingIndicator",
    "iris, rounded": "CategoricalNB OneHotEncoder OrdinalEncoder",
    "iris, rounded, two classes": "TargetEncoder",
    "iris, labels": "LabelBinarizer LabelEncoder MultiLabelBinarizer",
    "diabetes": "KBinsDiscretizer PCA KernelPCA",
    "diabetes, two targets": """CCA MultiOutputRegressor MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso
        MultiTaskLassoCV PLSCanonical PLSRegression PLSSVD RegressorChain""",
    "diabetes, one column": "IsotonicRegression",
    "digits": """AdditiveChi2Sampler Binarizer ComplementNB LatentDirichletAllocation MinMaxScaler MultinomialNB
        QuantileTransformer TfidfTransformer VarianceThreshold""",
    "digits, images": "PatchExtractor",
    "texts": "CountVectorizer DictVectorizer FeatureHasher HashingVectorizer TfidfVectorizer",
}
"""Data set → the estimators that need it, instead of the data set for their kind."""
DATA_OF_KIND = {"classifier": "breast_cancer", "regressor": "diabetes", "cluster": "iris"}


def _each(names: str, parts: Callable[[], dict[str, Any]]) -> dict[str, Callable[[], dict[str, Any]]]:
    return dict.fromkeys(names.split(), parts)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    **_each(
        """CalibratedClassifierCV ClassifierChain MultiOutputClassifier OneVsOneClassifier OneVsRestClassifier
        OutputCodeClassifier FixedThresholdClassifier TunedThresholdClassifierCV RFE RFECV SelectFromModel
        SequentialFeatureSelector SelfTrainingClassifier""",
        lambda: {"estimator": _logistic()},
    ),
    **dict.fromkeys(("MultiOutputRegressor", "RegressorChain"), lambda: {"estimator": Ridge()}),
    "StackingClassifier": lambda: {"estimators": _two()},
    "VotingClassifier": lambda: {"estimators": _two(), "voting": "soft", "flatten_transform": False},
    **dict.fromkeys(
        ("StackingRegressor", "VotingRegressor"), lambda: {"estimators": [("a", Ridge()), ("b", Ridge(alpha=9.0))]}
    ),
    "ColumnTransformer": lambda: {
        "transformers": [("a", StandardScaler(), [0, 1, 2]), ("b", MinMaxScaler(), [3, 4])],
        "remainder": "passthrough",
    },
    "FeatureUnion": lambda: {"transformer_list": [("a", StandardScaler()), ("b", MinMaxScaler())]},
    "FrozenEstimator": lambda: {"estimator": _logistic().fit(*_to_fit("Pipeline"))},
    "GridSearchCV": lambda: {"estimator": _logistic(), "param_grid": {"C": [0.1, 1.0]}},
    "RandomizedSearchCV": lambda: {"estimator": _logistic(), "param_distributions": {"C": [0.1, 1.0]}, "n_iter": 2},
    "Pipeline": lambda: {"steps": [("scale", StandardScaler()), ("classify", _logistic())]},
    "LogisticRegressionCV": lambda: {"Cs": 2, "cv": 2},
    "GraphicalLassoCV": lambda: {"alphas": 2, "cv": 2},
    "MeanShift": lambda: {"bandwidth": 2.0},
    "QuadraticDiscriminantAnalysis": lambda: {"reg_param": 0.01},
    "TSNE": lambda: {"max_iter": 250},
    "SparseCoder": lambda: {"dictionary": np.eye(13)[:5]},
    "LocalOutlierFactor": lambda: {"novelty": True},
    # The radius is so large that each row has the same number of neighbours: ONNX Runtime refuses gaps.
    **_each("RadiusNeighborsClassifier RadiusNeighborsRegressor", lambda: {"radius": 100.0}),
    "RadiusNeighborsTransformer": lambda: {"radius": 100.0},
    "NearestNeighbors": lambda: {"radius": None},
    "KBinsDiscretizer": lambda: {"encode": "onehot-dense"},
    "QuantileTransformer": lambda: {"n_quantiles": 20},
    "PatchExtractor": lambda: {"patch_size": (2, 2)},
    "FeatureHasher": lambda: {"input_type": "string"},
    "SelectKBest": lambda: {"k": 5},
    "HashingVectorizer": lambda: {"n_features": 64},
    "SkewedChi2Sampler": lambda: {"n_components": 8},
    "GaussianRandomProjection": lambda: {"n_components": 4},
    "SparseRandomProjection": lambda: {"n_components": 4},
    **_each(
        """DictionaryLearning MiniBatchDictionaryLearning SparsePCA MiniBatchSparsePCA NMF MiniBatchNMF
        LatentDirichletAllocation""",
        lambda: {"n_components": 3, "max_iter": 5},
    ),
    "Nystroem": lambda: {"n_components": 20},
    "RandomTreesEmbedding": lambda: {"n_estimators": 5, "max_depth": 3, "sparse_output": False},
}
SMALLER = {"n_estimators": 20, "max_iter": 200, "n_init": 1}
"""Values for estimators with such an integer parameter: a model need not be well trained to be converted."""


def estimators() -> dict[str, type[BaseEstimator]]:
    """All estimators, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(all_estimators())


def data_of(name: str) -> str:
    """The name of the data set for an estimator."""
    for data, names in DATA.items():
        if name in names.split():
            return data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = {kind: {each for each, _ in all_estimators(type_filter=kind)} for kind in DATA_OF_KIND}
    kind = next((kind for kind, names in kinds.items() if name in names), "")
    if name in ("FixedThresholdClassifier", "FrozenEstimator", "GridSearchCV", "Pipeline", "RandomizedSearchCV"):
        return "breast_cancer"
    return DATA_OF_KIND.get(kind, "wine")


def fit(name: str, kind: type[BaseEstimator]) -> Any:
    """The fitted estimator."""
    # One thread: other processes may need the cores, and small data is not faster with more threads.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        parts = PARTS.get(name, dict)()
        model = kind(**parts)
        if smaller := _smaller(model, parts):
            model.set_params(**smaller)
        return model.fit(*_to_fit(name))


def _smaller(model: Any, parts: dict[str, Any]) -> dict[str, Any]:
    given = model.get_params(deep=False)
    smaller = {key: value for key, value in SMALLER.items() if isinstance(given.get(key), int) and key not in parts}
    return smaller | ({"random_state": 0} if "random_state" in given else {})


def _to_fit(name: str) -> tuple[Any, ...]:
    """Rows and target, in the form that the estimator takes."""
    data = load_data(data_of(name))
    match name:
        case "DictVectorizer":
            return ([{"word": text} for text in data.rows],)
        case "FeatureHasher" | "MultiLabelBinarizer":
            return ([[each] for each in data.rows],)
        case "LabelBinarizer" | "LabelEncoder":
            return (data.rows,)
    return data.rows, data.target


def _two() -> list[tuple[str, LogisticRegression]]:
    return [("a", _logistic()), ("b", LogisticRegression(C=0.01, max_iter=200))]


def _logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=200)
