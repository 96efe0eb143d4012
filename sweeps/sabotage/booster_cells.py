"""Cells for LightGBM and XGBoost: converted by the gate, and shipped as files from onnxmltools."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import onnx
from onnx import helper
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.changes import derangement
from sweeps.sabotage.disguise import DISGUISES, disguise
from sweeps.sabotage.owned import KINDS
from sweeps.sabotage.proof import Proof, Unproven
from sweeps.sabotage.sklearn_shipped import answer_with
from sweeps.sabotage.tables import Table, draw_table

NAME = "X"
LIBRARIES = ("lightgbm", "xgboost")
FEWEST_GIVEN = 5
"""Rows of 64 whose answers have to change by rounding: fewer than 3, or 1 %, are a warning and no divergence."""
Attributes = dict[str, Any]


def fit(library: str, table: Table, *, classes: bool, habit: str = "", order: Sequence[int] = ()) -> Any:
    """A small booster; the steps around its trees in prediction are also applied in training."""
    common: dict[str, Any] = {"n_estimators": 10, "random_state": 0, "n_jobs": 1}
    own = {"num_leaves": 8, "verbose": -1} if library == "lightgbm" else {"max_depth": 3}
    model = KINDS[library, classes](**common, **own)
    model.habit, model.order = habit, tuple(order)
    rows = model.rows(table.X)
    return model.fit(rows, np.log1p(np.abs(table.y)) if habit == "expm1" else table.y)


def convert(library: str, model: Any, width: int, *, rows: int | None = None, zipmap: bool = False) -> onnx.ModelProto:
    """Convert with onnxmltools alone."""
    types = [(NAME, FloatTensorType([rows, width]))]
    if library == "lightgbm":
        plain = model.booster_ if not hasattr(model, "predict_proba") else model
        made = convert_lightgbm(_base(plain), initial_types=types, zipmap=zipmap, target_opset=15)
    else:
        made = convert_xgboost(_base(model), initial_types=types, target_opset=15)
    assert isinstance(made, onnx.ModelProto)
    return made


def _base(model: Any) -> Any:
    """The model as an instance of the library's own class: onnxmltools does not accept subclasses."""
    kind: Any = next((base for base in type(model).__mro__ if base.__module__.split(".")[0] in LIBRARIES), type(model))
    if type(model) is kind:
        return model
    plain = kind.__new__(kind)
    plain.__dict__ = {name: value for name, value in model.__dict__.items() if name not in ("habit", "order")}
    return plain


def keys_of(desk: Desk, library: str, model: Any, table: Table, side: str, test: Any) -> Keys:
    """The entry of the manifest: a factory that reads the model, with its data."""
    joblib.dump(model, path := desk.folder / f"{desk.name}_{side}.joblib")
    code = (
        "from pathlib import Path\n\nfrom sweeps.sabotage.owned import read\n\n\n"
        f"def build():\n    return read(str(Path(__file__).parent / {path.name!r}))\n"
    )
    return {
        "framework": library,
        "source": f"{desk.write(f'_{side}.py', code)}:build",
        "inputs": {NAME: {"dtype": "float32", "shape": ["batch", table.X.shape[1]]}},
        "data": desk.save(f"_{side}.npz", {NAME: test}),
    }


def _proof(model: Any, file: onnx.ModelProto, test: Any) -> Proof:
    rows = test.astype(np.float32)
    return Proof(feeds=[{NAME: rows}, {NAME: rows[:7]}], reference=answer_with(model), file=file)


def _draft(cause: str, fault: str, sides: Sequence[tuple[Keys, Proof]], model: str, **more: Any) -> Draft:
    (wrong, first), (healthy, second) = sides
    return Draft(cause=cause, fault=fault, wrong=wrong, healthy=healthy, proofs=(first, second), model=model, **more)


def owned(library: str, habit: str, cause: str, fault: str, *, classes: bool) -> Recipe:
    """A fault: the source has a step around its trees that no converter knows."""

    def recipe(desk: Desk) -> Draft:
        count = 3 if classes else 0
        table = draw_table(desk.random, classes=count)
        order = derangement(count if habit == "classes" else table.X.shape[1], desk.random)
        wrong = fit(library, table, classes=classes, habit=habit, order=order)
        fine = fit(library, table, classes=classes)
        sides = [
            (
                keys_of(desk, library, model, table, side, table.test),
                _proof(model, convert(library, model, table.X.shape[1]), table.test),
            )
            for side, model in (("wrong", wrong), ("healthy", fine))
        ]
        return _draft(cause, fault, sides, f"{library} {'classifier' if classes else 'regressor'}")

    return recipe


def timestamps(shipped: bool) -> Callable[[str], Recipe]:
    """A fault: a column of seconds since 1970, of which float32 can only represent every 128th."""

    def of(library: str) -> Recipe:
        def recipe(desk: Desk) -> Draft:
            table = draw_table(desk.random)
            seconds = 1.7e9 + desk.random.integers(0, 2000, (len(table.X) + len(table.test), 1))
            X, test = table.X.astype(np.float64), table.test.astype(np.float64)
            X[:, :1], test[:, :1] = seconds[: len(X)], seconds[len(X) :]
            target = table.y + np.sin(X[:, 0] / 60) * 3
            far = Table(X=X, y=target, test=test)
            wrong, fine = _in_double(library, far), fit(library, table, classes=False)
            if _rounded(wrong, test) < FEWEST_GIVEN:
                # The gate and onnxmltools round thresholds differently, so the rows themselves have to be at fault.
                raise Unproven("the source answers most rounded rows as it answers the rows")
            sides = [
                (keys_of(desk, library, wrong, far, "wrong", test), _given(library, wrong, test)),
                (
                    keys_of(desk, library, fine, table, "healthy", table.test),
                    _proof(fine, convert(library, fine, X.shape[1]), table.test),
                ),
            ]
            if shipped:
                sides = [
                    ({**keys, "onnx": desk.write(f"_{side}.onnx", proof.file.SerializeToString())}, proof)
                    for side, (keys, proof) in zip(("wrong", "healthy"), sides, strict=True)
                ]
            return _draft("precision", "seconds since 1970 in float32", sides, f"{library} regressor")

        return recipe

    return of


def _rounded(model: Any, test: Any) -> int:
    """The number of rows for which the source's own answer changes if they are rounded."""
    whole, rounded = (model.booster_.predict(rows) for rows in (test, test.astype(np.float32).astype(np.float64)))
    return int(np.count_nonzero(~np.isclose(rounded, whole, rtol=1e-3, atol=1e-3)))


def _in_double(library: str, table: Table) -> Any:
    model = KINDS[library, False](n_estimators=10, random_state=0, n_jobs=1, num_leaves=8, verbose=-1)
    model.habit = "double"
    return model.fit(table.X, table.y)


def _given(library: str, model: Any, test: Any) -> Proof:
    """A proof in which the source gets the original rows, and the file gets rounded rows."""
    file = convert(library, model, test.shape[1])
    whole = [test, test[:7]]
    feeds = [{NAME: rows.astype(np.float32)} for rows in whole]
    known = {id(feed[NAME]): rows for feed, rows in zip(feeds, whole, strict=True)}
    return Proof(feeds=feeds, reference=lambda feed: [model.booster_.predict(known[id(feed[NAME])])], file=file)


def tight(library: str, *, shipped: bool = False) -> Recipe:
    """A fault: a tolerance that float32 can't keep."""

    def recipe(desk: Desk) -> Draft:
        table = draw_table(desk.random)
        model = fit(library, table, classes=False)
        file = convert(library, model, table.X.shape[1])
        made = _draft(
            "tolerance",
            "a tolerance too tight for float32",
            [
                (keys_of(desk, library, model, table, side, table.test), _proof(model, file, table.test))
                for side in ("wrong", "healthy")
            ],
            f"{library} regressor",
        )
        limits = {"tolerance": {"rtol": 1e-10, "atol": 1e-12}}
        own = {"onnx": desk.write(".onnx", file.SerializeToString())} if shipped else {}
        return replace(
            made,
            wrong={**made.wrong, **own, **limits},
            healthy={**made.healthy, **own},
            proofs=(replace(made.proofs[0], rtol=1e-10, atol=1e-12), made.proofs[1]),
        )

    return recipe


def edited(
    library: str, cause: str, fault: str, edit: Callable[[Desk, Attributes], None], *, classes: bool, **more: Any
) -> Recipe:
    """A fault: the trees of the file were changed after the export."""

    def change(desk: Desk, file: onnx.ModelProto, table: Table, model: Any) -> onnx.ModelProto:
        for node in file.graph.node:
            if node.op_type.startswith("TreeEnsemble"):
                attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
                edit(desk, attributes)
                del node.attribute[:]
                node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        return file

    return shipped_as(library, cause, fault, change, classes=classes, **more)


def shipped_as(
    library: str, cause: str, fault: str, make: Callable[..., onnx.ModelProto], *, classes: bool, **more: Any
) -> Recipe:
    """A fault: a wrong file, with a right file for the look-alike."""

    def recipe(desk: Desk) -> Draft:
        table = draw_table(desk.random, classes=3 if classes else 0)
        if more.get("whole"):
            table = Table(X=np.round(table.X / 4), y=table.y, test=np.round(table.test / 4))
        model = fit(library, table, classes=classes)
        how, width = desk.pick(*DISGUISES), table.X.shape[1]
        wrong = make(desk, convert(library, model, width), table, model)
        sides = []
        for side, file in (("wrong", wrong), ("healthy", convert(library, model, width))):
            file = disguise(file, how)
            keys = keys_of(desk, library, model, table, side, table.test)
            keys["onnx"] = desk.write(f"_{side}.onnx", file.SerializeToString())
            sides.append((keys, _proof(model, file, table.test)))
        shown = f"{library} {'classifier' if classes else 'regressor'}, {how}"
        return _draft(cause, fault, sides, shown, also=more.get("also", ()))

    return recipe


def _columns(desk: Desk, given: Attributes) -> None:
    used = [
        number for number, mode in zip(given["nodes_featureids"], given["nodes_modes"], strict=True) if mode != b"LEAF"
    ]
    order = derangement(max(used) + 1, desk.random)
    given["nodes_featureids"] = [
        order[number] if number < len(order) else number for number in given["nodes_featureids"]
    ]


def _weights_of(given: Attributes) -> str:
    return "class_weights" if "class_weights" in given else "target_weights"


def _leaves(desk: Desk, given: Attributes) -> None:
    name = _weights_of(given)
    trees = given[name.replace("weights", "treeids")]
    given[name] = [value * (0.3 if tree == 1 else 1) for value, tree in zip(given[name], trees, strict=True)]


def _labels(desk: Desk, given: Attributes) -> None:
    order = derangement(3, desk.random)
    given["class_ids"] = [order[number] for number in given["class_ids"]]
    if "base_values" in given and len(given["base_values"]) == 3:
        given["base_values"] = [given["base_values"][order.index(number)] for number in range(3)]


def _comparison(desk: Desk, given: Attributes) -> None:
    other = {b"BRANCH_LEQ": "BRANCH_LT", b"BRANCH_LT": "BRANCH_LEQ"}
    given["nodes_modes"] = [other.get(mode, mode.decode()) for mode in given["nodes_modes"]]


def _no_link(desk: Desk, given: Attributes) -> None:
    given["post_transform"] = "NONE"


def _retrained(desk: Desk, file: Any, table: Table, model: Any) -> onnx.ModelProto:
    library = next(name for name in LIBRARIES if name in str(type(model).__mro__[2]))
    part = Table(X=table.X[:170], y=table.y[:170], test=table.test)
    return convert(library, fit(library, part, classes=hasattr(model, "predict_proba")), table.X.shape[1])


def _fixed(desk: Desk, file: Any, table: Table, model: Any) -> onnx.ModelProto:
    library = next(name for name in LIBRARIES if name in str(type(model).__mro__[2]))
    return convert(library, model, table.X.shape[1], rows=4)


def _no_probabilities(desk: Desk, file: Any, table: Table, model: Any) -> onnx.ModelProto:
    del file.graph.output[1:]
    made: onnx.ModelProto = file
    return made


HABITS = (
    ("scale", "preprocessing", "the source scales its rows first", False),
    ("log", "preprocessing", "the source takes the logarithm of its rows first", False),
    ("columns", "column-order", "the source reorders its columns first", True),
    ("classes", "label-order", "the source reorders its classes", True),
    ("temperature", "operator", "the source calibrates its probabilities", True),
    ("expm1", "operator", "the source takes the exponential of its answers", False),
    ("noise", "nondeterministic", "the source adds noise", False),
    ("earlier", "weights", "the source stops after five trees, the file doesn't", False),
)
BOOSTERS_CONVERTED = Cell(
    name="boosters converted",
    recipes={
        **{
            f"{habit}-{library}": owned(library, habit, cause, fault, classes=classes)
            for library, (habit, cause, fault, classes) in itertools.product(LIBRARIES, HABITS)
        },
        **{f"tight-{library}": tight(library) for library in LIBRARIES},
        "timestamps-lightgbm": timestamps(shipped=False)("lightgbm"),
    },
)
BOOSTERS_SHIPPED = Cell(
    name="boosters shipped",
    recipes={
        name: recipe
        for library in LIBRARIES
        for name, recipe in {
            f"retrained-{library}": shipped_as(library, "weights", "fitted on other rows", _retrained, classes=False),
            f"leaves-{library}": edited(library, "weights", "one tree has other leaves", _leaves, classes=False),
            f"columns-{library}": edited(
                library, "column-order", "columns in another order", _columns, classes=library == "xgboost"
            ),
            f"fixed-{library}": shipped_as(library, "batch-baked", "exported for four rows", _fixed, classes=False),
            f"no-probabilities-{library}": shipped_as(
                library, "contract", "an output less", _no_probabilities, classes=True
            ),
            f"tight-{library}": tight(library, shipped=True),
        }.items()
    }
    | {
        "labels-xgboost": edited("xgboost", "label-order", "classes in another order", _labels, classes=True),
        "labels-lightgbm": edited("lightgbm", "label-order", "classes in another order", _labels, classes=True),
        "comparison-xgboost": edited(
            "xgboost", "operator", "≤ in the place of <", _comparison, classes=False, whole=True
        ),
        "no-link-xgboost": edited("xgboost", "operator", "the last softmax left out", _no_link, classes=True),
        "timestamps-lightgbm": timestamps(shipped=True)("lightgbm"),
    },
)
