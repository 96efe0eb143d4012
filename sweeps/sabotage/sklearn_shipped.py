"""The cell for shipped files of scikit-learn pipelines that differ from their source."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import onnx
import skl2onnx
from onnx import helper, numpy_helper
from skl2onnx.common.data_types import FloatTensorType
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.changes import derangement
from sweeps.sabotage.disguise import DISGUISES, disguise
from sweeps.sabotage.house import Judge
from sweeps.sabotage.lower import LOWER
from sweeps.sabotage.proof import Feed, Proof
from sweeps.sabotage.tables import Table, draw_classifier, draw_regressor, draw_steps, draw_table, pipeline

OPSET = {"": 18, "ai.onnx.ml": 3}
NAME = "X"


def convert(model: Any, width: int, *, rows: int | None = None, raw: bool = False) -> onnx.ModelProto:
    """Convert with skl2onnx alone."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    given = {id(last): {"zipmap": False, **({"raw_scores": True} if raw else {})}} if is_classifier(last) else None
    types = [(NAME, FloatTensorType([rows, width]))]
    made: onnx.ModelProto = skl2onnx.convert_sklearn(model, initial_types=types, options=given, target_opset=OPSET)
    return made


def answer_with(model: Any) -> Callable[[Feed], list[Any]]:
    """A function that returns labels and scores, or values."""

    def answer(feed: Feed) -> list[Any]:
        rows = next(iter(feed.values()))
        if not hasattr(model, "predict_proba") and hasattr(model, "decision_function"):
            return [model.predict(rows), model.decision_function(rows)]
        if hasattr(model, "predict_proba"):
            return [model.predict(rows), model.predict_proba(rows)]
        return [model.predict(rows)]

    return answer


def draft(
    desk: Desk,
    table: Table,
    model: Any,
    wrong: onnx.ModelProto,
    cause: str,
    fault: str,
    *,
    module: str | None = None,
    healthy: onnx.ModelProto | None = None,
    test: Any = None,
) -> Draft:
    """A question with the wrong file and the right one, the fitted model, and rows that it has not seen."""
    width, how = table.X.shape[1], desk.pick(*DISGUISES)
    joblib.dump(model, desk.folder / f"{desk.name}.joblib")
    right = healthy or convert(model, width)
    rows = table.test if test is None else test
    data = desk.save(".npz", {NAME: rows})
    files = {"wrong": disguise(wrong, how), "healthy": disguise(right, how)}
    keys: Keys = {
        "framework": "sklearn",
        "source": f"{desk.name}.joblib",
        "inputs": {NAME: {"dtype": "float32", "shape": ["batch", width]}},
        "data": data,
    }
    sides = {
        side: {**keys, "onnx": desk.write(f"_{side}.onnx", file.SerializeToString())} for side, file in files.items()
    }
    feeds = [{NAME: rows.astype(np.float32)}, {NAME: rows[:7].astype(np.float32)}]
    reference = answer_with(model)
    proofs = [Proof(feeds=feeds, reference=reference, file=file) for file in files.values()]
    shown = " + ".join(type(step).__name__ for _, step in getattr(model, "steps", [("", model)]))
    return Draft(
        cause=cause,
        fault=fault,
        module=module,
        wrong=sides["wrong"],
        healthy=sides["healthy"],
        proofs=(proofs[0], proofs[1]),
        model=f"{shown}, {how}",
    )


def _fitted(desk: Desk, *, gaps: bool = False, last: Any = None, scaler: bool = True) -> tuple[Table, Any]:
    """A table, and a pipeline that is fitted on it."""
    classes = desk.pick(0, 3, 4) if last is None else (3 if is_classifier(last) else 0)
    table = draw_table(desk.random, classes=classes, gaps=gaps)
    if (final := last) is None:
        final = draw_classifier(desk.random) if classes else draw_regressor(desk.random)
    steps = draw_steps(desk.random, table.X.shape[1], gaps=gaps, scaler=scaler)
    return table, pipeline(*steps, ("model", final)).fit(table.X, table.y)


def retrained(desk: Desk) -> Draft:
    """A fault: the whole pipeline was fitted on other rows."""
    table, model = _fitted(desk)
    other = clone(model).fit(table.X[:150], table.y[:150])
    return draft(desk, table, model, convert(other, table.X.shape[1]), "weights", "fitted on other rows")


def stale(desk: Desk) -> Draft:
    """A fault: only the last step is from an earlier fit."""
    table, model = _fitted(desk)
    other = copy.deepcopy(model)
    other.steps[-1] = ("model", clone(model[-1]).fit(model[:-1].transform(table.X)[:120], table.y[:120]))
    wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "weights", "the last step of an earlier fit", module="model")


def one_weight(desk: Desk) -> Draft:
    """A fault: one coefficient is different."""
    table, model = _fitted(desk, last=desk.pick(LogisticRegression(max_iter=500), Ridge(0.5)))
    other = copy.deepcopy(model)
    coefficients = np.atleast_2d(other[-1].coef_)
    coefficients[0, int(desk.random.integers(coefficients.shape[1]))] *= -0.5
    other[-1].coef_ = coefficients.reshape(other[-1].coef_.shape)
    wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "weights", "one coefficient is another", module="model")


def _plain_scaled(desk: Desk) -> tuple[Table, Any]:
    """A table, and a pipeline of a scaler and a model that needs it."""
    table = draw_table(desk.random, classes=3)
    last = desk.pick(LogisticRegression(max_iter=500), MLPClassifier((10,), max_iter=120, random_state=0))
    return table, pipeline(("scale", StandardScaler()), ("model", last)).fit(table.X, table.y)


def no_scaler(desk: Desk) -> Draft:
    """A fault: only the last step was exported."""
    table, model = _plain_scaled(desk)
    wrong = convert(model[-1], table.X.shape[1])
    return draft(desk, table, model, wrong, "preprocessing", "the scaler left out", module="scale")


def other_scaler(desk: Desk) -> Draft:
    """A fault: the scaler was fitted on other data."""
    table, model = _plain_scaled(desk)
    other = copy.deepcopy(model)
    kind = desk.pick(StandardScaler, MinMaxScaler)
    part = table.X[:60] * np.float32(desk.random.uniform(0.7, 1.4)) + np.float32(desk.random.uniform(-2, 2))
    other.steps[0] = ("scale", kind().fit(part))
    wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "preprocessing", "a scaler of other data", module="scale")


def no_imputer(desk: Desk) -> Draft:
    """A fault: the imputer is missing, so missing values reach the model."""
    table, model = _fitted(desk, gaps=True, last=RandomForestClassifier(12, max_depth=5, random_state=0))
    wrong = convert(model[1:], table.X.shape[1])
    return draft(desk, table, model, wrong, "preprocessing", "the imputer left out", module="impute")


def other_imputer(desk: Desk) -> Draft:
    """A fault: missing values become 0."""
    table, model = _fitted(desk, gaps=True)
    other = copy.deepcopy(model)
    other.steps[0] = ("impute", SimpleImputer(strategy="constant", fill_value=0).fit(table.X))
    wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "preprocessing", "another imputer", module="impute")


def labels(desk: Desk) -> Draft:
    """A fault: classes were numbered in another order."""
    last = desk.pick(LogisticRegression(max_iter=500), KNeighborsClassifier(7))
    table, model = _fitted(desk, last=last)
    order = np.array(derangement(3, desk.random))
    other = copy.deepcopy(model)
    if isinstance(last, LogisticRegression):
        other[-1].coef_, other[-1].intercept_ = model[-1].coef_[order], model[-1].intercept_[order]
    else:
        other[-1]._y = np.argsort(order)[model[-1]._y]
    wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "label-order", "classes in another order")


def columns(desk: Desk) -> Draft:
    """A fault: the file takes the columns in another order."""
    table, model = _fitted(desk)
    wrong = convert(model, table.X.shape[1])
    order = derangement(table.X.shape[1], desk.random)
    taken = numpy_helper.from_array(np.array(order, dtype=np.int64), "column_order")
    wrong.graph.initializer.append(taken)
    for node in wrong.graph.node:
        for number, name in enumerate(node.input):
            if name == NAME:
                node.input[number] = "ordered"
    wrong.graph.node.insert(0, helper.make_node("Gather", [NAME, "column_order"], ["ordered"], axis=1))
    return draft(desk, table, model, wrong, "column-order", "columns in another order")


def folded_columns(desk: Desk) -> Draft:
    """A fault: the model was fitted on the columns in another order."""
    table = draw_table(desk.random, classes=3)
    steps = (("scale", StandardScaler()), ("model", LogisticRegression(max_iter=500)))
    model = pipeline(*steps).fit(table.X, table.y)
    other, order = copy.deepcopy(model), derangement(table.X.shape[1], desk.random)
    other[0].mean_, other[0].scale_ = model[0].mean_[order], model[0].scale_[order]
    other[1].coef_ = model[1].coef_[:, order]
    return draft(
        desk, table, model, convert(other, table.X.shape[1]), "column-order", "fitted on columns in another order"
    )


def raw_scores(desk: Desk) -> Draft:
    """A fault: scores instead of probabilities."""
    last = desk.pick(LogisticRegression(max_iter=500), MLPClassifier((10,), max_iter=120, random_state=0))
    table, model = _fitted(desk, last=last)
    wrong = convert(model, table.X.shape[1], raw=True)
    return draft(desk, table, model, wrong, "operator", "the last softmax left out", module="model")


def activation(desk: Desk) -> Draft:
    """A fault: the hidden layer has another activation."""
    table, model = _fitted(desk, last=MLPClassifier((12,), max_iter=120, random_state=1, activation="tanh"))
    other = copy.deepcopy(model)
    other[-1].activation = desk.pick("relu", "logistic")
    wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "operator", "another activation", module="model")


def averaged(desk: Desk) -> Draft:
    """A fault: the answers of the trees are combined in another way."""
    table, model = _fitted(desk, last=RandomForestRegressor(10, max_depth=5, random_state=0))
    wrong = convert(model, table.X.shape[1])
    for node in wrong.graph.node:
        if node.op_type == "TreeEnsembleRegressor":
            kept = [attribute for attribute in node.attribute if attribute.name != "aggregate_function"]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute("aggregate_function", desk.pick("AVERAGE", "MAX"))])
    return draft(desk, table, model, wrong, "operator", "another aggregate of trees", module="model")


def lowered(kind: str) -> Recipe:
    """A fault: a network in lower precision."""

    def recipe(desk: Desk) -> Draft:
        last = MLPClassifier((24, 12), max_iter=120, random_state=2)
        table = draw_table(desk.random, classes=3)
        model = pipeline(("scale", StandardScaler()), ("model", last)).fit(table.X, table.y)
        right = convert(model, table.X.shape[1])
        wrong = LOWER[kind](convert(model, table.X.shape[1]), [{NAME: table.X[:32]}])
        return draft(desk, table, model, wrong, "quantised", f"shipped as {kind}", healthy=right)

    return recipe


def fixed(desk: Desk) -> Draft:
    """A fault: exported for one size."""
    table, model = _fitted(desk)
    wrong = convert(model, table.X.shape[1], rows=4)
    return draft(desk, table, model, wrong, "batch-baked", "exported for four rows")


def without_probabilities(desk: Desk) -> Draft:
    """A fault: the file has only labels."""
    table, model = _fitted(desk, last=RandomForestClassifier(12, max_depth=5, random_state=0))
    wrong = convert(model, table.X.shape[1])
    del wrong.graph.output[1:]
    return draft(desk, table, model, wrong, "contract", "an output less")


def tight(desk: Desk) -> Draft:
    """A fault: a tolerance that float32 can't keep."""
    table, model = _fitted(desk)
    made = draft(desk, table, model, convert(model, table.X.shape[1]), "tolerance", "a tolerance too tight for float32")
    proofs = (replace(made.proofs[0], rtol=1e-9, atol=1e-10), made.proofs[1])
    return replace(made, wrong={**made.wrong, "tolerance": {"rtol": 1e-9, "atol": 1e-10}}, proofs=proofs)


def tree_data(desk: Desk) -> tuple[Table, Any]:
    """A fully grown tree behind a scaler, and rows close to its thresholds."""
    table = draw_table(desk.random)
    X = np.round(table.X, 1)
    model = pipeline(("scale", StandardScaler()), ("model", DecisionTreeRegressor(random_state=0))).fit(X, table.y)
    halves = np.concatenate([X[i : i + 1] + (X[j] - X[i]) / 2 for i, j in desk.random.integers(0, len(X), (400, 2))])
    return Table(X=X, y=table.y, test=np.round(halves, 2).astype(np.float32)), model


def thresholds(desk: Desk) -> Draft:
    """A fault: float64 thresholds become float32."""
    table, model = tree_data(desk)
    made = draft(desk, table, model, convert(model, table.X.shape[1]), "precision", "scaled rows next to thresholds")
    bare = DecisionTreeRegressor(random_state=0).fit(table.X, table.y)
    other = draft(replace(desk, name=f"{desk.name}_bare"), table, bare, convert(bare, table.X.shape[1]), "", "")
    return replace(made, healthy=other.healthy, proofs=(made.proofs[0], other.proofs[1]))


def constant_column(desk: Desk) -> Draft:
    """A fault: a constant column is divided by its deviation of 0."""
    table = draw_table(desk.random, classes=3)
    column = int(desk.random.integers(table.X.shape[1]))
    for rows in (table.X, table.test):
        rows[:, column] = 3
    steps = (("scale", StandardScaler()), ("model", LogisticRegression(max_iter=500)))
    model = pipeline(*steps).fit(table.X, table.y)
    other = copy.deepcopy(model)
    other[0].scale_[column] = 0
    with np.errstate(divide="ignore"):
        wrong = convert(other, table.X.shape[1])
    return draft(desk, table, model, wrong, "nan", "0 by 0 in a constant column")


def noisy(desk: Desk) -> Draft:
    """A fault: the source adds noise to its answers."""
    table = draw_table(desk.random, classes=3)
    model = pipeline(("scale", StandardScaler()), ("model", LogisticRegression(max_iter=500))).fit(table.X, table.y)
    random = pipeline(("scale", model[0]), ("model", Judge(noise=0.05).fit(model[0].transform(table.X), table.y)))
    file = convert(model, table.X.shape[1])
    made = draft(desk, table, random, file, "nondeterministic", "the source adds noise", healthy=file)
    other = draft(replace(desk, name=f"{desk.name}_calm"), table, model, file, "", "")
    return replace(made, healthy=other.healthy, proofs=(made.proofs[0], other.proofs[1]))


SKLEARN_SHIPPED = Cell(
    name="sklearn shipped",
    recipes={
        "retrained": retrained,
        "stale": stale,
        "one-weight": one_weight,
        "no-scaler": no_scaler,
        "other-scaler": other_scaler,
        "no-imputer": no_imputer,
        "other-imputer": other_imputer,
        "labels": labels,
        "columns": columns,
        "folded-columns": folded_columns,
        "raw-scores": raw_scores,
        "activation": activation,
        "averaged": averaged,
        "int8-dynamic": lowered("int8-dynamic"),
        "fixed": fixed,
        "without-probabilities": without_probabilities,
        "tight": tight,
        "thresholds": thresholds,
        "constant-column": constant_column,
        "noisy": noisy,
    },
)
