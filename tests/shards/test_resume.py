"""`run --resume`: what an interrupted run has finished is kept where nothing has changed, and all else is run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_gate.cli.main import main
from onnx_gate.cli.settings import from_arguments
from onnx_gate.errors import UsageError
from onnx_gate.gate.selection import select_models
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import RunOptions
from onnx_gate.reports import json
from onnx_gate.shards import resume
from onnx_gate.vocabulary import RESUME_NOTE, Cause, Status
from tests.first_manifest.repositories import linear

SLOW = """\
import time
from pathlib import Path

from sklearn.linear_model import LinearRegression


def build():
    while Path(__file__).with_name("wait").exists():
        time.sleep(0.1)
    return LinearRegression().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
"""
MANIFEST = """\
version: 1
defaults: {batches: [1, 2], strength: false}
models:
  - {id: first, source: first/m.onnx}
  - {id: second, source: second/m.onnx}
  - {id: slow, source: slow.py:build, framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 1]}}}
"""
NOTE = "it was judged before the run was interrupted"


def make_project(top: Path) -> None:
    """Two models that end at once, and one that waits until a file is gone."""
    for name in ("first", "second"):
        (top / name).mkdir()
        (top / name / "m.onnx").write_bytes(linear("batch", 4).SerializeToString())
    (top / "slow.py").write_text(SLOW)
    (top / "wait").touch()
    (top / "onnx-gate.yml").write_text(MANIFEST)


def interrupt(top: Path) -> str:
    """Run it, and stop it as soon as both have ended; gives what it printed."""
    command = [sys.executable, "-m", "onnx_gate", "run", "--jobs", "1"]
    with subprocess.Popen(command, cwd=top, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "[2/3]" in line:
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    return "".join(lines)


def kept(top: Path, manifest: str = "onnx-gate.yml", **changes: object) -> set[str]:
    """What a run of now would not run again."""
    options = replace(_options(), **changes)  # type: ignore[arg-type]
    asked = load_manifest(Path(manifest))
    known = resume.digests(asked, options, top / "onnx-gate-report")
    return set(resume.find_finished(top / "onnx-gate-report", known, select_models(asked, options)))


def _options() -> RunOptions:
    from onnx_gate.cli.main import build_parser

    return from_arguments(build_parser().parse_args(["run"])).options


def test_an_interrupted_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Models whose entry, files or environment have changed are judged again, and so is what was not run."""
    make_project(tmp_path)
    printed = interrupt(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "2 of 3 models passed, 1 not run" in printed
    assert printed.splitlines()[-1].endswith("with --resume")
    before = json.read(tmp_path / "onnx-gate-report")
    assert not before.complete
    assert {model.id: (model.verdict, model.cause) for model in before.models} == {
        "first": (Status.PASSED, None),
        "second": (Status.PASSED, None),
        "slow": (Status.ERROR, Cause.INTERRUPTED),
    }
    assert kept(tmp_path) == {"first", "second"}
    # Each of these is another run.
    assert kept(tmp_path, only=("first",)) == {"first"}
    assert kept(tmp_path, environ={}) == set()
    (tmp_path / "other.yml").write_text(MANIFEST.replace("id: first, ", "id: first, tolerance: {rtol: 1, atol: 1}, "))
    assert kept(tmp_path, "other.yml") == {"second"}
    os.utime(tmp_path / "second/m.onnx", (0, 0))
    assert kept(tmp_path) == {"first"}

    (tmp_path / "wait").unlink()
    subprocess.run([sys.executable, "-m", "onnx_gate", "run", "--resume"], check=True)
    after = json.read(tmp_path / "onnx-gate-report")
    assert after.complete
    assert [(model.id, model.verdict) for model in after.models] == [
        (name, Status.PASSED) for name in ("first", "second", "slow")
    ]
    assert [model.id for model in after.models if any(NOTE in note for note in model.notes)] == ["first"]
    assert (tmp_path / "onnx-gate-report/models/first.onnx").exists()
    assert not (tmp_path / "onnx-gate-report" / RESUME_NOTE).exists()
    assert main(["run", "--resume"]) == 2
    told = capsys.readouterr().err
    assert "holds no interrupted run" in told and told.count("--resume:") == 1
    assert json.read(tmp_path / "onnx-gate-report").complete


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"results": 1, "models": 2}', "no json", "{" * 100_000])
def test_a_note_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    """Anybody may have put it there."""
    (tmp_path / RESUME_NOTE).write_text(content)
    with pytest.raises(UsageError, match="holds no interrupted run"):
        resume.find_finished(tmp_path, {}, ())


def test_it_goes_with_no_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference is made by a run of all models."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--resume", "--reference", "r"]) == 2
    assert "--resume goes with neither" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "variables", "offered"),
    [
        ([], {}, "the same command with --resume"),
        (["--resume"], {}, "the same command with --resume"),
        (["--reference", "r"], {}, "the same command again, from the start"),
        (["--save-reference", "r"], {}, "the same command again, from the start"),
        ([], {"GITHUB_ACTIONS": "true"}, ""),
    ],
)
def test_what_is_offered_can_be_run(given: list[str], variables: dict[str, str], offered: str) -> None:
    """`--resume` only where it is accepted, and where its folder is still there."""
    from onnx_gate.cli.main import _to_finish, build_parser

    asked = from_arguments(build_parser().parse_args(["run", *given]), variables)
    assert _to_finish(asked) == offered
    if "--resume" in offered:
        from_arguments(build_parser().parse_args(["run", *dict.fromkeys([*given, "--resume"])]), variables)
