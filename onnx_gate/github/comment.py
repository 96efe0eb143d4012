"""The sticky comment on a pull request: one per manifest, written once and then updated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from onnx_gate.github.api import Api
from onnx_gate.github.event import PullRequest
from onnx_gate.github.http import ApiError
from onnx_gate.records.settings import Workflow

BOT = "github-actions[bot]"
"""The author of comments that are written with a workflow's own token."""


def marker_of(manifest: str) -> str:
    """The first, invisible line of a comment on this manifest; a digest is safe for any path."""
    digest = hashlib.sha256(manifest.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"<!-- onnx-gate comment {digest} -->"


def write_comment(
    api: Api, workflow: Workflow, pull: PullRequest, marker: str, render: Callable[[str | None], str]
) -> None:
    """Update our comment, or create it; `render` gets the text of the last one."""
    comments = f"/repos/{workflow.repository}/issues/{pull.number}/comments"
    body = None
    for again in (False, True):
        found = _find(api, workflow, comments, marker)
        body = body or render(found["body"] if found else None)
        try:
            if found:
                api.patch(f"/repos/{workflow.repository}/issues/comments/{found['id']}", {"body": body})
            else:
                api.post(comments, {"body": body})
            return
        except ApiError as error:
            # The comment was deleted meanwhile, or was created without an answer: look again, and never create two.
            if again or not (error.status == 404 if found else error.unanswered):
                raise


def _find(api: Api, workflow: Workflow, comments: str, marker: str) -> dict[str, Any] | None:
    """Our first comment on any page. The marker is not enough: anybody could write it, so the author is checked too."""
    marked = [
        comment
        for comment in api.get_all(f"{comments}?per_page=100")
        if isinstance(comment, dict)
        and isinstance(comment.get("id"), int)
        and isinstance(comment.get("body"), str)
        and comment["body"].startswith(marker)
        and isinstance(comment.get("user"), dict)
    ]
    for comment in marked:
        if comment["user"].get("login") == BOT and comment["user"].get("type") == "Bot":
            return comment
    own = api.whoami(workflow.graphql_url) if marked else None
    return next((comment for comment in marked if own and _is(comment["user"], own)), None)


def _is(user: dict[str, Any], own: str) -> bool:
    """Whether a user is the one that we write as; the two interfaces name an app differently."""
    login = str(user.get("login"))
    return login == own or (user.get("type") == "Bot" and login.removesuffix("[bot]") == own.removesuffix("[bot]"))
