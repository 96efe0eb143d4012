"""The workflows to copy keep what docs/matrix.md says of them: no job that counts is skipped, no report is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.sources import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / "examples/workflows").glob("*.yml"))


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
