"""Encoders and vectorizers of scikit-learn: categories, codes and texts that four invented words don't match."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

from sweeps.wrong_models.edits import change_list, nodes, scale_element, scale_one, swap_two
from sweeps.wrong_models.entry import Array, Model, Random, column, entry, floats
from sweeps.wrong_models.sklearn_numbers import number, readings
from sweeps.wrong_models.tables import CITIES, PLANS, classes, people, pick, spending, texts

LOCALE = {"locale": "C.UTF-8"}
COUNTED = {"options": {"CountVectorizer": LOCALE}}
WEIGHTED = {"options": {"TfidfVectorizer": LOCALE}}
PLAIN_WORDS = "[a-zA-Z0-9_]+"
"""By default scikit-learn drops words of one letter, and the conversion keeps them: pairs across such a word differ."""
"""Options with a locale that every machine has."""
TEXT = {"text": {"dtype": "string", "shape": ["batch"]}}


def customers(random: Random, rows: int = 300) -> pd.DataFrame:
    """A table with numbers and categories."""
    table = people(random, rows)
    named = pd.DataFrame({"income": table[:, 0], "age": table[:, 1]})
    return named.assign(city=pick(CITIES, random, rows), plan=pick(PLANS, random, rows))


def as_feed(table: pd.DataFrame) -> dict[str, Array]:
    """The columns of a table as inputs."""
    return {str(name): table[[name]].to_numpy() for name in table}


CUSTOMER = {
    "income": column("float32"),
    "age": column("float32"),
    "city": column("string"),
    "plan": column("string"),
}


def rename_one(operator: str, name: str) -> Any:
    """A sabotage: replaces a word of a list by one that never occurs."""

    def rename(file: onnx.ModelProto, random: Random) -> None:
        node = nodes(file, operator)[0]
        change_list(node, name, lambda words: words.__setitem__(int(random.integers(len(words))), b"\xc3\xa9toile"))

    return rename


@entry("sklearn", "category of a one-hot encoder")
def one_hot_swapped(random: Random) -> Model:
    """Two cities are swapped."""
    table = customers(random)[["city"]].to_numpy()
    effects = dict(zip(CITIES, random.normal(0, 2, len(CITIES)), strict=True))
    target = [effects[city] for city in table[:, 0]]
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()).fit(table, target)
    sabotage = swap_two("OneHotEncoder", "cats_strings")
    return Model(source=model, inputs={"city": column("string")}, own={"city": table}, sabotage=sabotage)


@entry("sklearn", "category of a one-hot encoder")
def one_hot_missing(random: Random) -> Model:
    """The file doesn't know one of the cities."""
    table = customers(random)[["city"]].to_numpy()
    model = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(table)
    sabotage = rename_one("OneHotEncoder", "cats_strings")
    return Model(source=model, inputs={"city": column("string")}, own={"city": table}, sabotage=sabotage)


@entry("sklearn", "category of a one-hot encoder")
def code_swapped(random: Random) -> Model:
    """Codes of branches, 100 and above; two of them are swapped."""
    codes = np.sort(random.choice(np.arange(100, 900), size=12, replace=False))
    table = random.choice(codes, size=(240, 1)).astype(np.int64)
    target = np.sin(table[:, 0])
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()).fit(table, target)
    sabotage = swap_two("OneHotEncoder", "cats_int64s")
    return Model(source=model, inputs={"branch": column("int64")}, own={"branch": table}, sabotage=sabotage)


@entry("sklearn", "category of an ordinal encoder")
def ordinal_swapped(random: Random) -> Model:
    """The numbers of two plans are swapped; the encoder refuses unknown plans."""
    table = customers(random)[["plan"]].to_numpy()
    model = OrdinalEncoder().fit(table)
    sabotage = swap_two("LabelEncoder", "values_int64s")
    return Model(source=model, inputs={"plan": column("string")}, own={"plan": table}, sabotage=sabotage)


@entry("sklearn", "category of an ordinal encoder")
def ordinal_missing(random: Random) -> Model:
    """One city is unknown in the file, and gets the number for unknown ones."""
    table = customers(random)[["city"]].to_numpy()
    model = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(table)
    sabotage = rename_one("LabelEncoder", "keys_strings")
    return Model(source=model, inputs={"city": column("string")}, own={"city": table}, sabotage=sabotage)


@entry("sklearn", "category of a table's encoder")
def table_category(random: Random) -> Model:
    """Numbers and categories of a table, with two categories swapped."""
    table = customers(random)
    target = classes(people(random, len(table)), random, 2) ^ (table["plan"] == "premium").to_numpy()
    parts = [
        ("numbers", StandardScaler(), ["income", "age"]),
        ("words", OneHotEncoder(handle_unknown="ignore"), ["city", "plan"]),
    ]
    model = make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=300)).fit(table, target)
    sabotage = swap_two("OneHotEncoder", "cats_strings")
    return Model(source=model, inputs=CUSTOMER, own=as_feed(table), sabotage=sabotage)


@entry("sklearn", "category of a table's encoder")
def table_forest(random: Random) -> Model:
    """Ordinal codes and incomes before a forest, with two categories swapped."""
    table = customers(random)
    target = (table["income"] > 55_000).to_numpy() ^ table["plan"].isin(["plus", "family"]).to_numpy()
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    parts = [("words", encoder, ["city", "plan"]), ("numbers", "passthrough", ["income", "age"])]
    forest = RandomForestClassifier(15, max_depth=6, random_state=number(random))
    model = make_pipeline(ColumnTransformer(parts), forest).fit(table, target)
    sabotage = swap_two("LabelEncoder", "values_int64s")
    return Model(source=model, inputs=CUSTOMER, own=as_feed(table), sabotage=sabotage)


@entry("sklearn", "category of a target encoder")
def target_mean(random: Random) -> Model:
    """The mean of one city is wrong."""
    table = customers(random)[["city"]].to_numpy()
    effects = dict(zip(CITIES, random.normal(50, 10, len(CITIES)), strict=True))
    target = np.array([effects[city] for city in table[:, 0]]) + random.normal(0, 1, len(table))
    model = TargetEncoder(random_state=number(random)).fit(table, target)
    sabotage = scale_one("LabelEncoder", "values_floats", 1.1)
    return Model(source=model, inputs={"city": column("string")}, own={"city": table}, sabotage=sabotage)


@entry("sklearn", "label of a decoder")
def label_swapped(random: Random) -> Model:
    """A label encoder in which the numbers of two labels are swapped."""
    words = pick(CITIES, random, 60)
    model = LabelEncoder().fit(words)
    sabotage = swap_two("LabelEncoder", "values_int64s")
    return Model(
        source=model, inputs={"city": {"dtype": "string", "shape": ["batch"]}}, own={"city": words}, sabotage=sabotage
    )


@entry("sklearn", "label of a decoder")
def label_renamed(random: Random) -> Model:
    """A classifier of readings with two class names swapped; inputs near 0 always get a third class."""
    table = readings(random)
    target = np.array(["calm", "busy", "alarm", "fault"], dtype=object)[classes(table, random, 4)]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(table, target)
    sabotage = swap_two("LinearClassifier", "classlabels_strings")
    return Model(source=model, inputs={"X": floats(4)}, own={"X": table}, sabotage=sabotage)


@entry("sklearn", "word of a vocabulary")
def word_dropped(random: Random) -> Model:
    """A word of the vocabulary is not counted."""
    written = texts(random)
    target = np.array(["refund" in text or "broken" in text for text in written], dtype=int)
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(written, target)
    sabotage = rename_one("TfIdfVectorizer", "pool_strings")
    return Model(source=model, inputs=TEXT, convert=COUNTED, own={"text": written}, sabotage=sabotage)


@entry("sklearn", "weight of a word")
def word_weight(random: Random) -> Model:
    """The weight of one word is wrong."""
    written = texts(random)
    model = TfidfVectorizer().fit(written)
    return Model(
        source=model, inputs=TEXT, convert=WEIGHTED, own={"text": written}, sabotage=scale_element("idfcst", 1.3)
    )


@entry("sklearn", "word of a vocabulary")
def pair_of_words(random: Random) -> Model:
    """Words and pairs of words; one of them is missing."""
    written = texts(random, 40)
    target = spending(people(random, 40), random)
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), token_pattern=PLAIN_WORDS), Ridge()).fit(written, target)
    sabotage = rename_one("TfIdfVectorizer", "pool_strings")
    return Model(source=model, inputs=TEXT, convert=WEIGHTED, own={"text": written}, sabotage=sabotage)
