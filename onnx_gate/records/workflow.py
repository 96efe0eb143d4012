"""The workflow that a run is a step of."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


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
