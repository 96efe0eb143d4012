"""What a run was asked to do, who is listening, and the workflow that it is a step of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.records.asked import RunOptions

DEFAULT_CACHE_SIZE = "2GiB"
"""What a cache may hold, unless somebody says otherwise."""


class CommentMode(StrEnum):
    """When to write the comment on the pull request."""

    AUTO = "auto"
    """On pull requests, and in workflows that follow one."""
    ALWAYS = "always"
    """Also elsewhere, where the commit has a pull request."""
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """What the runner says of the workflow; all of it is empty elsewhere."""

    in_actions: bool = False
    """Workflow commands are understood."""
    debug: bool = False
    """The run was repeated with debug logging on."""
    workspace: Path | None = None
    """Where the repository is checked out."""
    run_id: str = ""
    """The number of the workflow's run."""
    workflow_ref: str = ""
    """The workflow's file and where it was taken from: `owner/name/.github/workflows/x.yml@refs/heads/main`."""
    api_url: str = ""
    """Of the REST interface: another one on GitHub Enterprise Server."""
    graphql_url: str = ""
    """Of the other interface, which knows what the first doesn't tell."""
    repository: str = ""
    """`owner/name`."""
    event_path: Path | None = None
    """The event itself, as JSON."""
    ref: str = ""
    """Such as `refs/pull/7/merge`."""
    commit: str = ""
    """The commit that is checked out; on a pull request that of a trial merge."""
    run_url: str = ""
    """The page of the workflow's run."""
    token: str = field(default="", repr=False)
    """Opens the interface; shown nowhere."""


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
    baseline: str = ""
    """What to compare the run with: `auto`, `auto:` and the name of an artifact, or a file; empty for nothing."""
    resume: bool = False
    """Models that an interrupted run has finished in the same folder are not run again."""
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


def parse_size(text: str, where: str) -> int:
    """`512MiB` → bytes."""
    match = re.fullmatch(r"([0-9]{1,9}) ?([KMGT])iB", text)
    if not match:
        raise UsageError(
            f"{where}: got {text!r}, expected a number with a unit, such as 512MiB or {DEFAULT_CACHE_SIZE}"
        )
    return int(match[1]) << 10 * " KMGT".index(match[2])
