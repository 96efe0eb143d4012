"""Last steps that a file lacks: found from the answers alone, where no part of a graph can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from onnx import helper
from skl2onnx import to_onnx
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from onnx_gate.records.asked import Tolerance
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.triage.forgotten.last import find_ending
from tests.conftest import run_manifest
from tests.onnx_models import save, value

RANDOM = np.random.default_rng(4)
SCORES = RANDOM.normal(size=(12, 3)).astype("float32")


def ending(reference: Any, actual: Any = SCORES, **others: tuple[Any, Any]) -> str:
    both = {"y": (reference, actual), **others}
    references, actuals = ({name: pair[side] for name, pair in both.items()} for side in (0, 1))
    return find_ending(references, actuals, lambda _: Tolerance(rtol=1e-3, atol=1e-5))


def softmax(x: Any) -> Any:
    whole = np.exp(x.astype("float64"))
    return (whole / whole.sum(-1, keepdims=True)).astype("float32")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (softmax(SCORES), "through a softmax"),
        (1 / (1 + np.exp(-SCORES)), "through a sigmoid"),
        (np.log(softmax(SCORES)), "through a log-softmax"),
        (np.exp(SCORES), "through an exponential"),
        (np.tanh(SCORES), "through a tanh"),
        (8 * SCORES - 40, "through a line: times 8, plus -40"),
    ],
)
def test_the_step_is_named(reference: Any, words: str) -> None:
    """With the output that it belongs to."""
    assert ending(reference.astype("float32")) == f"its output `y` goes {words}"


@pytest.mark.parametrize(
    "reference",
    [
        SCORES**2,
        np.where(np.arange(3) == 1, SCORES, 8 * SCORES - 40),
        SCORES + RANDOM.normal(size=SCORES.shape),
        SCORES[:, :2],
        np.argmax(SCORES, -1),
    ],
)
def test_other_answers_have_no_such_step(reference: Any) -> None:
    """One answer that it does not explain is enough."""
    assert ending(np.asarray(reference)) == ""


def test_few_answers_show_no_line() -> None:
    """Two points always lie on one."""
    assert ending(np.array([1.0, 5.0], "float32"), np.array([2.0, 3.0], "float32")) == ""


def test_outputs_that_agree_stay_as_they_are() -> None:
    """An output that differs without such a step speaks against all of them."""
    assert "`y`" in ending(softmax(SCORES), label=(np.arange(12), np.arange(12)))
    assert ending(softmax(SCORES), label=(np.arange(12), np.arange(12)[::-1])) == ""


def test_recorded_probabilities_of_a_file_with_scores(tmp_path: Path) -> None:
    """Without a source, the answers are all that there is."""
    weights = RANDOM.normal(size=(4, 3)).astype("float32")
    save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", shape=["batch", 4])],
        [value("y", shape=["batch", 3])],
        {"w": weights},
    )
    x = RANDOM.normal(size=(16, 4)).astype("float32")
    np.savez(tmp_path / "m.npz", x=x, y=softmax(x @ weights))
    (model,) = run_manifest(
        tmp_path, "version: 1\nmodels:\n  - {id: m, source: m.onnx, data: m.npz, batches: [16]}"
    ).result.models
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPERATOR)
    assert "agree once its output `y` goes through a softmax" in model.advice


def test_a_source_without_a_converter_shows_the_gap(tmp_path: Path) -> None:
    """No converter knows a target that is scaled; the file holds the regressor inside."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 4))
    y = 300 + 40 * (x @ np.array([1.0, -2.0, 0.5, 3.0]))
    source = TransformedTargetRegressor(Ridge(), transformer=StandardScaler()).fit(x, y)
    joblib.dump(source, tmp_path / "m.joblib")
    (tmp_path / "m.onnx").write_bytes(
        to_onnx(source.regressor_, x[:1].astype("float32"), target_opset=20).SerializeToString()
    )
    np.save(tmp_path / "m.npy", x.astype("float32"))
    entry = "{id: m, source: m.joblib, framework: sklearn, onnx: m.onnx, data: m.npy, "
    entry += "inputs: {X: {dtype: float32, shape: [batch, 4]}}}"
    (model,) = run_manifest(tmp_path, f"version: 1\nmodels:\n  - {entry}").result.models
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPERATOR), model.advice
    assert "goes through a line: times " in model.advice
    assert "report it" not in model.advice
