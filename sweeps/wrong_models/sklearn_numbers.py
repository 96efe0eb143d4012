"""Estimators of scikit-learn on tables of numbers far from N(0, 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from sweeps.wrong_models.edits import (
    change_named,
    move_threshold,
    nodes,
    scale_element,
    scale_leaf,
    scale_one,
    set_attribute,
    swap_leaf_classes,
    turn_missing,
)
from sweeps.wrong_models.entry import Array, Model, Random, entry, floats
from sweeps.wrong_models.tables import classes, people, spending, with_gaps

TABLE = {"X": floats(4)}


def number(random: Random) -> int:
    """A seed for an estimator."""
    return int(random.integers(2**31))


def readings(random: Random, rows: int = 300) -> Array:
    """Four sensors with large means and small deviations: inputs near 0 are far outside after scaling."""
    means = random.uniform(5_000, 100_000, 4)
    return (means + random.normal(0, 1, (rows, 4)) * means / 200).astype(np.float32)


@entry("sklearn", "leaf of a forest")
def forest_leaf(random: Random) -> Model:
    """A forest on incomes; one leaf has another value."""
    table = people(random)
    model = RandomForestRegressor(12, max_depth=6, random_state=number(random)).fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("sklearn", "threshold of a forest")
def forest_threshold(random: Random) -> Model:
    """A classifying forest on incomes with one threshold 25 % too high."""
    table = people(random)
    model = RandomForestClassifier(15, max_depth=6, random_state=number(random)).fit(table, classes(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("sklearn", "leaf of a tree")
def tree_votes(random: Random) -> Model:
    """A single tree; one leaf votes for other classes."""
    table = people(random)
    model = DecisionTreeClassifier(max_depth=7, random_state=number(random)).fit(table, classes(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=swap_leaf_classes)


@entry("sklearn", "leaf of gradient boosting")
def boosting_leaf(random: Random) -> Model:
    """Gradient boosting on incomes with a wrong leaf."""
    table = people(random)
    model = GradientBoostingRegressor(n_estimators=30, random_state=number(random))
    model.fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("sklearn", "threshold of gradient boosting")
def boosting_threshold(random: Random) -> Model:
    """Gradient boosting with two classes and a wrong threshold."""
    table = people(random)
    model = GradientBoostingClassifier(n_estimators=30, random_state=number(random))
    model.fit(table, classes(table, random, 2))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("sklearn", "leaf of a large forest")
def extra_trees_leaf(random: Random) -> Model:
    """One wrong leaf among the many of extra trees."""
    table = people(random, 800)
    model = ExtraTreesRegressor(40, max_depth=8, random_state=number(random)).fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=lambda f, r: scale_leaf(f, r, 5.0))


@entry("sklearn", "direction of missing values")
def histogram_missing(random: Random) -> Model:
    """Histogram boosting fitted with missing values; one node sends them the other way."""
    table = people(random)
    target = spending(table, random)
    gaps = with_gaps(table, random)
    model = HistGradientBoostingRegressor(max_iter=15, random_state=number(random)).fit(gaps, target)
    return Model(source=model, inputs=TABLE, own={"X": gaps}, sabotage=turn_missing)


@entry("sklearn", "threshold of gradient boosting")
def histogram_threshold(random: Random) -> Model:
    """Histogram boosting with a wrong threshold."""
    table = people(random)
    model = HistGradientBoostingClassifier(max_iter=15, random_state=number(random))
    model.fit(table, classes(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move_threshold)


@entry("sklearn", "leaf of a vote's part")
def vote_leaf(random: Random) -> Model:
    """The mean of a forest and of boosting; one leaf is wrong."""
    table = people(random)
    forest = RandomForestRegressor(8, max_depth=5, random_state=number(random))
    boosting = GradientBoostingRegressor(n_estimators=10, random_state=number(random))
    model = VotingRegressor([("forest", forest), ("boosting", boosting)]).fit(table, spending(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("sklearn", "leaf behind a scaler")
def scaled_forest_leaf(random: Random) -> Model:
    """A scaler with large means before a forest with a wrong leaf."""
    table = readings(random)
    forest = RandomForestRegressor(10, max_depth=5, random_state=number(random))
    model = make_pipeline(StandardScaler(), forest).fit(table, spending(table, random))
    # Rows far from every threshold: near one, the rounding of the scaler's large means would decide.
    own = table[_far_from_thresholds(model, table)]
    return Model(source=model, inputs=TABLE, own={"X": own}, sabotage=scale_leaf)


def _far_from_thresholds(model: Any, table: Array) -> Array:
    scaled = model[0].transform(table)
    trees = [tree.tree_ for tree in model[-1].estimators_]
    cuts = [(tree.feature[tree.feature >= 0], tree.threshold[tree.feature >= 0]) for tree in trees]
    near = [np.abs(scaled[:, feature] - threshold).min(axis=1) for feature, threshold in cuts]
    return np.asarray(np.min(near, axis=0) > 1e-3)


@entry("sklearn", "mean of a scaler")
def scaler_mean(random: Random) -> Model:
    """One of the scaler's means is 0.5 % off, one deviation of the column; at 0 the classes are certain."""
    table = readings(random)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, classes(table, random))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_one("Scaler", "offset", 1.005))


@entry("sklearn", "scale of a scaler")
def clipped_scale(random: Random) -> Model:
    """A MinMaxScaler that clips, with another scale in one column: inputs near 0 are all clipped."""
    table = readings(random)
    model = make_pipeline(MinMaxScaler(clip=True), Ridge()).fit(table, spending(table, random))

    def rescale(file: onnx.ModelProto, drawn: Random) -> None:
        place = int(drawn.integers(4))
        for part in ("Mulcst", "Addcst"):
            change_named(file, part, lambda array: array.__setitem__(place, array[place] * np.float32(0.9)))

    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=rescale)


@entry("sklearn", "support vector")
def machine_vector(random: Random) -> Model:
    """A support vector of a classifier behind a RobustScaler has moved."""
    table = readings(random, 120)
    model = make_pipeline(RobustScaler(), SVC(gamma=0.5)).fit(table, classes(table, random))
    sabotage = scale_one("SVMClassifier", "support_vectors", -3.0)
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=sabotage)


@entry("sklearn", "coefficient of a support vector")
def machine_coefficient(random: Random) -> Model:
    """A regressor in which one support vector has another weight."""
    table = readings(random, 150)
    model = make_pipeline(StandardScaler(), SVR(gamma=0.5)).fit(table, spending(table, random))
    sabotage = scale_one("SVMRegressor", "coefficients", -1.0)
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=sabotage)


@entry("sklearn", "kept training point")
def neighbour_target(random: Random) -> Model:
    """A nearest-neighbour regressor; one of its stored points has another target."""
    table = (people(random, 150) / np.float32(1000)).astype(np.float32)
    model = KNeighborsRegressor(3).fit(table, spending(table, random))
    sabotage = scale_element("knny_ArrayFeatureExtractorcst", 2.0)
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=sabotage)


@entry("sklearn", "kept training point")
def neighbour_class(random: Random) -> Model:
    """A nearest-neighbour classifier; one of its stored points has another class."""
    table = (people(random, 150) / np.float32(1000)).astype(np.float32)
    model = KNeighborsClassifier(3).fit(table, classes(table, random))

    def reclass(file: onnx.ModelProto, drawn: Random) -> None:
        def turn(array: Array) -> None:
            place = int(drawn.integers(array.size))
            array.reshape(-1)[place] = (array.reshape(-1)[place] + 1) % 3

        change_named(file, "knny_ArrayFeatureExtractorcst", turn)

    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=reclass)


@entry("sklearn", "mean of a class")
def bayes_mean(random: Random) -> Model:
    """A mean of one class of naive Bayes is off; far from all means, one class is certain."""
    table = (100 + random.normal(0, 2, (240, 4)) + np.repeat([[0], [2], [4]], 80, axis=0)).astype(np.float32)
    model = GaussianNB().fit(table, np.repeat([0, 1, 2], 80))
    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=scale_element("theta", 1.02))


@entry("sklearn", "fill value of an imputer")
def imputer_median(random: Random) -> Model:
    """A missing value is filled with another number."""
    table = people(random)
    target = spending(table, random)
    gaps = with_gaps(table, random)
    model = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), Ridge()).fit(gaps, target)
    sabotage = scale_one("Imputer", "imputed_value_floats", 0.7)
    return Model(source=model, inputs=TABLE, own={"X": gaps}, sabotage=sabotage)


@entry("sklearn", "fill value of an imputer")
def imputer_forest(random: Random) -> Model:
    """Missing values are filled before a forest, with 0 in one column."""
    table = people(random)
    target = classes(table, random)
    gaps = with_gaps(table, random)
    forest = RandomForestClassifier(10, max_depth=5, random_state=number(random))
    model = make_pipeline(SimpleImputer(), forest).fit(gaps, target)
    sabotage = scale_one("Imputer", "imputed_value_floats", 0.0)
    return Model(source=model, inputs=TABLE, own={"X": gaps}, sabotage=sabotage)


@entry("sklearn", "edge of a bin")
def bin_edge(random: Random) -> Model:
    """One edge of the bins of incomes has moved by 15 %."""
    table = people(random)
    bins = KBinsDiscretizer(5, encode="ordinal", quantile_method="averaged_inverted_cdf")
    model = make_pipeline(bins, Ridge()).fit(table, spending(table, random))

    def move(file: onnx.ModelProto, drawn: Random) -> None:
        scale_element(f"range_column{drawn.choice(['', '1', '2', '3'])}", 1.15)(file, drawn)

    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=move)


@entry("sklearn", "threshold of a Binarizer")
def binarizer_threshold(random: Random) -> Model:
    """A flag for incomes above a threshold, which is another one in the file."""
    table = people(random)
    threshold = float(random.integers(40, 80) * 1000)
    model = make_pipeline(Binarizer(threshold=threshold), Ridge()).fit(table, spending(table, random))

    def raise_it(file: onnx.ModelProto, drawn: Random) -> None:
        set_attribute(nodes(file, "Binarizer")[0], "threshold", threshold * drawn.uniform(1.1, 1.3))

    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=raise_it)


@entry("sklearn", "quantile")
def quantile_moved(random: Random) -> Model:
    """A QuantileTransformer with one wrong quantile."""
    table = people(random)[:, :1]
    model = QuantileTransformer(n_quantiles=20).fit(table)

    def move(file: onnx.ModelProto, drawn: Random) -> None:
        place = int(drawn.integers(3, 17))
        change_named(file, "references", lambda array: array.__setitem__(place, array[place] + array.dtype.type(0.02)))

    return Model(source=model, inputs={"X": floats(1)}, own={"X": table}, sabotage=move)


@entry("sklearn", "columns swapped beyond a threshold")
def swapped_columns(random: Random) -> Model:
    """Flags for large values, two of which are swapped in the file: inputs near 0 set none of them."""
    table = people(random)
    flags = [("income", Binarizer(threshold=60_000.0), [0]), ("balance", Binarizer(threshold=110_000.0), [2])]
    flags += [("age", Binarizer(threshold=65.0), [1])]
    model = ColumnTransformer(flags).fit(table)

    def reorder(file: onnx.ModelProto, drawn: Random) -> None:
        names = nodes(file, "Concat")[-1].input
        first, second = (int(place) for place in drawn.choice(3, size=2, replace=False))
        names[first], names[second] = names[second], names[first]

    return Model(source=model, inputs=TABLE, own={"X": table}, sabotage=reorder)
