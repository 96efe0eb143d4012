"""Healthy models that look wrong on inputs near their thresholds, ties, halves and large means."""

from __future__ import annotations

import lightgbm
import numpy as np
import torch
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import NuSVC, OneClassSVM
from torch import Tensor, nn

from sweeps.wrong_models.entry import Model, Random, entry, floats
from sweeps.wrong_models.sklearn_numbers import number, readings
from sweeps.wrong_models.sklearn_words import COUNTED, CUSTOMER, PLAIN_WORDS, TEXT, WEIGHTED, as_feed, customers
from sweeps.wrong_models.tables import classes, people, spending, texts, with_gaps
from sweeps.wrong_models.torch_nets import Encoder, Formula, MaskedEncoder, ids, weights

TABLE = {"X": floats(4)}
MODERATE = 24
"""Number of a model's own rows that are checked; each of them has to be right."""


@entry("sklearn", "thresholds behind a scaler with large means")
def scaler_forest(random: Random) -> Model:
    """The scaler's rounding is larger than the distance from some rows to a threshold."""
    table = readings(random)
    forest = RandomForestClassifier(20, max_depth=7, random_state=number(random))
    source = make_pipeline(StandardScaler(), forest).fit(table, classes(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table.mean(axis=0, keepdims=True)})


@entry("sklearn", "ties of votes")
def even_votes(random: Random) -> Model:
    """An even number of deep trees, so votes are often tied."""
    table = people(random)
    source = RandomForestClassifier(4, random_state=number(random)).fit(table, random.integers(0, 2, len(table)))
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("sklearn", "kept training points")
def neighbours(random: Random) -> Model:
    """Nearest neighbours, with points that all have different distances."""
    table = random.normal(20, 3, (200, 4)).astype(np.float32)
    source = KNeighborsClassifier(5).fit(table, random.integers(0, 3, 200))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "quantiles as edges")
def quantile_bins(random: Random) -> Model:
    """Bins whose edges are values of the data."""
    table = people(random).round(0)
    source = KBinsDiscretizer(10, encode="onehot-dense", quantile_method="averaged_inverted_cdf").fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("sklearn", "cancellation in float32")
def means_of_clusters(random: Random) -> Model:
    """Distances to cluster centres far from 0."""
    table = (people(random) / np.float32(1000)).astype(np.float32)
    # Fitted in float64, because it will run in float64.
    source = make_pipeline(StandardScaler(), KMeans(4, n_init=3, random_state=number(random)))
    source.fit(table.astype(np.float64))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "cancellation in float32")
def bayes(random: Random) -> Model:
    """Naive Bayes on columns of different scales."""
    table = random.normal(30, 4, (300, 4)).astype(np.float32)
    source = GaussianNB().fit(table, classes(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "cancellation in float32")
def kernel_components(random: Random) -> Model:
    """Kernel PCA behind a scaler."""
    table = people(random, 60)
    source = make_pipeline(StandardScaler(), KernelPCA(3, kernel="rbf")).fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "large means")
def components(random: Random) -> Model:
    """PCA of scaled columns."""
    table = people(random)
    source = make_pipeline(StandardScaler(), PCA(3)).fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "missing values")
def histogram_gaps(random: Random) -> Model:
    """Histogram boosting with missing values and classes."""
    table = with_gaps(people(random), random)
    target = classes(people(random), random)
    source = HistGradientBoostingClassifier(max_iter=10, random_state=number(random)).fit(table, target)
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("sklearn", "words in any combination")
def counted_words(random: Random) -> Model:
    """Naive Bayes on word counts."""
    written = texts(random)
    source = make_pipeline(CountVectorizer(), MultinomialNB()).fit(written, random.integers(0, 3, len(written)))
    return Model(source=source, inputs=TEXT, own={"text": written}, convert=COUNTED)


@entry("sklearn", "words in any combination")
def weighted_words(random: Random) -> Model:
    """Weighted words and pairs of words."""
    written = texts(random)
    source = TfidfVectorizer(ngram_range=(1, 2), token_pattern=PLAIN_WORDS).fit(written)
    return Model(source=source, inputs=TEXT, own={"text": written}, convert=WEIGHTED)


@entry("sklearn", "unknown categories")
def customer_table(random: Random) -> Model:
    """A table of numbers and categories, with an imputer and encoders before a logistic regression."""
    table = customers(random)
    target = (table["age"] > 50).to_numpy() ^ (table["plan"] == "plus").to_numpy()
    parts = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["income", "age"]),
        ("words", OneHotEncoder(handle_unknown="ignore", min_frequency=5), ["city", "plan"]),
    ]
    source = make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=300)).fit(table, target)
    return Model(source=source, inputs=CUSTOMER, own=as_feed(table))


@entry("sklearn", "polynomials of large values")
def polynomials(random: Random) -> Model:
    """Squares and products of scaled columns."""
    table = people(random)
    steps = (StandardScaler(), PolynomialFeatures(2), LinearRegression())
    source = make_pipeline(*steps).fit(table, spending(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "powers of large values")
def powers(random: Random) -> Model:
    """A PowerTransformer of moderate values."""
    table = random.lognormal(1, 0.4, (300, 4)).astype(np.float32)
    source = PowerTransformer().fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "scores of outliers")
def outliers(random: Random) -> Model:
    """An isolation forest: scores near the offset decide a label."""
    table = people(random)
    source = IsolationForest(n_estimators=20, random_state=number(random)).fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "scores of outliers")
def one_class(random: Random) -> Model:
    """A support vector machine of one class behind a scaler."""
    table = people(random, 150)
    source = make_pipeline(StandardScaler(), OneClassSVM(nu=0.2)).fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "support vectors of several classes")
def machine(random: Random) -> Model:
    """A classifier with support vectors behind a scaler."""
    table = people(random, 150)
    source = make_pipeline(StandardScaler(), NuSVC(nu=0.3)).fit(table, classes(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "steps of a calibration")
def calibrated(random: Random) -> Model:
    """A forest, calibrated by sigmoids."""
    table = people(random)
    forest = RandomForestClassifier(8, max_depth=4, random_state=number(random))
    source = CalibratedClassifierCV(forest, cv=2).fit(table, classes(table, random, 2))
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("sklearn", "threshold of a column")
def bernoulli(random: Random) -> Model:
    """Naive Bayes on columns that are compared with a number."""
    table = people(random)
    source = BernoulliNB(binarize=50_000.0).fit(table, classes(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("sklearn", "large means")
def discriminant(random: Random) -> Model:
    """A linear discriminant behind a scaler."""
    table = people(random)
    source = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()).fit(table, classes(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "kept training points")
def process(random: Random) -> Model:
    """A Gaussian process behind a scaler."""
    table = people(random, 40)
    kernel = GaussianProcessRegressor(RBF(2.0), optimizer=None, alpha=0.1)
    source = make_pipeline(StandardScaler(), kernel).fit(table, spending(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "neighbours of missing values")
def neighbour_imputer(random: Random) -> Model:
    """Missing values are filled from neighbours."""
    table = with_gaps(random.normal(5, 2, (60, 4)).astype(np.float32), random)
    source = KNNImputer(n_neighbors=2).fit(table)
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "stumps with equal votes")
def stumps(random: Random) -> Model:
    """Boosted stumps."""
    table = people(random)
    source = AdaBoostClassifier(n_estimators=10, random_state=number(random)).fit(table, classes(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table[:MODERATE]})


@entry("sklearn", "leaves far apart")
def heavy_leaves(random: Random) -> Model:
    """A forest with leaves of different magnitudes: a row on the wrong side of a threshold would be far off."""
    table = people(random)
    source = RandomForestRegressor(10, random_state=number(random)).fit(table, np.exp(spending(table, random)))
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("lightgbm", "zeros and missing values")
def lightgbm_sparse(random: Random) -> Model:
    """Many zeros, for which LightGBM has its own rule."""
    table = np.where(random.random((400, 4)) < 0.4, 0, people(random)).astype(np.float32)
    source = lightgbm.LGBMRegressor(n_estimators=15, verbosity=-1, n_jobs=1).fit(table, table.sum(axis=1) / 1e5)
    return Model(source=source, inputs=TABLE, own={"X": table})


@entry("xgboost", "many classes")
def xgboost_classes(random: Random) -> Model:
    """Six classes with missing values."""
    table = people(random)
    target = classes(table, random, 6)
    gaps = with_gaps(table, random)
    source = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(gaps, target)
    return Model(source=source, inputs=TABLE, own={"X": gaps})


@entry("torch", "layer normalisation of large values")
def large_norm(random: Random) -> Model:
    """Rows of large values; each row is normalised."""
    weights(random)
    source = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))
    return Model(source=source, inputs={"input": floats(4)}, own={"input": people(random)[:MODERATE]})


@entry("torch", "halves")
def rounded(random: Random) -> Model:
    """Both sides round halves to even numbers."""
    weights(random)
    own = (random.integers(-9, 9, (MODERATE, 4)) + 0.5).astype(np.float32)
    return Model(source=Formula(lambda x: torch.round(x) * 0.1), inputs={"x": floats(4)}, own={"x": own})


class Best(nn.Module):
    """The best score, and its class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(4, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The value and the index of the best score."""
        scores = self.head(torch.relu(x))
        return scores.max(dim=1).values, scores.argmax(dim=1)


@entry("torch", "ties of scores")
def best_of(random: Random) -> Model:
    """Two classes have the same weights, and so the same scores."""
    weights(random)
    source = Best(5)
    with torch.no_grad():
        source.head.weight[3], source.head.bias[3] = source.head.weight[1], source.head.bias[1]
    own = random.normal(0, 1, (MODERATE, 4)).astype(np.float32)
    return Model(source=source, inputs={"x": floats(4)}, own={"x": own})


@entry("torch", "comparison with a constant")
def jump(random: Random) -> Model:
    """A jump of 1,000 at a threshold behind a division by 3."""
    weights(random)
    source = Formula(lambda x: torch.where(x / 3.0 > 33.3, x * 0 + 1000.0, torch.tanh(x)))
    own = random.uniform(0, 95, (MODERATE, 4)).astype(np.float32)
    return Model(source=source, inputs={"x": floats(4)}, own={"x": own})


@entry("torch", "padding and positions")
def padded(random: Random) -> Model:
    """Tokens with positions."""
    weights(random)
    own = random.integers(0, 80, (MODERATE, 12))
    return Model(source=Encoder(80, 40), inputs={"tokens": ids()}, own={"tokens": own}, dims={"seq": [4, 12]})


@entry("torch", "mask")
def masked(random: Random) -> Model:
    """A boolean mask; a whole row may be masked."""
    weights(random)
    tokens, mask = random.integers(0, 80, (MODERATE, 12)), random.random((MODERATE, 12)) < 0.7
    return Model(
        source=MaskedEncoder(80, 40),
        inputs={"tokens": ids(), "mask": ids("bool")},
        own={"tokens": tokens, "mask": mask},
        dims={"seq": [4, 12]},
    )


@entry("torch", "remainder of negative ids")
def buckets_of_ids(random: Random) -> Model:
    """Any id, also negative or large, in a small table."""
    weights(random)

    class Buckets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(17, 4)

        def forward(self, key: Tensor) -> Tensor:
            return self.table(key % 17)  # type: ignore[no-any-return]

    own = random.integers(-(2**40), 2**40, MODERATE)
    schema = {"key": {"dtype": "int64", "shape": ["batch"]}}
    return Model(source=Buckets(), inputs=schema, own={"key": own})
