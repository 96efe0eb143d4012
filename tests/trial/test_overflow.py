"""What overflows in the file alone is a warning on rows that nobody has stated, and a divergence on those that are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value

CODE = """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class Scores(BaseEstimator, TransformerMixin):
    def __init__(self, how="soft"):
        self.how = how

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        scores = np.asarray(X, dtype=np.float64)
        if self.how == "grown":
            return np.exp(scores).astype(np.float32)
        if self.how == "picky" and np.abs(scores).max() > 50:
            raise ValueError("far out")
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (grown / grown.sum(axis=1, keepdims=True)).astype(np.float32)


def soft():
    return Scores().fit(None)


def grown():
    return Scores("grown").fit(None)


def picky():
    return Scores("picky").fit(None)
"""
PLAIN = "inputs: {X: {dtype: float32, shape: [batch, 3]}}"
RANGE = "inputs: {X: {dtype: float32, shape: [batch, 3], range: [-2000, 2000]}}"
MODELS = {
    "raw": f"source: 'models.py:soft', onnx: raw.onnx, {PLAIN}",
    "stated": f"source: 'models.py:soft', onnx: raw.onnx, {RANGE}",
    "guarded": f"source: 'models.py:soft', onnx: guarded.onnx, {PLAIN}",
    "grown": f"source: 'models.py:grown', onnx: grown.onnx, {PLAIN}",
    "picky": f"source: 'models.py:picky', onnx: raw.onnx, {PLAIN}",
}


def _softmax(path: Path, *, guarded: bool) -> None:
    nodes = [
        helper.make_node("Exp", ["lower" if guarded else "X"], ["grown"], name="grow"),
        helper.make_node("ReduceSum", ["grown", "axis"], ["sum"], keepdims=1),
        helper.make_node("Div", ["grown", "sum"], ["variable"]),
    ]
    if guarded:
        nodes = [
            helper.make_node("ReduceMax", ["X", "axis"], ["most"], keepdims=1),
            helper.make_node("Sub", ["X", "most"], ["lower"]),
            *nodes,
        ]
    save(path, nodes, [value("X")], [value("variable")], {"axis": np.array([1])})


def write_models(folder: Path) -> None:
    """The sources and the files."""
    (folder / "models.py").write_text(CODE)
    _softmax(folder / "raw.onnx", guarded=False)
    _softmax(folder / "guarded.onnx", guarded=True)
    save(folder / "grown.onnx", [helper.make_node("Exp", ["X"], ["variable"])], [value("X")], [value("variable")])


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("overflow")
    write_models(folder)
    listed = "\n".join(f"  - {{id: {name}, framework: sklearn, {keys}}}" for name, keys in MODELS.items())
    return run_manifest(folder, f"version: 1\nmodels:\n{listed}\n")


def warnings_of(run: Run, name: str) -> list[str]:
    coverage = run[name].coverage
    assert coverage is not None
    return [text for text in coverage.warnings if "far from the generated values" in text]


def test_an_exponential_that_overflows_in_the_file_alone_is_a_warning(judged: Run) -> None:
    """With the operator, and the line that has it judged."""
    assert judged["raw"].verdict is Status.PASSED
    [warning] = warnings_of(judged, "raw")
    assert "the .onnx on cpu answers NaN for `variable`, and the source 1. There, " in warning
    assert "Exp 'grow'" in warning
    assert "add `range: [-" in warning


def test_where_such_values_are_stated_it_diverges(judged: Run) -> None:
    """As the warning says."""
    assert (judged["stated"].verdict, judged["stated"].cause) == (Status.DIVERGED, Cause.NAN)


@pytest.mark.parametrize("name", ["guarded", "grown", "picky"])
def test_healthy_look_alikes_have_no_warning(judged: Run, name: str) -> None:
    """One that subtracts the largest, one whose source overflows as well, and one whose source refuses such rows."""
    assert judged[name].verdict is Status.PASSED, judged[name].error
    assert warnings_of(judged, name) == []
