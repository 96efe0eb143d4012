"""Files that can't be run as the manifest asks: what the message offers works, and leads in no circle."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import helper

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.triage.precision import Rounding, advise
from tests import onnx_models
from tests.conftest import Run, run_manifest

CODE = """
import numpy as np
from sklearn.linear_model import LinearRegression


def build():
    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.ones((1, 2), np.float32), np.zeros(1, np.float32), 2
    return model
"""
MANIFEST = """
version: 1
defaults: {framework: sklearn, batches: [3]}
models:
  - {id: misnamed, source: 'm.py:build', onnx: named.onnx, inputs: {X: {dtype: float32, shape: [batch, 2]}}}
  - {id: renamed, source: 'm.py:build', onnx: named.onnx, inputs: {rows: {dtype: float32, shape: [batch, 2]}}}
  - {id: left-out, source: 'm.py:build', onnx: named.onnx}
  - {id: itself, framework: onnx, source: named.onnx, inputs: {X: {dtype: float32, shape: [batch, 2]}}}
  - {id: nowhere, source: 'm.py:build', onnx: nowhere.onnx}
  - {id: misspelt, source: 'm.py:build', onnx: misspelt.onnx}
  - {id: later, source: 'm.py:build', onnx: later.onnx}
  - {id: later-mended, framework: onnx, source: later-mended.onnx}
  - {id: gone, source: 'm.py:build', onnx: gone.onnx}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """Each as somebody ships it."""
    folder = tmp_path_factory.mktemp("teaching")
    (folder / "m.py").write_text(CODE)
    ones = {"w": np.ones((2, 1), np.float32), "s": np.ones(2, np.float32)}

    def made(name: str, op: str, *more: str, opset: int = 18) -> None:
        """The sum of two columns, after an operator."""
        nodes = [helper.make_node(op, ["rows", *more], ["x"]), helper.make_node("MatMul", ["x", "w"], ["variable"])]
        rows, out = (onnx_models.value(n, onnx_models.F, ["batch", k]) for n, k in (("rows", 2), ("variable", 1)))
        onnx_models.save(folder / f"{name}.onnx", nodes, [rows], [out], ones, opset=opset)

    made("named", "Identity")
    made("nowhere", "Frobnicate")
    made("misspelt", "Sigmod")
    made("later", "Gelu")
    made("later-mended", "Gelu", opset=20)
    made("gone", "Upsample", "s")
    return run_manifest(folder, MANIFEST)


def test_a_wrong_input_name_is_no_fault_of_an_operator(models):
    """What the file takes, what it was fed, and what to write."""
    error = models["misnamed"].error
    assert "the .onnx takes the inputs rows, and the manifest names X" in error
    assert "name the inputs in `inputs` as the .onnx does" in error
    assert "operator" not in error
    assert models["misnamed"].verdict is Status.DIVERGED
    said = {check.message for check in models["misnamed"].checks if check.status is Status.ERROR}
    assert len(said) == 1, "the same reason for each case is said once in the reports"


@pytest.mark.parametrize("name", ["renamed", "left-out", "later-mended"])
def test_what_is_offered_works(models, name):
    """The file's own names, no `inputs`, and the opset that has the operator: no circle."""
    assert models[name].verdict is Status.PASSED


def test_a_file_that_is_its_own_source_says_the_same(models):
    """The reference is asked first."""
    assert "the .onnx takes the inputs rows, and the manifest names X" in models["itself"].error


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "no opset of ONNX has an operator Frobnicate. If it is your own"),
        ("misspelt", "no opset of ONNX has an operator Sigmod (did you mean Sigmoid?)"),
        ("later", "Gelu is there since opset 20: export with opset 20 or higher"),
        ("gone", "Upsample is gone since opset 10"),
    ],
)
def test_an_operator_that_the_opset_lacks(models, name, words):
    """A lower opset or a newer runtime is no way to what exists nowhere."""
    assert models[name].cause is Cause.UNSUPPORTED_OPERATOR
    assert words in models[name].error
    assert "lower opset" not in models[name].error


@pytest.mark.parametrize(("largest", "rule"), [(5.0, "max_mismatch: 0.02"), (0.001, "atol: 0.002")])
def test_no_atol_is_offered_that_lets_anything_through(largest, rule):
    """Outputs near 130 of which few are far off: a share of them, not an atol of 10."""
    diff = OutputDiff(
        provider="cpu",
        case="batch=1",
        output="y",
        total=100,
        mismatched=2,
        max_abs=largest,
        lowest=120.0,
        highest=140.0,
        tolerance=Tolerance(rtol=1e-4, atol=1e-5),
    )
    told = advise(Rounding(how="own-noise", mismatched=2, left=0, size=0.0, other=0.0), diff)
    found = re.search(r"`outputs: \{y: \{(.+)\}\}`", told)
    assert found
    assert rule in found[1]
