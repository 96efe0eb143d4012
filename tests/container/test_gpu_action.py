"""The composite action's script with a real image; all but the GPU, which isn't here, is as on a runner."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.container.conftest import IMAGE, REPOSITORY, RUNNER_UID

pytestmark = pytest.mark.container


def test_the_script_runs_the_image_and_hands_all_back(
    container: list[str], make_workspace: Any, tmp_path: Path
) -> None:
    """Exit code, outputs, summary and files come back, and belong to the owner of the workspace."""
    workspace = make_workspace("quickstart")
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, RUNNER_UID, RUNNER_UID)
    files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_EVENT_PATH")}
    for file in files.values():
        file.write_text("{}" if file.name == "GITHUB_EVENT_PATH" else "")
    done = subprocess.run(
        ["bash", str(REPOSITORY / "gpu/run.sh")],
        env={
            "PATH": f"{_without_gpus(container, tmp_path / 'bin')}:{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            "IMAGE": IMAGE,
            "INPUT_COMMENT": "never",
            "INPUT_ONLY": "wine-classifier",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(workspace),
            **{name: str(file) for name, file in files.items()},
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\npassed\n" in files["GITHUB_OUTPUT"].read_text()
    assert "1 of 1 model passed" in files["GITHUB_STEP_SUMMARY"].read_text()
    report = workspace / "onnx-gate-report"
    assert {path.stat().st_uid for path in (report, *report.rglob("*"))} == {RUNNER_UID}


def _without_gpus(container: list[str], folder: Path) -> Path:
    """A `docker` that is the one at hand, and asks for no GPU."""
    folder.mkdir()
    script = f"""#!/usr/bin/env bash
        [ "$1 $2 $3 $4" = "run --rm --gpus all" ] || exit 64
        exec {shlex.join(container)} "${{@:5}}"
    """
    (folder / "docker").write_text(script)
    (folder / "docker").chmod(0o755)
    return folder
