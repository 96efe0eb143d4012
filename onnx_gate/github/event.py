"""Which pull request a run is about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from onnx_gate.github.api import Api
from onnx_gate.records.settings import Workflow

LARGEST_EVENT = 32 * 1024 * 1024
"""GitHub's own limit is 25 MB."""
_PULL_REF = re.compile(r"refs/pull/([1-9][0-9]{0,17})/(?:merge|head)")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """Where the comment goes."""

    number: int
    """In the repository of the workflow."""
    commit: str = ""
    """The head that was judged, where that is known."""
    fork: bool = False
    """It comes from another repository, also from one that is gone: its own workflows can only read."""
    run_url: str = ""
    """The page of the run that judged it, where that is another than ours."""


def find_pull_request(workflow: Workflow) -> PullRequest | None:
    """The pull request that the event itself names; nobody has to be asked."""
    event = _read_event(workflow)
    if found := _from_pull_request(event.get("pull_request"), workflow):
        return found
    issue = event.get("issue")
    if isinstance(issue, dict) and "pull_request" in issue and (number := _number(issue)):
        return PullRequest(number=number)
    ref = _PULL_REF.fullmatch(workflow.ref)
    return PullRequest(number=int(ref[1]), commit=_commit(workflow.commit)) if ref else None


def follows_pull_request(workflow: Workflow) -> bool:
    """Whether the workflow runs after another one that a pull request had started."""
    run = _read_event(workflow).get("workflow_run")
    return isinstance(run, dict) and run.get("event") in ("pull_request", "pull_request_target")


def ask_for_pull_request(workflow: Workflow, api: Api) -> PullRequest | None:
    """The open pull request whose head is the commit of the run that we follow, or our own."""
    run = _read_event(workflow).get("workflow_run")
    if isinstance(run, dict):
        return _of_followed_run(run, workflow, api)
    if not _COMMIT.fullmatch(workflow.commit):
        return None
    path = f"/repos/{workflow.repository}/commits/{workflow.commit}/pulls?per_page=100"
    return _open_one(api.get_all(path), workflow.commit, workflow)


def _of_followed_run(run: dict[str, Any], workflow: Workflow, api: Api) -> PullRequest | None:
    """The event lists no pull request of a fork, so that the branch is asked for it."""
    commit, branch = run.get("head_sha"), run.get("head_branch")
    owner = _at(run, "head_repository", "owner", "login")
    if not (isinstance(commit, str) and isinstance(branch, str) and isinstance(owner, str)):
        return None
    head = quote(f"{owner}:{branch}", safe="")
    found = _open_one(
        api.get_all(f"/repos/{workflow.repository}/pulls?state=open&head={head}&per_page=100"), commit, workflow
    )
    identity = run.get("id")
    if found is None or not isinstance(identity, int):
        return found
    base = workflow.run_url.rpartition("/")[0]
    url = f"{base}/{identity}" if base else ""
    return PullRequest(number=found.number, commit=found.commit, fork=found.fork, run_url=url)


def _open_one(pulls: Iterable[Any], commit: str, workflow: Workflow) -> PullRequest | None:
    """A pull request that has got newer commits, or is closed, isn't told of what is old."""
    for pull in pulls:
        found = _from_pull_request(pull, workflow)
        if found and found.commit == commit and _at(pull, "state") == "open":
            return found
    return None


def _from_pull_request(pull: Any, workflow: Workflow) -> PullRequest | None:
    if not isinstance(pull, dict) or not (number := _number(pull)):
        return None
    head = _at(pull, "head", "repo", "full_name")
    own = isinstance(head, str) and head.lower() == workflow.repository.lower()
    return PullRequest(number=number, commit=_commit(_at(pull, "head", "sha")), fork=not own)


def _commit(value: Any) -> str:
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else ""


def _number(holder: dict[str, Any]) -> int | None:
    number = holder.get("number")
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def _at(holder: Any, *names: str) -> Any:
    for name in names:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder


def _read_event(workflow: Workflow) -> dict[str, Any]:
    """Empty where there is none, or none that can be read."""
    if workflow.event_path is None:
        return {}
    try:
        with workflow.event_path.open("rb") as file:
            event = json.loads(file.read(LARGEST_EVENT))
    except (OSError, ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
