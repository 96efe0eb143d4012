"""Every example runs, and ends as it says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from onnx_gate.reports import json
from onnx_gate.vocabulary import REPORTS, Cause, Status
from tests.conftest import REPOSITORY

EXAMPLES = {"quickstart": 0, "diverges": 1, "boosters": 0, "keras": 0, "tensorflow": 0}
MARKS = {"boosters": pytest.mark.extras, "keras": pytest.mark.keras, "tensorflow": pytest.mark.tensorflow}
"""For examples whose framework not every environment has."""


def test_every_example_is_listed_here():
    """None is forgotten."""
    assert {path.parent.name for path in REPOSITORY.glob("examples/*/onnx-gate.yml")} == set(EXAMPLES)


@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(name, code, marks=MARKS.get(name, ())) for name, code in EXAMPLES.items()],
)
def test_an_example_ends_with_its_exit_code(tmp_path, name, code):
    """From the command line, with all of its reports."""
    manifest = REPOSITORY / "examples" / name / "onnx-gate.yml"
    command = [sys.executable, "-m", "onnx_gate", "run", str(manifest), "--output", str(tmp_path / "report")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {*REPORTS, "models", "logs"}
    result = json.read(tmp_path / "report")
    assert result.exit_code == code
    assert {path.name.split(".")[0] for path in (tmp_path / "report/models").iterdir()} == {
        model.id for model in result.models
    }
    if name == "diverges":
        assert {model.cause for model in result.models} == {Cause.CONVERSION}
        stale = next(model for model in result.models if model.id == "tumour-stale-export")
        assert all(check.status is Status.PASSED for check in stale.checks if check.output == "label")


def test_the_doctor_tells_what_runs_here():
    """Frameworks with their versions, providers with the reason why not."""
    done = subprocess.run([sys.executable, "-m", "onnx_gate", "doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok  cpu" in done.stdout
    assert "ok  torch" in done.stdout
    assert "cuda" in done.stdout
    assert "isolation: none; models run as you" in done.stdout
