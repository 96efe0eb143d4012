"""What a fitted estimator knows of its inputs, in the values that are fed: real models, and facts of their records."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier, RegressorChain
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onnx_gate.frameworks.sklearn.domain.walk import input_domain
from onnx_gate.frameworks.sklearn.inputs import rows_of
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import MOST_BOXES, Box, Domains, Values
from onnx_gate.vocabulary import Origin

pytestmark = pytest.mark.models

Array = npt.NDArray[Any]
ROWS = np.random.default_rng(3)
COUNT = 400
INCOME, AGE = ROWS.normal(52_000, 18_000, COUNT), ROWS.integers(18, 90, COUNT).astype(float)
CITY, WORDS = ROWS.choice(["Oslo", "Paris", "Rome"], COUNT), ROWS.choice(["good thing", "bad thing", "ugly"], COUNT)
X = np.c_[INCOME, AGE]
HOLES = np.where(ROWS.random(X.shape) < 0.2, np.nan, X)
HOLES[INCOME > 70_000, 1] = np.nan
TABLE = pd.DataFrame({"income": INCOME, "age": AGE, "city": CITY, "words": WORDS})
Y = ((INCOME > 51_000) ^ (CITY == "Rome") ^ (AGE > 60)).astype(int)


def an_input(name: str, dtype: str = "float32", width: int = 1) -> InputSpec:
    """One of the schema."""
    return InputSpec(name=name, dtype=dtype, shape=("batch", width))


def spec_of(*inputs: InputSpec) -> ModelSpec:
    """A model of these inputs; one block of two columns unless given."""
    return ModelSpec(
        id="m",
        line=1,
        framework="sklearn",
        folder="/",
        source=Location(),
        inputs=inputs or (an_input("X", width=2),),
    )


IN_COLUMNS = spec_of(
    *(an_input(name) for name in ("income", "age")), *(an_input(n, "string") for n in ("city", "words"))
)


def asked(model: Any, *inputs: InputSpec) -> Domains:
    """What the model says, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return input_domain(model, spec_of(*inputs), {})


def known(model: Any, column: int = 0) -> Values:
    """Of one column of the only block."""
    return asked(model).inputs["X"].columns[column]


def cuts(values: Values) -> list[float]:
    """Where the cuts are."""
    return [cut.at for cut in values.cuts]


def middle(box: Box, spec: ModelSpec) -> dict[str, Array]:
    """A feed of one row in the middle of a box; other columns are ordinary."""
    ordinary: dict[str, Any] = {"income": 52_000.0, "age": 50.0, "city": "Oslo", "words": "good", "X": 3e4}
    feed: dict[str, Array] = {}
    for given in spec.inputs or ():
        width = given.shape[-1]
        assert isinstance(width, int)
        row = [ordinary.get(given.name, 0.0)] * width
        for (name, number), (low, high) in box.items():
            if name == given.name:
                row[number] = low if isinstance(low, str) or isinstance(high, str) else (float(low) + float(high)) / 2  # type: ignore[arg-type]
        feed[given.name] = np.array([row], dtype=object if given.dtype == "string" else given.dtype)
    return feed


def leaves_reached(model: Any, tree: Any, spec: ModelSpec, boxes: tuple[Box, ...], before: Any = None) -> set[int]:
    """The leaves that the middles of all boxes reach, by the tree's own account."""
    rows = [rows_of(model, spec, middle(box, spec)) for box in boxes]
    return {int(tree.apply(before.transform(row) if before is not None else row)[0]) for row in rows}


# trees


def test_each_box_reaches_its_leaf_behind_a_scaler() -> None:
    """In the values that are fed: the scaler is undone, in boxes and in cuts."""
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=6, random_state=0)).fit(X, Y)
    found = asked(model)
    tree = model[-1].tree_
    leaves = set(np.flatnonzero(tree.children_left < 0).tolist())
    assert leaves_reached(model, model[-1], spec_of(), found.boxes, model[0]) == leaves
    assert len(found.boxes) == len(leaves)
    assert found.origins == (Origin.LEAVES,)
    inner = tree.children_left >= 0
    for number in (0, 1):
        scaled = np.unique(tree.threshold[inner & (tree.feature == number)])
        raw = scaled * model[0].scale_[number] + model[0].mean_[number]
        np.testing.assert_allclose(cuts(found.inputs["X"].columns[number]), raw, rtol=1e-9)
        assert all(cut.reach >= model[0].mean_[number] * 0.999 for cut in found.inputs["X"].columns[number].cuts)


def test_each_box_reaches_its_leaf_through_columns_of_all_kinds() -> None:
    """By name, through imputers, scalers and encoders: a way that asks for a category names one."""
    numbers = make_pipeline(SimpleImputer(), RobustScaler())
    first = ColumnTransformer(
        [("cat", OneHotEncoder(handle_unknown="ignore"), ["city"]), ("num", numbers, ["age", "income"])]
    )
    model = make_pipeline(first, DecisionTreeClassifier(max_depth=6, random_state=0)).fit(TABLE, Y)
    found = input_domain(model, IN_COLUMNS, {})
    leaves = set(np.flatnonzero(model[-1].tree_.children_left < 0).tolist())
    assert leaves_reached(model, model[-1], IN_COLUMNS, found.boxes, model[0]) == leaves
    assert {box["city", 0][0] for box in found.boxes if ("city", 0) in box} == {"Oslo", "Paris", "Rome"}
    assert found.inputs["city"].columns[0].choices == ("Oslo", "Paris", "Rome")
    assert found.inputs["income"].columns[0].missing
    assert "words" not in found.inputs


def test_a_code_goes_back_to_its_category() -> None:
    """Between 0.5 and 1.5 lies the second category of an OrdinalEncoder."""
    model = make_pipeline(OrdinalEncoder(), DecisionTreeClassifier(random_state=0)).fit(CITY[:, None], CITY == "Paris")
    found = asked(model, an_input("city", "string"))
    assert {box["city", 0][0] for box in found.boxes} == {"Oslo", "Paris", "Rome"}
    assert found.inputs["city"].columns[0].unusual == ()


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(5, max_depth=3),
        ExtraTreesRegressor(5, max_depth=3),
        GradientBoostingClassifier(n_estimators=3),
        AdaBoostClassifier(n_estimators=3),
        IsolationForest(n_estimators=5, max_samples=16),
        BaggingClassifier(n_estimators=8, max_features=1, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        MultiOutputClassifier(DecisionTreeClassifier(max_depth=2)),
        VotingClassifier([("a", DecisionTreeClassifier(max_depth=2)), ("b", GaussianNB())]),
        StackingClassifier([("a", DecisionTreeClassifier(max_depth=2))], LogisticRegression(), cv=2),
        CalibratedClassifierCV(DecisionTreeClassifier(max_depth=2), cv=2),
        GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2]}, cv=2),
        TransformedTargetRegressor(DecisionTreeRegressor(max_depth=2), transformer=StandardScaler()),
        RegressorChain(DecisionTreeRegressor(max_depth=2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ensembles_and_wrappers_of_trees(model: Any) -> None:
    """Their thresholds are known in the values that are fed, and each is finite in every box."""
    target = np.c_[Y, 1 - Y] if "MultiOutput" in type(model).__name__ or "Chain" in type(model).__name__ else Y
    found = asked(model.fit(X, target))
    at = [cut for values in found.inputs["X"].columns.values() for cut in cuts(values)]
    assert len(at) > 1 and min(at) > -50_000 and max(at) > 18
    assert found.boxes and np.isfinite([end for box in found.boxes for ends in box.values() for end in ends]).all()  # type: ignore[arg-type]
    assert Origin.THRESHOLDS in found.inputs["X"].columns[0].origins


def test_columns_of_members_that_see_some_of_them() -> None:
    """Each member of a bag has columns of its own."""
    model = BaggingClassifier(DecisionTreeClassifier(max_depth=2), 6, max_features=1, random_state=0).fit(X, Y)
    found = asked(model).inputs["X"].columns
    for number in (0, 1):
        members = zip(model.estimators_, model.estimators_features_, strict=True)
        trees = [member.tree_ for member, features in members if features.tolist() == [number]]
        expected = np.unique(np.concatenate([tree.threshold[tree.children_left >= 0] for tree in trees]))
        np.testing.assert_allclose(cuts(found[number]), expected)


def test_missing_values_that_a_tree_has_learnt() -> None:
    """A tree that saw none has only a fallback, which is no knowledge; histograms always have an answer."""
    tree = DecisionTreeClassifier(max_depth=5, random_state=0)
    assert not known(tree.fit(X, Y), 1).missing
    assert known(tree.fit(HOLES, INCOME > 70_000), 1).missing
    assert known(HistGradientBoostingClassifier(max_iter=3).fit(X, Y)).missing
    behind = make_pipeline(SimpleImputer(), HistGradientBoostingClassifier(max_iter=3)).fit(HOLES, Y)
    assert known(behind).missing
    assert known(behind).origins[0] is Origin.MISSING


def test_categories_of_histogram_trees() -> None:
    """As numbers, and as text that they encode themselves; their boxes name a category."""
    codes = np.c_[ROWS.integers(0, 6, COUNT) * 10, AGE]
    target = np.isin(codes[:, 0], [10, 40])
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=[0]).fit(codes, target)
    found = asked(model)
    assert set(found.inputs["X"].columns[0].choices) <= {0.0, 10.0, 20.0, 30.0, 40.0, 50.0}
    assert {10.0, 40.0} <= set(found.inputs["X"].columns[0].choices)
    values = {box["X", 0] for box in found.boxes if ("X", 0) in box}
    assert values and all(low == high and low in (0, 10, 20, 30, 40, 50) for low, high in values)


def test_whole_numbers_lie_between_cuts() -> None:
    """An integer input is parted at a half, however the tree compares."""
    whole = ROWS.integers(0, 20, (COUNT, 1))
    found = asked(DecisionTreeClassifier().fit(whole, whole[:, 0] % 3 == 0), an_input("n", "int64"))
    assert all(at % 1 == 0.5 for at in cuts(found.inputs["n"].columns[0]))
    assert all(np.floor(high) > low for low, high in (box["n", 0] for box in found.boxes))  # type: ignore[arg-type]


# statistics and ranges


@pytest.mark.parametrize(
    ("model", "centre", "spread"),
    [
        (StandardScaler(), INCOME.mean(), INCOME.std()),
        (StandardScaler(with_std=False), INCOME.mean(), 0.2 * INCOME.mean()),
        (make_pipeline(SimpleImputer(), StandardScaler(), Ridge()), INCOME.mean(), INCOME.std()),
        (RobustScaler(), np.median(INCOME), INCOME.std()),
        (PCA(2), INCOME.mean(), INCOME.std()),
        (make_pipeline(PCA(1), LogisticRegression()), INCOME.mean(), INCOME.std()),
        (GaussianNB(), INCOME.mean(), INCOME.std()),
        (GaussianMixture(2), INCOME.mean(), INCOME.std()),
        (LinearDiscriminantAnalysis(store_covariance=True), INCOME.mean(), INCOME.std()),
        (KNeighborsClassifier(), INCOME.mean(), INCOME.std()),
        (make_pipeline(MinMaxScaler(), SVC()), INCOME.mean(), INCOME.std()),
        (make_pipeline(MinMaxScaler(), GaussianProcessRegressor()), INCOME.mean(), INCOME.std()),
        (make_pipeline(StandardScaler(), FunctionTransformer(), KMeans(3)), INCOME.mean(), INCOME.std()),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_ordinary_values_are_those_of_training(model: Any, centre: float, spread: float) -> None:
    """Also behind other steps; within 15 %, for centres and support vectors are no fair sample."""
    values = known(model.fit(X, Y))
    assert values.centre == pytest.approx(centre, rel=0.15)
    assert values.spread == pytest.approx(spread, rel=0.15)
    assert Origin.STATISTICS in values.origins


@pytest.mark.parametrize(
    "model",
    [
        MinMaxScaler(),
        QuantileTransformer(n_quantiles=50),
        KBinsDiscretizer(4),
        SplineTransformer(),
        make_pipeline(SimpleImputer(), MinMaxScaler()),
        make_pipeline(StandardScaler(), MinMaxScaler()),
        make_union(MinMaxScaler(), PCA(1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ranges_are_those_of_training(model: Any) -> None:
    """The smallest and the largest value."""
    values = known(model.fit(X))
    assert [values.low, values.high] == [pytest.approx(INCOME.min()), pytest.approx(INCOME.max())]
    assert Origin.RANGES in values.origins


def test_other_ranges() -> None:
    """Symmetric ones, and what leads back from a normal distribution."""
    assert known(MaxAbsScaler().fit(X)).high == pytest.approx(np.abs(INCOME).max())
    power = known(PowerTransformer().fit(X))
    assert power.low == pytest.approx(np.quantile(INCOME, 0.023), rel=0.3, abs=4_000)
    assert power.high == pytest.approx(np.quantile(INCOME, 0.977), rel=0.3)
    counted = known(MultinomialNB().fit(np.abs(X), Y))
    assert counted.low == 0 and counted.high is not None and counted.high > 50_000


def test_edges_are_cuts() -> None:
    """Of bins, of splines and of steps that the user asked for."""
    bins = KBinsDiscretizer(5, encode="ordinal").fit(X)
    np.testing.assert_allclose(cuts(known(bins)), bins.bin_edges_[0][1:-1])
    assert cuts(known(Binarizer(threshold=40_000.0).fit(X))) == [40_000.0]
    assert cuts(known(BernoulliNB(binarize=45.0).fit(X, Y), 1)) == [45.0]
    scaled = make_pipeline(StandardScaler(), KBinsDiscretizer(5, encode="ordinal")).fit(X)
    np.testing.assert_allclose(cuts(known(scaled)), bins.bin_edges_[0][1:-1])
    spline = known(SplineTransformer(n_knots=4).fit(X))
    np.testing.assert_allclose(cuts(spline), np.linspace(INCOME.min(), INCOME.max(), 4))


def test_repeated_quantiles_are_cuts() -> None:
    """There the answer jumps."""
    rows = np.c_[np.where(INCOME < 50_000, 0.0, INCOME), AGE]
    assert 0.0 in cuts(known(QuantileTransformer(n_quantiles=100).fit(rows)))


def test_isotonic_thresholds() -> None:
    """A regression of one column."""
    found = asked(IsotonicRegression().fit(AGE, INCOME), an_input("age")).inputs["age"].columns[0]
    assert (found.low, found.high) == (AGE.min(), AGE.max())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (FunctionTransformer(np.log1p), [29.5]),
        (FunctionTransformer(np.log1p, np.expm1), [29.5]),
        (FunctionTransformer(np.negative), [29.5]),
        (FunctionTransformer(lambda rows: 3.0 - np.sqrt(rows)), [29.5]),
        (PowerTransformer(), [29.5]),
        # It jumps at each value that repeats.
        (QuantileTransformer(n_quantiles=400, subsample=None), [29.0]),
        (make_pipeline(MaxAbsScaler(), StandardScaler(), MinMaxScaler((2, 3))), [29.5]),
        (KBinsDiscretizer([2, 10], encode="ordinal", strategy="uniform"), None),
        (PCA(2), []),
    ],
    ids=lambda value: "",
)
def test_thresholds_go_back_through_functions(change: Any, expected: list[float] | None) -> None:
    """With an inverse, or without; what mixes columns is left out."""
    rows = np.c_[np.abs(INCOME), AGE]
    model = make_pipeline(change, DecisionTreeClassifier(max_depth=1)).fit(rows, AGE < 29.5)
    columns = asked(model).inputs.get("X")
    values = columns.columns.get(1) if columns else None
    if expected is None:
        edges = model[0].bin_edges_[1]
        assert values and cuts(values) == [pytest.approx(edge) for edge in edges[1:-1]]
    else:
        assert [at for at in (cuts(values) if values else []) if 29 <= at < 30] == [
            pytest.approx(at, abs=0.5) for at in expected
        ]


# points


@pytest.mark.parametrize(
    ("model", "points"),
    [
        (KMeans(4, random_state=0), lambda model: model.cluster_centers_),
        (SVC(), lambda model: model.support_vectors_),
        (KNeighborsClassifier(), lambda model: X),
        (NearestCentroid(), lambda model: model.centroids_),
        (GaussianNB(), lambda model: model.theta_),
        (GaussianMixture(3), lambda model: model.means_),
        (LinearDiscriminantAnalysis(), lambda model: model.means_),
        (KNNImputer(), lambda model: X),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
@pytest.mark.parametrize("scaled", [False, True])
def test_a_box_beside_each_point(model: Any, points: Any, scaled: bool) -> None:
    """Each is small, and near to its point in the values that are fed; not on it, where distances are all rounding."""
    whole = make_pipeline(StandardScaler(), model) if scaled else model
    whole.fit(X, Y)
    found = asked(whole)
    kept = points(model) if not scaled or points(model) is X else whole[0].inverse_transform(points(model))
    assert found.origins == (Origin.POINTS,)
    assert len(found.boxes) == len(kept)
    for box, point in zip(found.boxes, kept, strict=True):
        low, high = box["X", 0]
        assert isinstance(low, float) and isinstance(high, float)
        assert 0 < high - low < 0.5 * INCOME.std()
        assert 0 < min(abs(low - point[0]), abs(high - point[0])) < 0.5 * INCOME.std()
        assert not low <= point[0] <= high


# categories, text and missing values


@pytest.mark.parametrize(
    ("encoder", "unknown"),
    [
        (OneHotEncoder(handle_unknown="ignore"), True),
        (OneHotEncoder(), False),
        (OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2), True),
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), True),
        (OrdinalEncoder(), False),
        (TargetEncoder(cv=2), True),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else str(value),
)
def test_each_category_and_an_unknown_one(encoder: Any, unknown: bool) -> None:
    """An unknown one where there is an answer for it."""
    texts = asked(encoder.fit(CITY[:, None], Y), an_input("city", "string")).inputs["city"].columns[0]
    assert texts.choices == ("Oslo", "Paris", "Rome")
    assert bool(texts.unusual) is unknown and not set(texts.unusual) & set(texts.choices)
    numbers = asked(encoder.fit(AGE[:, None] // 10, Y), an_input("decade", "int64")).inputs["decade"].columns[0]
    assert numbers.choices == tuple(range(1, 9))
    assert numbers.unusual == ((9,) if unknown else ())
    assert numbers.origins == (Origin.CATEGORIES,)


def test_other_categories() -> None:
    """Labels, and the numbers that a naive Bayes has counted."""
    labels = asked(LabelEncoder().fit(CITY), InputSpec(name="city", dtype="string", shape=("batch",)))
    assert labels.inputs["city"].columns[0].choices == ("Oslo", "Paris", "Rome")
    bayes = known(CategoricalNB().fit(np.c_[AGE // 10, AGE > 50], Y))
    assert bayes.choices == tuple(range(9))


@pytest.mark.parametrize("kind", [CountVectorizer, TfidfVectorizer])
def test_every_word_of_a_vocabulary(kind: Any) -> None:
    """Alone and together, and with words that it doesn't know."""
    model = make_pipeline(kind(), LogisticRegression()).fit(WORDS, Y)
    values = asked(model, an_input("words", "string")).inputs["words"].columns[0]
    texts = [str(text) for text in values.choices]
    assert {"good", "thing", "bad", "ugly"} <= set(texts)
    analyze = model[0].build_analyzer()
    assert any({"good", "thing", "bad", "ugly"} <= set(analyze(text)) for text in texts)
    unknown = [[word for word in analyze(text) if word not in model[0].vocabulary_] for text in texts]
    assert any(words and len(words) < len(analyze(text)) for words, text in zip(unknown, texts, strict=True))
    assert values.unusual and values.origins == (Origin.VOCABULARY,)


def test_a_vocabulary_that_is_too_large_is_sampled() -> None:
    """And one that is hashed has plain words."""
    words = ["".join(letters) for letters in itertools.product("abcdefgh", repeat=4)]
    many = asked(CountVectorizer().fit([" ".join(words)]), an_input("words", "string")).inputs["words"].columns[0]
    assert 200 < len(many.choices) < 600
    hashed = asked(HashingVectorizer().fit(WORDS), an_input("words", "string")).inputs["words"].columns[0]
    assert len(hashed.choices) > 10


def test_missing_values() -> None:
    """NaN, a text or a number, whatever stands for them."""
    assert known(make_pipeline(SimpleImputer(), Ridge()).fit(HOLES, Y), 1).missing
    assert known(KNNImputer().fit(HOLES), 1).missing
    texts = np.where(CITY == "Rome", "?", CITY)[:, None].astype(object)
    filled = make_pipeline(SimpleImputer(missing_values="?", strategy="most_frequent"), OneHotEncoder()).fit(texts)
    values = asked(filled, an_input("city", "string")).inputs["city"].columns[0]
    assert (values.missing_text, values.choices) == ("?", ("Oslo", "Paris"))
    zeros = SimpleImputer(missing_values=0, strategy="median").fit(X)
    assert known(zeros).marks == (0.0,) and not known(zeros).missing
    whole = asked(SimpleImputer().fit(X), an_input("X", "int64", 2))
    assert whole.inputs == {}


# structures


@pytest.mark.parametrize(
    "columns",
    [[1], ["age"], slice(1, 2), [False, True, False, False], make_column_selector("age"), lambda table: ["age"]],
    ids=["index", "name", "slice", "mask", "selector", "callable"],
)
def test_columns_however_they_are_chosen(columns: Any) -> None:
    """The scaler sees the age alone, and nobody sees the words."""
    first = ColumnTransformer([("a", StandardScaler(), columns), ("b", "passthrough", [0]), ("c", "drop", [2])])
    model = make_pipeline(first, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(TABLE, Y)
    found = input_domain(model, IN_COLUMNS, {})
    assert set(found.inputs) == {"income", "age"}
    age = found.inputs["age"].columns[0]
    assert age.centre == pytest.approx(AGE.mean()) and all(18 < at < 90 for at in cuts(age))
    assert all(at > 1_000 for at in cuts(found.inputs["income"].columns[0]))


def test_blocks_take_the_names_at_their_place() -> None:
    """Two columns of one input, one of another, in the order of the table."""
    first = ColumnTransformer([("a", MinMaxScaler(), ["age"]), ("c", OneHotEncoder(), ["city"])], remainder="drop")
    model = make_pipeline(first, LogisticRegression()).fit(TABLE[["income", "age", "city"]], Y)
    found = asked(model, an_input("numbers", width=2), an_input("city", "string"))
    assert found.inputs["numbers"].columns.keys() == {1}
    assert found.inputs["numbers"].columns[1].high == AGE.max()
    assert found.inputs["city"].columns[0].choices == ("Oslo", "Paris", "Rome")


def test_inputs_in_another_order_than_the_table() -> None:
    """Columns go by their names."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(TABLE[["income", "age"]], Y)
    found = asked(model, an_input("age"), an_input("income"))
    assert found.inputs["age"].columns[0].centre == pytest.approx(AGE.mean())


def test_a_remainder_and_nested_pipelines() -> None:
    """What isn't named goes to the remainder's step."""
    inner = ColumnTransformer([("log", FunctionTransformer(np.log1p), ["age"])], remainder=StandardScaler())
    outer = ColumnTransformer([("all", make_pipeline(SimpleImputer().set_output(transform="pandas"), inner), [0, 1])])
    model = make_pipeline(outer, DecisionTreeClassifier(max_depth=4, random_state=0)).fit(TABLE, Y)
    found = input_domain(model, IN_COLUMNS, {})
    leaves = set(np.flatnonzero(model[-1].tree_.children_left < 0).tolist())
    assert leaves_reached(model, model[-1], IN_COLUMNS, found.boxes, model[0]) == leaves
    assert found.inputs["age"].columns[0].missing


def test_a_union_and_selectors() -> None:
    """Columns of a union lie side by side; a selector picks some of them."""
    union = FeatureUnion(
        [
            ("poly", PolynomialFeatures(2, interaction_only=True, include_bias=False)),
            ("scaled", StandardScaler()),
            ("none", "drop"),
        ]
    )
    model = make_pipeline(union, SelectKBest(k=4), DecisionTreeClassifier(max_depth=2)).fit(X, AGE > 60)
    assert 60.5 in [pytest.approx(at) for at in cuts(known(model, 1))]
    picked = RFE(DecisionTreeClassifier(max_depth=2), n_features_to_select=1).fit(X, AGE > 60)
    assert set(asked(picked).inputs["X"].columns) == {1}


def test_what_keeps_nothing_says_nothing() -> None:
    """The values of training can't be read from ordinary coefficients, nor from those of products of columns."""
    scaled = X / X.std(axis=0)
    assert asked(LinearRegression().fit(scaled, scaled @ [3.0, 2.0])) == Domains()
    assert asked(make_pipeline(PolynomialFeatures(), Ridge()).fit(X / X.std(axis=0), Y)) == Domains()


class Odd(StandardScaler):
    """Has attributes of names that are known, and of values that aren't."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Odd:
        """As ever, with nonsense beside it."""
        super().fit(X, y)
        self.categories_, self.bin_edges_, self.quantiles_ = [1], "text", np.zeros(3)
        self.cluster_centers_, self.vocabulary_, self.estimators_ = object(), 7, 5
        return self


def test_one_odd_part_leaves_the_others() -> None:
    """What fails is left out."""
    model = make_union(Odd(), KBinsDiscretizer(3), StandardScaler()).fit(X)
    values = known(model)
    assert values.centre == pytest.approx(INCOME.mean())
    assert len(values.cuts) == 2


# what it is for


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)),
        make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), KNeighborsClassifier()),
        HistGradientBoostingClassifier(max_iter=20),
        make_pipeline(PowerTransformer(), SVC()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_source_answers_rows_of_every_box(model: Any) -> None:
    """Drawn at random between the ends; boxes are at most so many, and the same each time."""
    rows = np.c_[np.abs(INCOME), AGE]
    found = asked(model.fit(rows, Y))
    assert found == asked(model)
    assert 20 < len(found.boxes) <= MOST_BOXES
    rng = np.random.default_rng(0)
    drawn = np.array(
        [[rng.uniform(*box.get(("X", number), (20.0, 30.0))) for number in (0, 1)] for box in found.boxes]  # type: ignore[arg-type]
    )
    assert np.isfinite(drawn).all()
    assert len(model.predict(drawn)) == len(found.boxes)


# weights


def test_a_small_coefficient_asks_for_large_values() -> None:
    """At values of 1 it could be anything; a column with an ordinary coefficient, or a scaler, needs nothing."""
    model = LinearRegression().fit(np.c_[INCOME, AGE / 100], 5 + INCOME / 1e5 + AGE / 50)
    found = known(model)
    assert found.origins == (Origin.WEIGHTS,)
    assert (found.centre, found.spread) == (0.0, pytest.approx(abs(model.intercept_ / model.coef_[0])))
    assert list(asked(model).inputs["X"].columns) == [0]
    scaled = make_pipeline(StandardScaler(), Ridge()).fit(X, INCOME / 1e5)
    assert known(scaled).origins == (Origin.STATISTICS,)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_networks_first_layer_says_how_large_its_columns_are() -> None:
    """Its weights stand column by column, not row by row; what training left of none says nothing."""
    model = MLPRegressor(hidden_layer_sizes=(3,), max_iter=1).fit(X, Y)
    model.coefs_[0][:] = [[2e-6, 1e-6, 0.0], [0.5, 0.25, 0.1]]
    model.intercepts_[0][:] = 4.0
    assert (known(model).centre, known(model).spread) == (0.0, pytest.approx(2e6))
    assert list(asked(model).inputs["X"].columns) == [0]
    model.coefs_[0][0] = 1e-12
    assert not asked(model).inputs


# columns that are mixed


def reached(model: Any, found: Domains) -> float:
    """The share of leaves of all trees that the exact rows reach."""
    rows = np.array([[float(box["X", number][0] or 0) for number in (0, 1)] for box in found.boxes if len(box) == 2])
    leaves = model[-1].apply(model[:-1].transform(rows.astype(np.float32)))
    every = sum(each.tree_.n_leaves for each in model[-1].estimators_)
    return sum(len(np.unique(of_one)) for of_one in leaves.T) / every


@pytest.mark.parametrize(
    "steps", [(PCA(2),), (StandardScaler(), PCA(2)), (PCA(2), StandardScaler())], ids=["alone", "scaled", "whitened"]
)
def test_leaves_behind_components_are_reached(steps: Any) -> None:
    """The steps are undone together, though none of their columns is a function of one input."""
    model = make_pipeline(*steps, ExtraTreesRegressor(5, max_depth=5, random_state=0)).fit(X, INCOME / 1e4 + AGE)
    found = asked(model)
    assert Origin.LEAVES in found.origins
    assert reached(model, found) > 0.95


def test_leaves_behind_polynomials_are_reached_by_samples() -> None:
    """Products can't be undone: of many rows those are kept that reach a leaf of their own, scaled before or not."""
    for steps in ((StandardScaler(),), ()):
        model = make_pipeline(
            *steps, PolynomialFeatures(2, include_bias=False), ExtraTreesRegressor(5, max_depth=5, random_state=0)
        ).fit(X, INCOME * AGE / 1e5)
        assert reached(model, asked(model)) > 0.8
