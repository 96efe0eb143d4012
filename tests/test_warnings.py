"""Warnings of a manifest: the run goes on, and everybody who reads of the run reads of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_gate.cli.main import main
from onnx_gate.vocabulary import Status
from tests import onnx_models
from tests.conftest import Run

MANIFEST = """
version: 1
defaults: {providers: {cpu: {options: {arena_v2: 1}}}}
models:
  - {id: a, source: m.onnx, variants: [fp16]}
  - {id: b, source: m.onnx, providers: [cpu]}
"""
PLACE = "onnx-gate.yml:3:40: defaults.providers.cpu.options.arena_v2: "
WARNING = f"{PLACE}onnx-gate knows no option 'arena_v2' of cpu. Fix: remove it; "
NOT_TAKEN = "cpu did not take the option 'arena_v2': its session doesn't report it, so the model was judged without it"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Outside of GitHub Actions."""
    onnx_models.doubler(tmp_path / "m.onnx")
    (tmp_path / "onnx-gate.yml").write_text(MANIFEST)
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_check_prints_warnings_and_exits_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With file, line, column and path, as problems are."""
    assert main(["check"]) == 0
    out, err = capsys.readouterr()
    assert out == "onnx-gate.yml: 3 models, no problems, 1 warning\n"
    assert err.startswith(f"warning: {WARNING}")
    assert len(err.splitlines()) == 1


def test_plan_prints_warnings_beside_the_matrix(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is the matrix alone."""
    assert main(["plan", "--shards", "2"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert f"warning: {WARNING}" in err


def test_a_run_goes_on_and_says_so_in_all_reports(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the console, as an annotation at its place, in each report with the models that it concerns."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["run"]) == 0
    out, err = capsys.readouterr()
    assert f"warning: {WARNING}" in err
    assert f"::warning file=onnx-gate.yml,line=3,col=40,title=onnx-gate::{WARNING}" in out
    reports = {path.name: path.read_text() for path in (project / "onnx-gate-report").glob("*.*")}
    [told] = json.loads(reports["results.json"])["warnings"]
    assert (told["line"], told["column"], told["models"]) == (3, 40, ["a"])
    assert f"- {WARNING}" in reports["summary.md"]
    assert "The manifest has warnings:" in reports["report.html"]
    assert reports["junit.xml"].count(f'name="warning 1" value="{WARNING}') == 2, "of the model and its variant"


def test_an_option_that_the_provider_did_not_take_is_not_in_force(run: Callable[..., Run], tmp_path: Path) -> None:
    """ONNX Runtime's CPU provider ignores what it doesn't know: the model says so, and doesn't list it as in force."""
    onnx_models.doubler(tmp_path / "m.onnx")
    done = run(MANIFEST)
    for name in ("a", "a@fp16"):
        found = done[name]
        assert found.verdict is Status.PASSED
        assert found.coverage and NOT_TAKEN in found.coverage.warnings
        assert [note for note in found.notes if "arena_v2" in note]
        assert found.numerics["cpu"].options == {}
    assert done["b"].coverage
    assert NOT_TAKEN not in done["b"].coverage.warnings
    assert not [note for note in done["b"].notes if "arena_v2" in note]


def test_a_run_of_other_models_has_no_such_warning(project: Path) -> None:
    """Its reports are about what was run."""
    assert main(["run", "--only", "b"]) == 0
    assert json.loads((project / "onnx-gate-report/results.json").read_text())["warnings"] == []
