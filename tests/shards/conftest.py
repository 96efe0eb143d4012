"""One real run of the whole, and the same in three real shards: made once, copied by every test that breaks them."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnx_gate.cli.main import main
from tests.shards.project import write_project


@dataclass(frozen=True)
class Runs:
    """Output folders."""

    manifest: Path
    plan: str
    whole: Path
    whole_code: int
    shards: tuple[Path, ...]


@pytest.fixture(autouse=True)
def outside_of_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs these tests."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Runs:
    """`run`, then `plan --results` of it, then `run --shard --plan` three times; once for all processes that test."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "runs"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = folder / "told.json"
        if not told.exists():
            told.write_text(json.dumps(run_all(folder)))
    plan, code, names = json.loads(told.read_text())
    shards = tuple(folder / "shards" / name for name in names)
    return Runs(folder / "onnx-gate.yml", plan, folder / "whole", code, shards)


def run_all(folder: Path) -> tuple[str, int, list[str]]:
    """The plan, the exit code of the whole run, and the names of the shards' folders."""
    manifest = str(write_project(folder))
    code = main(["run", manifest, "--jobs", "2", "--output", str(folder / "whole")])
    argv = ["plan", manifest, "--shards", "3", "--results", str(folder / "whole")]
    plan, matrix = printed(*argv, "--print", "plan"), json.loads(printed(*argv))
    for entry in matrix["include"]:
        output = folder / "shards" / entry["name"]
        main(["run", manifest, "--shard", entry["shard"], "--plan", plan, "--output", str(output)])
    return plan, code, [entry["name"] for entry in matrix["include"]]


@pytest.fixture
def shards(runs: Runs, tmp_path: Path) -> Path:
    """A folder of the three folders, to be broken."""
    copy = tmp_path / "artifacts"
    shutil.copytree(runs.shards[0].parent, copy)
    return copy


def printed(*argv: str) -> str:
    """What a command that succeeds writes to standard output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main(list(argv)) == 0
    return out.getvalue().strip()
