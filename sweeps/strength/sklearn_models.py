"""Healthy models of scikit-learn, each with rows that it has not seen."""

from __future__ import annotations

from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sweeps.strength.tables import Split, people, rows, rows_with_gaps, sentences
from sweeps.wrong_models.entry import Entry, Model, Random, column, floats
from sweeps.wrong_models.sklearn_words import COUNTED, TEXT, WEIGHTED

NUMBERS = ("bmi", "bp", "s1", "s3", "s5", "s6")
PEOPLE = {**{name: column("float32") for name in NUMBERS}, "age": column("string"), "sex": column("string")}
SEED = 0


def on_table(estimator: Any, given: Split) -> Model:
    """A model that is fitted on one part of a table and judged on the other."""
    fitted = estimator.fit(given.fit, given.fit_target)
    return Model(source=fitted, inputs={"X": floats(given.fit.shape[1])}, own={"X": given.test})


def on_people(estimator: Any, random: Random) -> Model:
    """Like `on_table`, for a table with words."""
    given = people(random)
    fitted = estimator.fit(given.fit, given.fit_target)
    own = {name: given.test[[name]].to_numpy() for name in PEOPLE}
    return Model(source=fitted, inputs=PEOPLE, own=own)


def on_text(estimator: Any, random: Random, convert: dict[str, Any]) -> Model:
    """Like `on_table`, for sentences."""
    given = sentences(random)
    fitted = estimator.fit(given.fit, given.fit_target)
    return Model(source=fitted, inputs=TEXT, own={"text": given.test}, convert=convert)


def _table(name: str, estimator: Any) -> Entry:
    return Entry(framework="sklearn", place=name, build=lambda random: on_table(estimator, rows(name, random)))


def _gaps(name: str, estimator: Any) -> Entry:
    place = f"{name}, with missing values"
    return Entry(
        framework="sklearn", place=place, build=lambda random: on_table(estimator, rows_with_gaps(name, random))
    )


def _people(estimator: Any) -> Entry:
    return Entry(framework="sklearn", place="diabetes, with words", build=lambda random: on_people(estimator, random))


def _text(estimator: Any, convert: dict[str, Any]) -> Entry:
    return Entry(framework="sklearn", place="sentences", build=lambda random: on_text(estimator, random, convert))


def _prepared(numbers: Any, words: Any) -> Any:
    return ColumnTransformer([("numbers", numbers, list(NUMBERS)), ("words", words, ["age", "sex"])])


def _encoded() -> Any:
    return _prepared(StandardScaler(), OneHotEncoder(handle_unknown="ignore"))


def _ordinal() -> Any:
    # Without a scaler: its rounding would decide at the thresholds of the trees.
    return _prepared("passthrough", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1))


MODELS = {
    "logistic": _table("digits", make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))),
    "ridge": _table("diabetes", Ridge(alpha=0.1)),
    "lasso": _table("diabetes", Lasso(alpha=0.1)),
    "svc": _table("wine", make_pipeline(StandardScaler(), SVC())),
    "linear_svc": _table("cancer", make_pipeline(StandardScaler(), LinearSVC())),
    "svr": _table("diabetes", SVR(C=100)),
    "forest": _table("wine", RandomForestClassifier(20, random_state=SEED)),
    "forest_regression": _table("diabetes", RandomForestRegressor(20, max_depth=8, random_state=SEED)),
    "extra_trees": _table("digits", ExtraTreesClassifier(15, max_depth=8, random_state=SEED)),
    "tree": _table("cancer", DecisionTreeClassifier(random_state=SEED)),
    "boosting": _table("cancer", GradientBoostingClassifier(n_estimators=30, random_state=SEED)),
    "boosting_regression": _table("diabetes", GradientBoostingRegressor(n_estimators=30, random_state=SEED)),
    "histogram_gaps": _gaps("cancer", HistGradientBoostingClassifier(max_iter=20, random_state=SEED)),
    "histogram_regression": _table("diabetes", HistGradientBoostingRegressor(max_iter=20, random_state=SEED)),
    "adaboost": _table("iris", AdaBoostClassifier(n_estimators=10, random_state=SEED)),
    "bagging": _table("diabetes", BaggingRegressor(n_estimators=5, random_state=SEED)),
    "neighbours": _table("cancer", KNeighborsClassifier(5)),
    "neighbours_regression": _table("diabetes", KNeighborsRegressor(5)),
    "bayes": _table("wine", GaussianNB()),
    "bayes_text": _text(make_pipeline(CountVectorizer(), MultinomialNB()), COUNTED),
    "perceptron": _table(
        "digits",
        make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(32,), max_iter=60, random_state=SEED)),
    ),
    "perceptron_regression": _table(
        "diabetes",
        make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(16,), max_iter=200, random_state=SEED)),
    ),
    "imputed": _gaps("cancer", make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())),
    "imputed_forest": _gaps(
        "wine", make_pipeline(SimpleImputer(strategy="median"), RandomForestClassifier(10, random_state=SEED))
    ),
    "encoded": _people(make_pipeline(_encoded(), Ridge())),
    "encoded_forest": _people(make_pipeline(_ordinal(), RandomForestRegressor(10, max_depth=6, random_state=SEED))),
    "text": _text(make_pipeline(TfidfVectorizer(), LogisticRegression()), WEIGHTED),
    "discriminant": _table("wine", LinearDiscriminantAnalysis()),
    "components": _table("digits", make_pipeline(PCA(16, random_state=SEED), LogisticRegression(max_iter=300))),
    "vote": _table(
        "wine",
        VotingClassifier(
            [
                ("linear", make_pipeline(StandardScaler(), LogisticRegression())),
                ("tree", DecisionTreeClassifier(max_depth=4, random_state=SEED)),
            ],
            voting="soft",
            flatten_transform=False,
        ),
    ),
    "stack": _table(
        "diabetes",
        StackingRegressor(
            [("ridge", Ridge()), ("boosting", GradientBoostingRegressor(n_estimators=15, random_state=SEED))]
        ),
    ),
}
"""Entries by name."""
