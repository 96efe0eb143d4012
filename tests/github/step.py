"""A step of a workflow beside a server that plays GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onnx_gate.cli.main import main, main_action
from tests.github.server import REPOSITORY, TOKEN, GitHub
from tests.onnx_models import doubler

MANIFEST = """\
version: 1
models:
  - {id: right, source: m.onnx, data: right.npz}
  - {id: wrong, source: m.onnx, data: wrong.npz}
"""
HEAD = "b" * 40


@dataclass
class Step:
    """What a step left behind."""

    code: int
    out: str
    err: str
    summary: str
    outputs: str

    @property
    def warnings(self) -> list[str]:
        """Those that aren't about a model."""
        return [line for line in self.out.splitlines() if line.startswith("::warning title=onnx-gate::")]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one model that passes and one that diverges; we are in it."""
    folder = tmp_path / "workspace"
    (folder / ".git").mkdir(parents=True)
    doubler(folder / "m.onnx")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(folder / "right.npz", x=x, y=2 * x)
    np.savez(folder / "wrong.npz", x=x, y=3 * x)
    (folder / "onnx-gate.yml").write_text(MANIFEST)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def step(
    workspace: Path, github: GitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Step]:
    """Run a step on pull request 7."""
    event = workspace.parent / "event.json"

    def run(*argv: str, pull: object = None, **environ: str | None) -> Step:
        head = {"sha": HEAD, "repo": {"full_name": REPOSITORY}}
        event.write_text(json.dumps(pull or {"pull_request": {"number": 7, "head": head}}))
        files = {name: workspace.parent / name for name in ("summary", "outputs")}
        for file in files.values():
            file.unlink(missing_ok=True)
        given = {
            **github.environ,
            "GITHUB_WORKSPACE": str(workspace),
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_STEP_SUMMARY": str(files["summary"]),
            "GITHUB_OUTPUT": str(files["outputs"]),
            **({"GITHUB_TOKEN": TOKEN} if argv else {"INPUT_TOKEN": TOKEN}),
            **environ,
        }
        with monkeypatch.context() as patch:
            for name in ("GITHUB_TOKEN", "INPUT_TOKEN", "RUNNER_DEBUG", "http_proxy", "HTTP_PROXY"):
                patch.delenv(name, raising=False)
            for name, value in given.items():
                patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
            code = main(argv) if argv else main_action()
        out, err = capsys.readouterr()
        told = {name: file.read_text("utf-8") if file.exists() else "" for name, file in files.items()}
        done = Step(code, out, err, **told)
        assert TOKEN not in "".join((done.out, done.err, done.summary, done.outputs))
        return done

    return run
