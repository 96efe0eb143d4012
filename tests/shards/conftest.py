"""One real run of the whole, and the same in three real shards: made once, copied by every test that breaks them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnx_gate.cli import main
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
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """`run`, then `plan --results` of it, then `run --shard --plan` three times."""
    folder = tmp_path_factory.mktemp("runs")
    manifest = write_project(folder)
    code = main(["run", str(manifest), "--jobs", "2", "--output", str(folder / "whole")])
    plan, matrix = (
        printed("plan", str(manifest), "--shards", "3", "--results", str(folder / "whole"), "--print", what)
        for what in ("plan", "matrix")
    )
    shards = []
    for entry in json.loads(matrix)["include"]:
        shards.append(folder / "shards" / entry["name"])
        main(["run", str(manifest), "--shard", entry["shard"], "--plan", plan, "--output", str(shards[-1])])
    return Runs(manifest, plan, folder / "whole", code, tuple(shards))


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
