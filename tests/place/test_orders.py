"""Shipped files whose classes are in another order: named, and mended as labels, as columns and as keys."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.onnx_files.answers import Moved, exchange_labels, exchange_outputs, reorder_columns
from tests.conftest import run_manifest
from tests.onnx_models import INT, save, value

X, Y = load_iris(return_X_y=True)
X = X.astype("float32")
OTHER = np.array([2, 0, 1])
NAMES = np.array(["setosa", "versicolor", "virginica"])
SOURCES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "numbers": (LogisticRegression(max_iter=500).fit(X, Y), OTHER[Y], {"zipmap": False}),
    "words": (DecisionTreeClassifier(max_depth=3).fit(X, NAMES[Y]), NAMES[OTHER[Y]], {"zipmap": False}),
    "maps": (LogisticRegression(max_iter=500).fit(X, NAMES[Y]), NAMES[OTHER[Y]], {}),
}


def fit_again(source: Any, labels: Any) -> Any:
    """The same model, its classes numbered differently."""
    if not isinstance(source, LogisticRegression):
        return type(source)(**source.get_params()).fit(X, labels)
    again = copy.deepcopy(source)
    order = np.argsort(OTHER)
    again.coef_, again.intercept_ = source.coef_[order], source.intercept_[order]
    return again


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, ModelResult], Path]:
    """All of them in one run; each was shipped by somebody who numbered the classes differently."""
    folder = tmp_path_factory.mktemp("orders")
    entries = []
    np.save(folder / "x.npy", X)
    for name, (source, labels, options) in SOURCES.items():
        joblib.dump(source, folder / f"{name}.joblib")
        again = fit_again(source, labels)
        onnx.save(to_onnx(again, X[:1], options=options, target_opset=18), str(folder / f"{name}.onnx"))
        schema = "inputs: {X: {dtype: float32, shape: [batch, 4]}}"
        entries.append(
            f"  - {{id: {name}, source: {name}.joblib, onnx: {name}.onnx, data: x.npy, batches: [150], {schema}}}"
        )
    run = run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries))
    return {model.id: model for model in run.result.models}, run.output


@pytest.mark.parametrize("name", SOURCES)
def test_the_order_is_named_and_mended(found: tuple[dict[str, ModelResult], Path], name: str) -> None:
    """The file that is kept answers as the source, asked by plain code; the one that was shipped doesn't."""
    models, output = found
    model = models[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.LABEL_ORDER), model.advice
    assert model.mended is not None and model.mended.passes, model.advice
    these = "this change" if len(set(model.mended.changes)) == 1 else "these changes"
    assert f"With {these} all {model.mended.checks} checks pass: " in model.advice
    source = SOURCES[name][0]
    mended, shipped = (
        ort.InferenceSession(str(file)).run(None, {"X": X})
        for file in (output / model.mended.file, output / f"models/{name}.onnx")
    )
    assert np.array_equal(np.asarray(mended[0]).astype(str), source.predict(X).astype(str))
    assert not np.array_equal(np.asarray(shipped[0]).astype(str), source.predict(X).astype(str))
    scores = [[row[key] for key in source.classes_] for row in mended[1]] if name == "maps" else mended[1]
    np.testing.assert_allclose(scores, source.predict_proba(X), rtol=1e-3, atol=1e-4)


def test_the_words_say_what_is_where(found: tuple[dict[str, ModelResult], Path]) -> None:
    """The labels by their names, the columns by their places."""
    advice = found[0]["words"].advice
    assert "setosa is answered as virginica" in advice
    assert "class 0 is column 2" in advice


def test_names_of_outputs_are_exchanged_wherever_they_are_read(tmp_path: Path) -> None:
    """In other nodes and in sub-graphs too; their order and their types stay those of the names."""
    branch = helper.make_graph(
        [helper.make_node("Cast", ["a"], ["c"], to=1)], "g", [], [helper.make_tensor_value_info("c", 1, None)]
    )
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=INT),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("If", ["yes"], ["d"], then_branch=branch, else_branch=branch),
    ]
    ends = [value("a", INT), value("b"), value("d")]
    model = onnx.load(str(save(tmp_path / "m.onnx", nodes, [value("x")], ends, {"yes": np.array(True)})))
    assert exchange_outputs(model, {"a": "b", "b": "a"}) == ["rename the output `b` to `a`, `a` to `b`"]
    x = np.array([[1.5, -2.5, 3]], "float32")
    session = ort.InferenceSession(model.SerializeToString())
    assert [output.name for output in session.get_outputs()] == ["a", "b", "d"]
    a, b, d = session.run(None, {"x": x})
    np.testing.assert_array_equal(a, -x)
    np.testing.assert_array_equal(b, x.astype("int64"))
    np.testing.assert_array_equal(d, x.astype("int64"))


def test_labels_that_are_not_among_them_stay(tmp_path: Path) -> None:
    """Each is looked up by what was answered, so that a circle does not run into itself."""
    node = helper.make_node("Identity", ["x"], ["y"])
    model = onnx.load(str(save(tmp_path / "m.onnx", [node], [value("x", INT)], [value("y", INT)])))
    exchange_labels(model, "y", {1: 2, 2: 3, 3: 1})
    session = ort.InferenceSession(model.SerializeToString())
    (got,) = session.run(None, {"x": np.array([[1, 2, 3], [4, 3, 1]])})
    assert got.tolist() == [[2, 3, 1], [4, 1, 2]]


def test_what_no_node_makes_is_refused(tmp_path: Path) -> None:
    """An output that is an input can't get another name."""
    model = onnx.load(str(save(tmp_path / "m.onnx", [], [value("x")], [value("x")])))
    with pytest.raises(ValueError, match="no node makes x"):
        reorder_columns(model, "x", Moved(axis=1, order=(1, 0, 2)))
    with pytest.raises(ValueError, match="can't be renamed"):
        exchange_outputs(model, {"x": "x"})
