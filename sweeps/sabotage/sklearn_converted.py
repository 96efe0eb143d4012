"""The cell for scikit-learn pipelines that the gate itself converts, with a wrong result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.changes import derangement
from sweeps.sabotage.house import Judge, Step, register
from sweeps.sabotage.proof import Proof
from sweeps.sabotage.sklearn_shipped import NAME, answer_with, convert, tree_data
from sweeps.sabotage.tables import Table, draw_regressor, draw_table, pipeline


def _side(desk: Desk, table: Table, model: Any, side: str, hook: str | None) -> tuple[Keys, Proof]:
    """The entry of the manifest with the pickle, and the proof with the file that skl2onnx makes from it."""
    width = table.X.shape[1]
    joblib.dump(model, desk.folder / f"{desk.name}_{side}.joblib")
    keys: Keys = {
        "framework": "sklearn",
        "source": f"{desk.name}_{side}.joblib",
        "inputs": {NAME: {"dtype": "float32", "shape": ["batch", width]}},
        "data": desk.save(f"_{side}.npz", {NAME: table.test}),
    }
    if hook is not None:
        code = f"from sweeps.sabotage import house\n\n\ndef register():\n    house.register({hook!r})\n"
        keys["register"] = f"{desk.write(f'_{side}_hook.py', code)}:register"
        register(hook)
    rows = table.test.astype(np.float32)
    feeds = [{NAME: rows}, {NAME: rows[:7]}]
    return keys, Proof(feeds=feeds, reference=answer_with(model), file=convert(model, width))


def draft(
    desk: Desk,
    cause: str,
    fault: str,
    *,
    wrong: tuple[Table, Any, str | None],
    healthy: tuple[Table, Any, str | None],
    module: str | None = None,
    also: tuple[str, ...] = (),
) -> Draft:
    """A question; both sides are a table, a fitted model, and the fault of the converters that `register` adds."""
    first, second = _side(desk, *wrong[:2], "wrong", wrong[2]), _side(desk, *healthy[:2], "healthy", healthy[2])
    shown = " + ".join(type(step).__name__ for _, step in getattr(wrong[1], "steps", [("", wrong[1])]))
    return Draft(
        cause=cause,
        fault=fault,
        wrong=first[0],
        healthy=second[0],
        proofs=(first[1], second[1]),
        module=module,
        also=also,
        model=shown,
    )


def step(kind: str, cause: str, fault: str) -> Recipe:
    """A fault: a custom transformer is converted wrongly."""

    def recipe(desk: Desk) -> Draft:
        table = draw_table(desk.random, classes=desk.pick(0, 3))
        order = derangement(table.X.shape[1], desk.random) if kind == "pick" else ()
        last = LogisticRegression(max_iter=500) if table.y.dtype.kind == "i" else draw_regressor(desk.random)
        steps = [("prepare", Step(kind, tuple(order))), ("scale", StandardScaler()), ("model", last)]
        model = pipeline(*steps).fit(table.X, table.y)
        module = "prepare" if cause == "preprocessing" else None
        return draft(desk, cause, fault, wrong=(table, model, kind), healthy=(table, model, ""), module=module)

    return recipe


def judge(kind: str, cause: str, fault: str) -> Recipe:
    """A fault: a custom classifier is converted wrongly."""

    def recipe(desk: Desk) -> Draft:
        table = draw_table(desk.random, classes=desk.pick(3, 4))
        last = Judge(temperature=float(desk.random.uniform(1.5, 3)))
        model = pipeline(("scale", StandardScaler()), ("model", last)).fit(table.X, table.y)
        module = "model" if cause in ("weights", "operator") else None
        return draft(desk, cause, fault, wrong=(table, model, kind), healthy=(table, model, ""), module=module)

    return recipe


def noisy(desk: Desk) -> Draft:
    """A fault: a custom classifier adds noise."""
    table = draw_table(desk.random, classes=3)
    both = [
        pipeline(("scale", StandardScaler()), ("model", Judge(noise=noise))).fit(table.X, table.y)
        for noise in (0.05, 0.0)
    ]
    fault = "the source adds noise"
    return draft(desk, "nondeterministic", fault, wrong=(table, both[0], ""), healthy=(table, both[1], ""))


def known(make: Callable[[], Any], cause: str, fault: str, also: tuple[str, ...] = ()) -> Recipe:
    """A fault: skl2onnx is known to translate an estimator wrongly for two classes."""

    def recipe(desk: Desk) -> Draft:
        table = draw_table(desk.random, classes=2)
        wrong = pipeline(("scale", StandardScaler()), ("model", make())).fit(table.X, table.y)
        fine = pipeline(("scale", StandardScaler()), ("model", LogisticRegression())).fit(table.X, table.y)
        module = "model" if cause == "operator" else None
        return draft(
            desk, cause, fault, wrong=(table, wrong, None), healthy=(table, fine, None), module=module, also=also
        )

    return recipe


def thresholds(desk: Desk) -> Draft:
    """A fault: float64 thresholds of a tree become float32."""
    table, model = tree_data(desk)
    fine = DecisionTreeRegressor(random_state=0).fit(table.X, table.y)
    fault = "scaled rows next to thresholds"
    return draft(desk, "precision", fault, wrong=(table, model, None), healthy=(table, fine, None))


def forest(desk: Desk) -> Draft:
    """A fault: float64 thresholds of a forest become float32."""
    table, _ = tree_data(desk)
    last = RandomForestRegressor(8, random_state=0)
    model = pipeline(("scale", StandardScaler()), ("model", last)).fit(table.X, table.y)
    fine = RandomForestRegressor(8, random_state=0).fit(table.X, table.y)
    fault = "scaled rows next to thresholds"
    return draft(desk, "precision", fault, wrong=(table, model, None), healthy=(table, fine, None))


def tight(desk: Desk) -> Draft:
    """A fault: a tolerance that float32 can't keep."""
    table = draw_table(desk.random)
    model = pipeline(("scale", StandardScaler()), ("model", draw_regressor(desk.random))).fit(table.X, table.y)
    both = (table, model, None)
    made = draft(desk, "tolerance", "a tolerance too tight for float32", wrong=both, healthy=both)
    proofs = (replace(made.proofs[0], rtol=1e-9, atol=1e-10), made.proofs[1])
    return replace(made, wrong={**made.wrong, "tolerance": {"rtol": 1e-9, "atol": 1e-10}}, proofs=proofs)


SKLEARN_CONVERTED = Cell(
    name="sklearn converted",
    recipes={
        "centre": step("centre", "preprocessing", "its converter forgets the mean"),
        "clip": step("clip", "preprocessing", "its converter forgets the upper end"),
        "log1p": step("log1p", "preprocessing", "its converter takes the plain logarithm"),
        "safe-log": step("safe-log", "nan", "its converter takes the logarithm of negative numbers"),
        "pick": step("pick", "column-order", "its converter sorts the columns"),
        "temperature": judge("temperature", "operator", "its converter forgets the temperature"),
        "softmax": judge("softmax", "operator", "its converter forgets the softmax"),
        "classes": judge("classes", "label-order", "its converter rotates the classes"),
        "stale": judge("stale", "weights", "its converter writes earlier weights"),
        "half": judge("half", "quantised", "its converter writes float16"),
        "noisy": noisy,
        "lda": known(LinearDiscriminantAnalysis, "operator", "sigmoid of twice the score", ("conversion",)),
        "tuned": known(
            lambda: TunedThresholdClassifierCV(GaussianNB(), cv=3), "operator", "threshold ignored", ("conversion",)
        ),
        "svc": known(lambda: SVC(), "contract", "two columns of scores for one"),
        "thresholds": thresholds,
        "forest": forest,
        "tight": tight,
    },
)
