"""The workflows to copy keep what docs/matrix.md says of them: no job that counts is skipped, no report is lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.sources import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / "examples/workflows").glob("*.yml"))
OWN = {commit for path in WORKFLOWS for commit in re.findall(r"uses: onnx-gate/onnx-gate@(\S+)", path.read_text())}


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_that_is_run_again_can_upload_again(path: Path) -> None:
    """Else the merge would read what the attempt before it found."""
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    uploads = [step["with"] for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert all(upload.get("overwrite") is True for upload in uploads)


def test_the_merge_is_not_skipped_where_the_plan_failed() -> None:
    """A plan that failed has no outputs, and for GitHub a required check that is skipped has passed."""
    condition = jobs(REPOSITORY / "examples/workflows/matrix.yml")["merge"]["if"]
    assert condition == "${{ !cancelled() && needs.plan.outputs.empty != 'true' }}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_everything_used_is_pinned(path: Path) -> None:
    """By a commit, with the version beside it; our own action by one that there is, the same in all."""
    used = re.findall(r"uses: (\S+)@(\S+) # (\S+)", path.read_text())
    assert len(used) == path.read_text().count("uses: ")
    assert all(re.fullmatch(r"[0-9a-f]{40}", commit) for _, commit, _ in used)
    own = {commit for action, commit, _ in used if action == "onnx-gate/onnx-gate"}
    assert own <= OWN
    assert len(OWN) == 1
    assert set(*OWN) != {"0"}
