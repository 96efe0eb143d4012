"""The sticky comment: found on any page, ours and nobody else's, never two."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_gate.github.api import Api
from onnx_gate.github.comment import marker_of, write_comment
from onnx_gate.github.event import PullRequest
from onnx_gate.github.http import ApiError
from onnx_gate.records.settings import Workflow
from tests.github.server import BOT, REPOSITORY, TOKEN, Fault, GitHub

MARKER = marker_of("onnx-gate.yml")
OLD, NEW = f"{MARKER}\nold", f"{MARKER}\nnew"


def write(github: GitHub, marker: str = MARKER, body: str = NEW) -> list[str | None]:
    """Write the comment; returns what the last one was said to be."""
    seen: list[str | None] = []

    def render(before: str | None) -> str:
        seen.append(before)
        return body

    workflow = Workflow(repository=REPOSITORY, graphql_url=f"{github.url}/graphql")
    api = Api(github.url, TOKEN, sleep=lambda seconds: None)
    write_comment(api, workflow, PullRequest(number=7), marker, render)
    return seen


def bodies(github: GitHub) -> list[str]:
    return [comment["body"] for comment in github.comments]


def test_the_first_one_is_made(github: GitHub) -> None:
    """Beside those of others."""
    github.add("hello", {"login": "alice", "type": "User"})
    assert write(github) == [None]
    assert bodies(github) == ["hello", NEW]


@pytest.mark.parametrize("position", [0, 99, 100, 205])
def test_it_is_found_on_every_page(github: GitHub, position: int) -> None:
    """And changed in place."""
    for number in range(position):
        github.add(f"noise {number}", {"login": "alice", "type": "User"})
    github.add(OLD)
    github.add("later", {"login": "bob", "type": "User"})
    assert write(github) == [OLD]
    assert bodies(github)[position] == NEW
    assert len(github.comments) == position + 2
    assert github.requests("POST") == []


def test_each_manifest_has_its_own(github: GitHub) -> None:
    """The marker tells them apart, whatever their paths hold."""
    paths = ["onnx-gate.yml", "ml/onnx-gate.yml", "--> <b>", "x" * 5000, "\udcff"]
    assert len({marker_of(path) for path in paths}) == len(paths)
    for path in paths:
        write(github, marker_of(path), f"{marker_of(path)}\n1")
        write(github, marker_of(path), f"{marker_of(path)}\n2")
    assert bodies(github) == [f"{marker_of(path)}\n2" for path in paths]


@pytest.mark.parametrize(
    "user",
    [
        {"login": "mallory", "type": "User"},
        {"login": "github-actions[bot]", "type": "User"},
        {"login": "github-actions", "type": "User"},
        {"login": "other[bot]", "type": "Bot"},
    ],
)
def test_the_comment_of_somebody_else_is_left_alone(github: GitHub, user: dict[str, Any]) -> None:
    """Anybody can copy the marker; what it remembers isn't believed either."""
    github.add(OLD, user)
    assert write(github) == [None]
    assert bodies(github) == [OLD, NEW]


def test_a_marker_that_is_quoted_is_none(github: GitHub) -> None:
    """It is the first thing of the comment."""
    github.add(f"> {OLD}", dict(BOT))
    assert write(github) == [None]


@pytest.mark.parametrize("body", [None, 5, ""])
@pytest.mark.parametrize("user", [None, "ghost"])
def test_comments_that_are_odd(github: GitHub, body: Any, user: Any) -> None:
    """A deleted user is null."""
    github.comments = [{"id": 1, "body": body, "user": user}, {"id": "x"}, None, 7]  # type: ignore[list-item]  # odd
    assert write(github) == [None]


@pytest.mark.parametrize(
    ("user", "viewer"),
    [
        ({"login": "release-user", "type": "User"}, None),
        ({"login": "our-app[bot]", "type": "Bot"}, "our-app[bot]"),
        ({"login": "our-app[bot]", "type": "Bot"}, "our-app"),
    ],
    ids=["a user's token", "an app's token", "an app by its other name"],
)
def test_other_tokens_know_their_own_comment(github: GitHub, user: dict[str, Any], viewer: str | None) -> None:
    """A workflow may comment as somebody else than the bot of GitHub."""
    github.user, github.viewer = user, viewer
    github.add(OLD, {"login": "mallory", "type": "User"})
    github.add(OLD)
    assert write(github) == [OLD]
    assert bodies(github) == [OLD, NEW]


def test_a_user_who_is_called_like_our_app_is_not_us(github: GitHub) -> None:
    """Only an app has a name with [bot]."""
    github.user, github.viewer = {"login": "our-app[bot]", "type": "Bot"}, "our-app[bot]"
    github.add(OLD, {"login": "our-app", "type": "User"})
    assert write(github) == [None]


@pytest.mark.parametrize("fault", [Fault(502, method="POST", times=1), Fault(method="POST", times=1)])
@pytest.mark.parametrize("after", [True, False])
def test_an_answer_that_was_lost_makes_no_second_comment(github: GitHub, fault: Fault, after: bool) -> None:
    """Whether it had been made or not: there is one in the end, rendered once."""
    github.faults = [Fault(**{**vars(fault), "after": after})]
    assert write(github) == [None]
    assert bodies(github) == [NEW]


def test_a_comment_that_was_deleted_meanwhile_is_made_again(github: GitHub) -> None:
    """404 on the change."""
    github.add(OLD)

    github.faults = [Fault(404, method="PATCH", times=1)]
    assert write(github) == [OLD]
    assert bodies(github) == [NEW]


@pytest.mark.parametrize("status", [401, 403, 404, 410, 422])
def test_a_refusal_is_an_error(github: GitHub, status: int) -> None:
    """And nothing is tried a second time."""
    github.faults = [Fault(status, method="POST")]
    with pytest.raises(ApiError) as caught:
        write(github)
    assert caught.value.status == status
    assert len(github.requests("POST")) == 1
