"""CPU here, GPU there: references made with the frameworks, used by a process that can't import them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from onnx_gate.records.result import Check
from onnx_gate.reports import json as results
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import REPOSITORY, Run, run_manifest
from tests.onnx_models import doubler, external, save, value

MANIFEST = """
version: 1
defaults:
  batches: [1, 7]
models:
  - id: labels
    source: forest.joblib
    inputs: {X: {dtype: float32, shape: [batch, 4]}}
    data: iris.npz
    edges: true
  - id: net
    source: net.py:build
    framework: torch
    inputs: {x: {dtype: float32, shape: [batch, 4]}, scale: {dtype: float32, shape: [batch, 1]}}
    edges: [row-consistency, permuted-rows, zeros]
    variants: [fp16]
  - {id: weights, source: external.onnx}
  - {id: wrong, source: line.joblib, onnx: other.onnx, inputs: {X: {dtype: float32, shape: [batch, 4]}}}
  - {id: sequence, source: parts.onnx, data: parts.py:feed}
  - {id: narrow, source: narrow.onnx, data: narrow.py:feed}
  - {id: broken, source: net.py:missing, framework: torch, inputs: {x: {dtype: float32, shape: [batch, 4]}}}
  - {id: elsewhere, source: double.onnx, providers: {cuda: {required: true}}}
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

    def forward(self, x, scale):
        return {"logits": self.second(torch.tanh(self.first(x))) * scale, "best": self.first(x).argmax(-1)}

def build():
    torch.manual_seed(0)
    return Net()
"""
BLOCKED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "sklearn", "skl2onnx", "joblib", "onnxscript", "scipy", "pandas"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def _write_models(folder: Path) -> None:
    iris = load_iris()
    names = np.array(iris.target_names)[iris.target].astype(object)
    joblib.dump(RandomForestClassifier(5, random_state=0).fit(iris.data, names), folder / "forest.joblib")
    joblib.dump(LogisticRegression(max_iter=500).fit(iris.data, iris.target), folder / "line.joblib")
    other = LogisticRegression(max_iter=500).fit(-iris.data, iris.target)
    _convert(other, folder / "other.onnx")
    np.savez(folder / "iris.npz", X=iris.data)
    (folder / "net.py").write_text(NET)
    external(folder / "external.onnx")
    doubler(folder / "double.onnx")
    split = helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0)
    parts = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    save(folder / "parts.onnx", [split], [value("x")], [parts])
    (folder / "parts.py").write_text(
        "import numpy as np\n\ndef feed():\n    return {'x': np.eye(3, dtype='float32')}\n"
    )
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    save(folder / "narrow.onnx", [cast], [value("x")], [value("y", TensorProto.BFLOAT16)])
    (folder / "narrow.py").write_text(
        "import numpy as np\n\ndef feed():\n    return {'x': np.eye(3, dtype='float32')}\n"
    )


def _convert(model: LogisticRegression, path: Path) -> None:
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    types = [("X", FloatTensorType([None, 4]))]
    converted = skl2onnx.convert_sklearn(model, initial_types=types, options={"zipmap": False}, target_opset=18)
    onnx.save(converted, str(path))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Run:
    """The run that makes the references."""
    folder = tmp_path_factory.mktemp("travel")
    _write_models(folder)
    return run_manifest(folder, MANIFEST, save_reference=folder / "references")


@pytest.fixture(scope="module")
def used(made: Run, tmp_path_factory) -> Run:
    """The run that uses them: the same manifest without its models and data, where no framework can be imported."""
    folder = tmp_path_factory.mktemp("gpu")
    shutil.copy(made.output.parent / "onnx-gate.yml", folder)
    (folder / "blocked").mkdir()
    (folder / "blocked/sitecustomize.py").write_text(BLOCKED)
    environ = {**os.environ, "PYTHONPATH": f"{folder}/blocked:{REPOSITORY}"}
    command = [sys.executable, "-P", "-m", "onnx_gate", "run", "--reference", str(made.output.parent / "references")]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    output = folder / "onnx-gate-report"
    return Run(results.read(output), output, done.stdout)


def compared(run: Run, model: str) -> list[Check]:
    """The checks of a model, but for how long they took."""
    return [replace(check, seconds=0.0) for check in run[model].checks]


@pytest.mark.parametrize("model", ["labels", "net", "net@fp16", "weights", "sequence", "narrow", "wrong"])
def test_the_same_checks_give_the_same_numbers(made, used, model):
    """Every metric of every check, what the verdict rests on, and what is known of the file."""
    assert compared(used, model) == compared(made, model)
    assert used[model].verdict is made[model].verdict
    assert used[model].coverage.elements == made[model].coverage.elements
    assert used[model].convert == made[model].convert
    assert used[model].weak_reference is made[model].weak_reference


def test_all_but_the_wrong_ones_pass(used):
    """Each for the right reason."""
    verdicts = {model.id: model.verdict for model in used.result.models}
    expected = dict.fromkeys(verdicts, Status.PASSED) | {"wrong": Status.DIVERGED}
    assert verdicts == expected | {"broken": Status.ERROR, "elsewhere": Status.ERROR}


def test_edges_rows_and_variants_travel_too(made, used):
    """What the source answers to rows alone is part of the reference."""
    cases = {check.case for check in used["net"].checks}
    assert {"batch=1", "batch=7", "edge=row-consistency", "edge=permuted-rows", "edge=zeros"} <= cases
    assert any(check.case.startswith("edge=") for check in used["labels"].checks)


def test_the_answers_to_the_data_as_given_travel_too(made, used):
    """The data is float64 and the schema float32: both references are there."""
    assert [check.output for check in used.checks("labels", case="given")] == ["label", "probabilities"]
    assert {check.total for check in used.checks("labels", case="given")} == {150}


def test_the_report_says_where_the_reference_is_from(made, used):
    """And with which versions of the framework it was made; the run that made it says nothing of the kind."""
    origin = used["net"].reference
    assert f"from {made.output.parent / 'references'}, made 20" in origin
    assert f"with torch {made.result.environment.versions['torch']}" in origin
    assert "scikit-learn" in used["labels"].reference
    assert made["net"].reference == ""
    assert "torch" in used.result.environment.versions  # its files are there; it just can't be imported
    assert "- reference: from " in (used.output / "summary.md").read_text()


def test_the_model_is_the_very_same(made, used):
    """Byte by byte, with its external data."""
    for name in ("net.onnx", "net@fp16.onnx", "labels.onnx", "weights.onnx", "weights.onnx.0.data"):
        assert (used.output / "models" / name).read_bytes() == (made.output / "models" / name).read_bytes()


def test_what_could_not_be_judged_there_can_not_be_here(made, used):
    """With the words that told why, and the same cause."""
    assert used["broken"].cause is made["broken"].cause is Cause.LOAD_FAILED
    assert "it could not be judged where its reference was made" in used["broken"].error
    assert "there is no function 'missing'" in used["broken"].error


def test_a_provider_that_was_missing_there_does_not_spoil_the_reference(made, used):
    """The GPU is on the other machine: it is asked for there, and missing here for a reason of this machine's own."""
    assert made["elsewhere"].cause is used["elsewhere"].cause is Cause.PROVIDER_UNAVAILABLE
    assert used["elsewhere"].reference


def test_a_cause_that_only_the_source_could_tell_is_said_to_be_unasked(made, used):
    """The divergence is found, and the report says what was left out of the search for its cause."""
    assert used["wrong"].verdict is Status.DIVERGED
    assert any("the source is not on this machine" in note for note in used["wrong"].notes)
    assert not any("the source is not on this machine" in note for note in made["wrong"].notes)


def test_a_part_of_the_manifest_may_be_run(made):
    """Other references in the folder are left alone."""
    folder = made.output.parent
    run = run_manifest(folder, MANIFEST, reference=folder / "references", only=("weights",))
    assert [model.id for model in run.result.models] == ["weights"]
    assert run["weights"].verdict is Status.PASSED


def test_speed_is_not_judged_without_the_source(tmp_path):
    """A limit that can't be measured is an error, not a pass; what can be measured is told."""
    iris = load_iris()
    joblib.dump(LogisticRegression(max_iter=500).fit(iris.data, iris.target), tmp_path / "line.joblib")
    manifest = """
    version: 1
    defaults: {batches: [2], latency: {repeats: 5, seconds: 0.001}, inputs: {X: {dtype: float32, shape: [batch, 4]}}}
    models:
      - {id: timed, source: line.joblib}
      - {id: limited, source: line.joblib, min_speedup: 1e-9}
    """
    made = run_manifest(tmp_path, manifest, save_reference=tmp_path / "references")
    assert made.result.exit_code == 0
    used = run_manifest(tmp_path, manifest, reference=tmp_path / "references")
    assert used["timed"].verdict is Status.PASSED
    assert [(one.source, one.speedup) for one in used["timed"].latency] == [(None, None)]
    assert used["limited"].verdict is Status.ERROR
    assert "the source is not here to be timed" in used["limited"].error


def test_a_reference_is_made_for_providers_that_are_not_asked_for(tmp_path):
    """`--provider cpu` on a model for the GPU alone: skipped here, and judged there."""
    doubler(tmp_path / "double.onnx")
    manifest = "version: 1\nmodels:\n  - {id: double, source: double.onnx, providers: [cuda]}\n"
    made = run_manifest(tmp_path, manifest, save_reference=tmp_path / "references", providers=("cpu",))
    assert made["double"].verdict is Status.SKIPPED
    index = json.loads((tmp_path / "references/double/index.json").read_text())
    assert index["reference"]["error"] == ""
    assert "contract.json" in index["reference"]["files"]
