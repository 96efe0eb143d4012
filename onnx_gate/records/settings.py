"""What a run was asked to do, and who is listening."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.records.asked import RunOptions
from onnx_gate.records.workflow import CommentMode, Workflow


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run was asked to do, and who is listening."""

    manifest: Path
    """The manifest."""
    output: Path
    """Where the reports go."""
    options: RunOptions
    """How to run."""
    requirements: Path | None = None
    """The user's requirements file, to be installed first."""
    step_summary: Path | None = None
    """$GITHUB_STEP_SUMMARY."""
    github_output: Path | None = None
    """$GITHUB_OUTPUT."""
    comment: CommentMode = CommentMode.NEVER
    """When to comment on the pull request."""
    workflow: Workflow = field(default_factory=Workflow)
    """The workflow that this is a step of, if any."""
    live: bool = False
    """Somebody watches a terminal."""

    @property
    def in_actions(self) -> bool:
        """Workflow commands are understood."""
        return self.workflow.in_actions

    @property
    def debugs(self) -> bool:
        """The workflow was run again to see more."""
        return self.workflow.in_actions and self.workflow.debug


def parse_shard(text: str) -> tuple[int, int]:
    """`2/5` → (2, 5)."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard: got {text!r}, expected I/N with I from 1 to N, such as 2/5")
    return int(match[1]), int(match[2])
