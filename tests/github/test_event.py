"""Which pull request a run is about, from events of every kind, the broken ones too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.github.api import Api
from onnx_gate.github.event import PullRequest, ask_for_pull_request, find_pull_request, follows_pull_request
from onnx_gate.records.settings import Workflow
from tests.github.server import REPOSITORY, TOKEN, GitHub

HEAD, OTHER = "b" * 40, "c" * 40


def pull(number: int = 7, repo: str | None = REPOSITORY, sha: str = HEAD, state: str = "open") -> dict[str, Any]:
    """As GitHub has it; `repo` None is a fork that was deleted."""
    head = {"sha": sha, "repo": {"full_name": repo} if repo else None}
    return {"number": number, "state": state, "head": head, "base": {"repo": {"full_name": REPOSITORY}}}


def followed(**changed: Any) -> dict[str, Any]:
    """A workflow_run that a fork's pull request had started."""
    run = {
        "id": 55,
        "event": "pull_request",
        "head_sha": HEAD,
        "head_branch": "fix & more",
        "head_repository": {"full_name": "eve/models", "owner": {"login": "eve"}},
        "pull_requests": [],
    }
    return {"action": "completed", "workflow_run": {**run, **changed}}


@pytest.fixture
def workflow(tmp_path: Path) -> Any:
    """A workflow with an event."""

    def make(event: Any, **given: Any) -> Workflow:
        path = tmp_path / "event.json"
        path.write_bytes(event if isinstance(event, bytes) else json.dumps(event).encode())
        return Workflow(event_path=path, repository=REPOSITORY, **given)

    return make


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ({"pull_request": pull()}, PullRequest(number=7, commit=HEAD)),
        ({"pull_request": pull(repo="ACME/Models")}, PullRequest(number=7, commit=HEAD)),
        ({"pull_request": pull(repo="eve/models")}, PullRequest(number=7, commit=HEAD, fork=True)),
        ({"pull_request": pull(repo=None)}, PullRequest(number=7, commit=HEAD, fork=True)),
        ({"pull_request": pull(sha="no commit")}, PullRequest(number=7)),
        ({"issue": {"number": 9, "pull_request": {"url": "x"}}}, PullRequest(number=9)),
        ({"issue": {"number": 9}}, None),
        ({"ref": "refs/heads/main"}, None),
    ],
    ids=["own", "case", "fork", "gone fork", "odd commit", "comment", "comment on an issue", "push"],
)
def test_the_event_names_it(workflow: Any, event: Any, found: PullRequest | None) -> None:
    """Nobody has to be asked."""
    assert find_pull_request(workflow(event)) == found


@pytest.mark.parametrize(
    "event",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"null",
        {"pull_request": None},
        {"pull_request": []},
        {"pull_request": {"number": "7; rm"}},
        {"pull_request": {"number": True}},
        {"pull_request": {"number": -1}},
        {"issue": "x"},
        {"workflow_run": 5},
    ],
)
def test_an_event_that_is_none(workflow: Any, event: Any) -> None:
    """Nothing in it is believed, and the ref still tells."""
    assert find_pull_request(workflow(event)) is None
    assert follows_pull_request(workflow(event)) is False
    assert find_pull_request(workflow(event, ref="refs/pull/12/merge")) == PullRequest(number=12)


@pytest.mark.parametrize("ref", ["refs/heads/pull/12/merge", "refs/pull/0/merge", "refs/pull/x/merge", "refs/tags/v1"])
def test_other_refs_name_none(ref: str) -> None:
    """A branch may be called anything."""
    assert find_pull_request(Workflow(ref=ref)) is None


def test_without_an_event_there_is_none(tmp_path: Path) -> None:
    """On a desk, or where the file has gone."""
    assert find_pull_request(Workflow()) is None
    assert find_pull_request(Workflow(event_path=tmp_path / "gone")) is None


@pytest.mark.parametrize("event", ["push", "schedule", None])
def test_a_workflow_that_follows_something_else(workflow: Any, event: Any) -> None:
    """Only what a pull request had started is about one."""
    assert follows_pull_request(workflow(followed())) is True
    assert follows_pull_request(workflow(followed(event=event))) is False


def test_the_pull_request_of_a_fork_is_asked_for(github: GitHub, workflow: Any) -> None:
    """By branch and commit: the event of the workflow that follows doesn't list it. The link is to the first run."""
    github.pulls = [pull(3, "eve/models", OTHER), pull(7, "eve/models")]
    asked = workflow(followed(), run_url="https://github.example/acme/models/actions/runs/99")
    assert ask_for_pull_request(asked, Api(github.url, TOKEN)) == PullRequest(
        number=7, commit=HEAD, fork=True, run_url="https://github.example/acme/models/actions/runs/55"
    )
    assert "head=eve%3Afix%20%26%20more" in github.asked[0].path


@pytest.mark.parametrize(
    ("pulls", "found"),
    [
        ([], None),
        ([pull(sha=OTHER)], None),
        ([pull(state="closed")], None),
        ([pull(4, state="closed"), pull(5)], PullRequest(number=5, commit=HEAD)),
        ([None, 5, {"number": "x"}], None),
    ],
    ids=["none", "moved on", "closed", "second", "garbage"],
)
def test_the_pull_request_of_a_commit(github: GitHub, workflow: Any, pulls: Any, found: PullRequest | None) -> None:
    """An open one whose head it is: what has moved on isn't told of what is old."""
    github.pulls = pulls
    assert ask_for_pull_request(workflow({}, commit=HEAD), Api(github.url, TOKEN)) == found


@pytest.mark.parametrize("commit", ["", "main", "../../user", "b" * 39])
def test_what_is_no_commit_is_not_asked_for(github: GitHub, workflow: Any, commit: str) -> None:
    """It would become part of an address."""
    assert ask_for_pull_request(workflow({}, commit=commit), Api(github.url, TOKEN)) is None
    assert github.asked == []
