"""Every example runs, and ends as it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from onnx_gate.reports import json, page
from onnx_gate.vocabulary import REPORTS, REPRO, WEAK_INPUTS, Cause, Status
from tests.conftest import REPOSITORY

EXAMPLES = {"quickstart": 0, "diverges": 1, "boosters": 0, "keras": 0, "tensorflow": 0, "weak-inputs": 0}
MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {
    "boosters": (pytest.mark.extras,),
    # To import it takes half a minute.
    "keras": (pytest.mark.keras, pytest.mark.models),
    "tensorflow": (pytest.mark.tensorflow,),
}
"""For examples whose framework not every environment has."""
OFFERS = {"weak-inputs"}
"""Examples whose inputs could be better, and that are given some."""


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
    # Rows that would catch more are offered where there are any.
    assert written - {WEAK_INPUTS, REPRO} == {*REPORTS, "models", "logs"}
    assert (REPRO in written) is (name == "diverges")
    assert WEAK_INPUTS in written or name not in OFFERS
    result = json.read(tmp_path / "report")
    assert result.exit_code == code
    assert {path.name.split(".")[0] for path in (tmp_path / "report/models").iterdir()} == {
        model.id for model in result.models
    }
    for model in result.models:
        drawn = {(plot.provider, plot.output) for plot in model.plots or ()}
        assert drawn == {(check.provider, check.output) for check in model.checks if check.total}
    # `report` draws the same page of what results.json has.
    assert page.render(result) == (tmp_path / "report/report.html").read_text(encoding="utf-8")
    if name == "diverges":
        causes = {"tumour-lda": Cause.CONVERSION, "tumour-stale-export": Cause.WEIGHTS}
        assert {model.id: model.cause for model in result.models} == causes
        stale = next(model for model in result.models if model.id == "tumour-stale-export")
        assert all(check.status is Status.PASSED for check in stale.checks if check.output == "label")


@pytest.mark.models
def test_weak_inputs_become_strong_with_the_line_that_the_run_prints(tmp_path):
    """As first written, most wrong models would pass; with the printed line in its place nearly none would."""
    folder = tmp_path / "example"
    shutil.copytree(REPOSITORY / "examples" / "weak-inputs", folder)
    printed, before = _strength(folder)
    assert before < 0.3
    fix = re.search(r"Fix: Use `(range: \[.*?\])` for `words`", printed)
    assert fix, printed
    manifest = folder / "onnx-gate.yml"
    text = manifest.read_text()
    assert f"# {fix[1]} " in text, "the manifest shows the line"
    manifest.write_text(re.sub(r"^( +)range: \[.*?\]", rf"\1{fix[1]}", text, flags=re.MULTILINE))
    printed, after = _strength(folder)
    assert after >= 0.95
    assert "strength is low" not in printed


def _strength(folder):
    """What a run of the one model prints, and its strength before anything is aimed."""
    command = [sys.executable, "-m", "onnx_gate", "run", str(folder / "onnx-gate.yml"), "--output", "report"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (model,) = json.read(folder / "report").models
    assert model.strength is not None
    assert not model.strength.incomplete
    return done.stdout, model.strength.share


def test_the_doctor_tells_what_runs_here():
    """Frameworks with their versions, providers with the reason why not."""
    done = subprocess.run([sys.executable, "-m", "onnx_gate", "doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok  cpu" in done.stdout
    assert "ok  torch" in done.stdout
    assert "cuda" in done.stdout
    assert "isolation: none; models run as you" in done.stdout
