"""A result, or the lack of one → the comment on the pull request; its failure never changes a verdict."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from functools import partial

from onnx_gate.errors import GateError
from onnx_gate.gate.console import command, say
from onnx_gate.github.api import PATIENCE, Api
from onnx_gate.github.commands import annotation, debug
from onnx_gate.github.comment import marker_of, write_comment
from onnx_gate.github.event import PullRequest, ask_for_pull_request, find_pull_request, follows_pull_request
from onnx_gate.github.http import ApiError
from onnx_gate.github.step_files import place_in_repository
from onnx_gate.records.result import GateResult
from onnx_gate.records.settings import CommentMode, Workflow
from onnx_gate.reports import comment
from onnx_gate.reports.comment import About

HURRY = 5.0
"""Seconds instead of the usual patience, if the runner is about to kill this process."""
_URL = re.compile(r"https?://[\w.:/%+~@-]+", re.ASCII)
_PERMISSION = "`permissions: {pull-requests: write}`"
_ELSEWHERE = "comment from a workflow_run workflow instead (docs/github.md shows one)"

Render = Callable[[About, str | None], str]
"""What a comment is about, and the text of the last comment → the new text."""


def publish_comment(result: GateResult, mode: CommentMode, workflow: Workflow) -> None:
    """Write or update the comment of a run; a shard leaves that to the job that merges the shards."""
    if result.shard:
        if mode is CommentMode.ALWAYS:
            warn("a shard writes no comment: it would show a part as the whole", workflow)
        return
    patience = PATIENCE if result.complete else HURRY
    _publish(mode, workflow, result.manifest, partial(comment.render, result), patience)


def publish_failure(
    error: GateError, manifest: str, mode: CommentMode, workflow: Workflow, *, patience: float = PATIENCE
) -> None:
    """Write or update the comment of a run that could not start."""
    _publish(mode, workflow, manifest, partial(comment.render_failure, error, manifest), patience)


def _publish(mode: CommentMode, workflow: Workflow, manifest: str, render: Render, patience: float) -> None:
    if mode is CommentMode.NEVER:
        return
    pull = find_pull_request(workflow)
    if pull is None and mode is CommentMode.AUTO and not follows_pull_request(workflow):
        return
    try:
        api = open_api(workflow, patience)
        pull = pull or ask_for_pull_request(workflow, api)
        if pull is None:
            raise ApiError("no open pull request has this commit as its head (any more)")
        about = _about(manifest, workflow, pull)
        write_comment(api, workflow, pull, about.marker, partial(render, about))
    except ApiError as error:
        warn(f"{_where(pull)}: {error}. Fix: {_fix(error, pull)}", workflow)
    except Exception as error:
        # This is a bug in onnx-gate, but no reason to change a verdict.
        if workflow.debug and workflow.in_actions:
            command(debug(traceback.format_exc()))
        warn(f"{_where(pull)}: a bug in onnx-gate ({type(error).__name__}). {_fix(None, pull)}", workflow)


def open_api(workflow: Workflow, patience: float) -> Api:
    """A client for the workflow's own GitHub; raises ApiError if the workflow doesn't say which."""
    if not workflow.repository or not workflow.api_url:
        raise ApiError("GITHUB_REPOSITORY and GITHUB_API_URL don't say where; is this a step of a workflow?")
    if not workflow.token:
        raise ApiError("there is no token; the action has one by itself, a command takes GITHUB_TOKEN")
    return Api(workflow.api_url, workflow.token, patience=patience)


def _about(manifest: str, workflow: Workflow, pull: PullRequest) -> About:
    url = pull.run_url or workflow.run_url
    return About(
        marker=marker_of(place_in_repository(manifest, workflow.workspace)),
        commit=pull.commit,
        run_url=url if _URL.fullmatch(url) else "",
    )


def _where(pull: PullRequest | None) -> str:
    return f"pull request {pull.number} got no comment" if pull else "no comment was written"


def _fix(error: ApiError | None, pull: PullRequest | None) -> str:
    """What a comment needs; nothing else in the run depends on the comment."""
    stands = "Verdict, summary and files are as they were"
    if pull and pull.fork:
        return (
            f"this pull request comes from a fork, whose token can only read, whatever {_PERMISSION} says: "
            f"{_ELSEWHERE}. {stands}"
        )
    again = "run the job again; " if error and error.unanswered else ""
    return (
        f"{again}the job needs {_PERMISSION}; on a pull request from a fork the token can only read even so: "
        f"{_ELSEWHERE}. {stands}"
    )


def warn(message: str, workflow: Workflow) -> None:
    """Print one line, as an annotation if this is a step of a workflow."""
    if workflow.in_actions:
        command(annotation("warning", message, title="onnx-gate"))
    else:
        say(f"onnx-gate: {message}", sys.stderr)
