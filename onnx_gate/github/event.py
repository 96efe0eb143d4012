"""Which pull request a run is about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from onnx_gate.github.api import Api
from onnx_gate.records.settings import Workflow

LARGEST_EVENT = 32 * 1024 * 1024
"""GitHub's own limit is 25 MB."""
_PULL_REF = re.compile(r"refs/pull/([1-9][0-9]{0,17})/(?:merge|head)")
_BRANCH = "refs/heads/"
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""The full hash of a commit."""


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """The pull request that gets the comment."""

    number: int
    """Its number in the repository of the workflow."""
    commit: str = ""
    """The head commit that was judged; empty if it isn't known."""
    fork: bool = False
    """It comes from another repository, which may be deleted by now: the token of its own workflows can only read."""
    run_url: str = ""
    """The page of the run that judged it, if that is not this run."""
    base: str = ""
    """The branch that it will be merged into; empty if it isn't known."""


def find_pull_request(workflow: Workflow) -> PullRequest | None:
    """The pull request that the event itself names; this needs no request to GitHub."""
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
    """The open pull request whose head is the commit of the run that we follow, or of our own run."""
    run = _read_event(workflow).get("workflow_run")
    if isinstance(run, dict):
        return _of_followed_run(run, workflow, api)
    if not COMMIT.fullmatch(workflow.commit):
        return None
    path = f"/repos/{workflow.repository}/commits/{workflow.commit}/pulls?per_page=100"
    return _open_one(api.get_all(path), workflow.commit, workflow)


def base_branch(workflow: Workflow, api: Api) -> str:
    """The branch that gets the change: the base of the pull request or merge queue; for a push, its own branch.

    Empty if there is no branch, as for a tag.
    """
    pull = find_pull_request(workflow)
    if pull is None and follows_pull_request(workflow):
        pull = ask_for_pull_request(workflow, api)
        return pull.base if pull else ""
    if pull:
        asked = None if pull.base else api.get(f"/repos/{workflow.repository}/pulls/{pull.number}")
        found = pull.base or at(asked, "base", "ref")
        return found if isinstance(found, str) else ""
    queued = at(_read_event(workflow), "merge_group", "base_ref")
    ref = queued if isinstance(queued, str) else workflow.ref
    return ref.removeprefix(_BRANCH) if ref.startswith(_BRANCH) else ""


def workflow_file(workflow: Workflow) -> str:
    """The path of the workflow's file: our own, or that of the run that we follow; empty if unknown."""
    followed = at(_read_event(workflow), "workflow_run", "path")
    if isinstance(followed, str):
        return followed.partition("@")[0]
    return workflow.workflow_ref.partition("@")[0].removeprefix(f"{workflow.repository}/")


def _of_followed_run(run: dict[str, Any], workflow: Workflow, api: Api) -> PullRequest | None:
    """The pull request of the run that we follow. The event lists none of a fork, so it is searched by its branch."""
    commit, branch = run.get("head_sha"), run.get("head_branch")
    owner = at(run, "head_repository", "owner", "login")
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
    return replace(found, run_url=url)


def _open_one(pulls: Iterable[Any], commit: str, workflow: Workflow) -> PullRequest | None:
    """The open pull request at this commit; one that is closed or has newer commits gets no old result."""
    for pull in pulls:
        found = _from_pull_request(pull, workflow)
        if found and found.commit == commit and at(pull, "state") == "open":
            return found
    return None


def _from_pull_request(pull: Any, workflow: Workflow) -> PullRequest | None:
    if not isinstance(pull, dict) or not (number := _number(pull)):
        return None
    head = at(pull, "head", "repo", "full_name")
    own = isinstance(head, str) and head.lower() == workflow.repository.lower()
    base = at(pull, "base", "ref")
    return PullRequest(
        number=number,
        commit=_commit(at(pull, "head", "sha")),
        fork=not own,
        base=base if isinstance(base, str) else "",
    )


def _commit(value: Any) -> str:
    return value if isinstance(value, str) and COMMIT.fullmatch(value) else ""


def _number(holder: dict[str, Any]) -> int | None:
    number = holder.get("number")
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def at(holder: Any, *names: str) -> Any:
    """The value under these nested names in an answer; None if there is no such value."""
    for name in names:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder


def _read_event(workflow: Workflow) -> dict[str, Any]:
    """The event of the workflow; empty if there is none, or it can't be read."""
    if workflow.event_path is None:
        return {}
    try:
        with workflow.event_path.open("rb") as file:
            event = json.loads(file.read(LARGEST_EVENT))
    except (OSError, ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
