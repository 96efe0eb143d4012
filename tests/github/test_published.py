"""Whole runs of the action beside a server that plays GitHub: whatever becomes of the comment, the verdict stands."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_gate.cli.main import main_action
from onnx_gate.github import api
from onnx_gate.publish import comment
from onnx_gate.reports import RENDER
from onnx_gate.vocabulary import REPORTS
from tests.github.server import REPOSITORY, TOKEN, Fault, GitHub
from tests.github.step import HEAD, MANIFEST, Step
from tests.github.test_log import commands_of
from tests.golden.families import FAMILIES
from tests.onnx_models import endless

NEEDED = ("pull-requests: write", "fork", "workflow_run", "Verdict, summary and files are as they were")


def assert_stands(done: Step, workspace: Path) -> None:
    """The verdict, the files, the summary and the outputs of the run, as ever."""
    assert done.code == 1
    folder = workspace / "onnx-gate-report"
    assert {path.name for path in folder.iterdir()} >= set(REPORTS)
    assert json.loads((folder / "results.json").read_text())["exit_code"] == 1
    assert done.summary.startswith("## ❌ onnx-gate: 1 of 2 models diverged, 1 passed; strength 100 %\n")
    assert "\ndiverged\n" in done.outputs
    assert re.search("^::error file=onnx-gate.yml,line=4,", done.out, re.MULTILINE)
    for file in folder.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_a_comment_is_made_and_changed(step: Callable[..., Step], github: GitHub, workspace: Path) -> None:
    """The second run tells what the first one told differently."""
    first = step()
    assert_stands(first, workspace)
    assert first.warnings == []
    (comment,) = github.comments
    lines = comment["body"].splitlines()
    assert lines[1] == "## ❌ onnx-gate: 1 of 2 models diverged, 1 passed; strength 100 %"
    assert f"at `{HEAD[:7]}`" in lines[3]
    assert "(<https://github.example/acme/models/actions/runs/77>)" in lines[3]
    shutil.copy("right.npz", "wrong.npz")
    assert step().code == 0
    (comment,) = github.comments
    assert comment["body"].splitlines()[1] == "## ✅ onnx-gate: 2 of 2 models passed; strength 100 %"
    assert "- ✅ **fixed**: `wrong`" in comment["body"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(403, method="POST"), "GitHub answers 403: fault 403"),
        (Fault(403), "GitHub answers 403"),
        (Fault(404), "GitHub answers 404"),
        (Fault(401), "GitHub answers 401"),
        (Fault(410), "GitHub answers 410"),
        (Fault(422, method="POST"), "GitHub answers 422"),
        (Fault(429, headers={"retry-after": "7200"}), "to wait for 7,200 s is too long"),
        (Fault(429, headers={"retry-after": "0"}), "GitHub answers 429"),
        (Fault(502), "GitHub answers 502"),
        (Fault(), "GitHub could not be reached"),
        (Fault(hangs=True), "GitHub"),
        (Fault(200), "GitHub's answer is no list"),
        (Fault(302, headers={"Location": "http://127.0.0.1:9/elsewhere"}), "GitHub answers 302"),
    ],
    ids=lambda value: f"{value.status}{value.method}{'hangs' * value.hangs}" if isinstance(value, Fault) else "",
)
def test_a_comment_that_fails_changes_nothing(
    step: Callable[..., Step],
    github: GitHub,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    words: str,
) -> None:
    """One warning says why, which permission it takes, and what forks are to do."""
    monkeypatch.setattr(comment, "PATIENCE", 2.0)
    defaults = api.Api.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setattr(api.Api.__init__, "__kwdefaults__", {**defaults, "timeout": 0.3})
    github.faults = [fault]
    done = step()
    assert_stands(done, workspace)
    (warning,) = done.warnings
    assert words in warning
    assert all(word in warning for word in NEEDED)
    assert github.comments == []


@pytest.fixture
def report(step: Callable[..., Step], workspace: Path) -> Callable[..., Step]:
    """Tell a run again, which needs no model."""
    folder = workspace / "first"
    folder.mkdir()
    (folder / "results.json").write_text(RENDER["results.json"](FAMILIES["diverged"]()))
    return lambda mode="auto", **given: step("report", "first", "--output", "again", "--comment", mode, **given)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"GITHUB_TOKEN": ""}, "there is no token"),
        ({"GITHUB_TOKEN": "two words"}, "the token is empty, or holds characters that no token has"),
        ({"GITHUB_TOKEN": "ghs_wrong"}, "GitHub answers 401: Bad credentials"),
        ({"GITHUB_API_URL": None}, "don't say where"),
        ({"GITHUB_API_URL": "file:///etc"}, "GITHUB_API_URL is"),
        ({"GITHUB_API_URL": "http://127.0.0.1:1"}, "could not be reached"),
        ({"GITHUB_REPOSITORY": "acme/gone"}, "GitHub answers 404"),
    ],
)
def test_a_workflow_that_lacks_something(
    report: Callable[..., Step], monkeypatch: pytest.MonkeyPatch, environ: dict[str, str | None], words: str
) -> None:
    """The same."""
    monkeypatch.setattr(comment, "PATIENCE", 0.5)
    done = report(**environ)
    (warning,) = done.warnings
    assert done.code == 1
    assert words in warning
    assert all(word in warning for word in NEEDED)
    assert len(warning) < 1000


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_at_a_desk_the_warning_is_a_line(report: Callable[..., Step], mode: str) -> None:
    """Without a workflow there are no commands, and `auto` has nothing to do."""
    nowhere = dict.fromkeys(("GITHUB_ACTIONS", "GITHUB_REF", "GITHUB_EVENT_PATH", "GITHUB_API_URL"))
    done = report(mode, **nowhere)
    assert "::" not in done.out
    assert done.err.startswith("onnx-gate: no comment was written: ") if mode == "always" else done.err == ""


def test_a_fork_is_told_what_to_do(step: Callable[..., Step], github: GitHub, workspace: Path) -> None:
    """Its token can only read, and its repository may be gone."""
    github.faults = [Fault(403, method="POST")]
    done = step(pull={"pull_request": {"number": 7, "head": {"sha": HEAD, "repo": None}}})
    assert_stands(done, workspace)
    assert "this pull request comes from a fork, whose token can only read, whatever" in done.warnings[0]


def test_a_bug_in_the_comment_changes_nothing(
    step: Callable[..., Step], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a warning too."""

    def broken(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("onnx_gate.reports.comment.render", broken)
    done = step()
    assert_stands(done, workspace)
    assert "a bug in onnx-gate (ZeroDivisionError)" in done.warnings[0]


@pytest.mark.parametrize(
    ("mode", "pulls", "made", "warned"),
    [
        ("auto", [HEAD], 0, 0),
        ("never", [HEAD], 0, 0),
        ("always", [HEAD], 1, 0),
        ("always", ["c" * 40], 0, 1),
        ("always", [], 0, 1),
    ],
)
def test_outside_of_a_pull_request(
    report: Callable[..., Step], github: GitHub, mode: str, pulls: list[str], made: int, warned: int
) -> None:
    """A push says nothing, unless it is asked to: then the commit's pull request, or a plain warning."""
    github.pulls = [
        {"number": 7, "state": "open", "head": {"sha": sha, "repo": {"full_name": REPOSITORY}}} for sha in pulls
    ]
    done = report(mode, pull={"ref": "refs/heads/x"}, GITHUB_REF="refs/heads/x", GITHUB_SHA=HEAD)
    assert (len(github.comments), len(done.warnings)) == (made, warned)
    if warned:
        assert "no open pull request has this commit as its head (any more)" in done.warnings[0]


@pytest.mark.parametrize(
    ("manifest", "environ", "code", "words"),
    [
        ("version: 1\nmodels: []\n", {}, 2, "1 problem in the manifest, nothing was run"),
        (MANIFEST, {"INPUT_ONLY": "nobody"}, 2, "the run could not start"),
        (MANIFEST, {"INPUT_JOBS": "none"}, 2, "the run could not start"),
        (MANIFEST, {"INPUT_REQUIREMENTS": "gone.txt"}, 2, "the run could not start"),
    ],
)
def test_an_old_verdict_does_not_stand_for_a_run_that_did_not_come_about(
    step: Callable[..., Step],
    github: GitHub,
    workspace: Path,
    manifest: str,
    environ: dict[str, str],
    code: int,
    words: str,
) -> None:
    """The comment is replaced by the reason."""
    shutil.copy("right.npz", "wrong.npz")
    assert step().code == 0
    Path("onnx-gate.yml").write_text(manifest)
    done = step(**environ)
    assert done.code == code
    (comment,) = github.comments
    assert words in comment["body"].splitlines()[1]
    assert words in done.summary
    assert "Nothing was judged" in comment["body"]


def test_a_bug_of_ours_takes_an_old_verdict_down(
    step: Callable[..., Step], github: GitHub, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4, and no green comment beside it."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a slip of ours")

    monkeypatch.setattr("onnx_gate.gate.run.run_gate", broken)
    assert step().code == 4
    assert "a bug in onnx-gate itself (ZeroDivisionError)" in github.comments[0]["body"]


def test_a_command_comments_where_it_is_asked_to(step: Callable[..., Step], github: GitHub, workspace: Path) -> None:
    """With GITHUB_TOKEN; and a report can be told again, by a workflow that follows."""
    assert step("run").code == 1
    assert github.comments == []
    assert step("run", "--comment", "auto").code == 1
    assert len(github.comments) == 1
    github.comments.clear()
    github.pulls = [{"number": 7, "state": "open", "head": {"sha": HEAD, "repo": {"full_name": "eve/models"}}}]
    run = {
        "id": 55,
        "event": "pull_request",
        "head_sha": HEAD,
        "head_branch": "fix",
        "head_repository": {"owner": {"login": "eve"}},
    }
    done = step(
        *("report", "onnx-gate-report", "--output", "again", "--comment", "auto"),
        pull={"workflow_run": run},
        GITHUB_REF="refs/heads/main",
    )
    assert (done.code, done.warnings) == (1, [])
    assert "/actions/runs/55>)" in github.comments[0]["body"]


def test_a_shard_writes_no_comment(step: Callable[..., Step], github: GitHub, workspace: Path) -> None:
    """It would show a part as the whole."""
    assert step("run", "--shard", "1/2", "--comment", "auto").warnings == []
    (warning,) = step("run", "--shard", "1/2", "--comment", "always").warnings
    assert "a shard writes no comment" in warning
    assert github.asked == []


def test_a_summary_that_is_full_is_left_alone(
    step: Callable[..., Step], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above its limit GitHub would drop all of it."""
    monkeypatch.setattr("onnx_gate.github.step_files.SUMMARY_LIMIT", 900)
    done = step(INPUT_COMMENT="never")
    assert (done.code, done.summary) == (1, "")
    assert "the step's summary is full" in done.err


LOUD = """\
import os
import sys

import numpy as np


def make():
    print("::set-output name=verdict::passed")
    print("  ::add-path::/evil", file=sys.stderr)
    print("x ##[error]legacy")
    print(dict(os.environ))
    x = np.ones((4, 3), dtype=np.float32)
    return {"x": x, "y": 3 * x}
"""


@pytest.mark.parametrize("debug", [False, True])
def test_what_a_model_prints_is_shown_and_commands_nobody(
    step: Callable[..., Step], workspace: Path, debug: bool
) -> None:
    """In a group of its own; repeated with debug logging, stages, times and versions are told too."""
    Path("loud.py").write_text(LOUD)
    Path("onnx-gate.yml").write_text(MANIFEST.replace("wrong.npz", "'loud.py:make'"))
    done = step(INPUT_COMMENT="never", **({"RUNNER_DEBUG": "1"} if debug else {}))
    assert done.code == 1
    assert "::set-output name=verdict::passed" in done.out.replace(": :", "::")
    # The environment that it prints holds no token: the step looks for it everywhere.
    assert "'PATH': " in done.out
    kinds = [line.split("::")[1].split(" ")[0] for line in commands_of(done.out)]
    assert [kind for kind in kinds if kind not in ("debug", "warning")] == ["group", "endgroup", "error"]
    assert ("debug" in kinds) == debug
    if debug:
        assert re.search(r"^::debug::wrong: \S.*, after [\d.]+ s$", done.out, re.MULTILINE)
        assert re.search(r"^::debug::onnxruntime: \d", done.out, re.MULTILINE)
        assert re.search(r"^::debug::right: passed, .* converting, .* comparing \d+ times$", done.out, re.MULTILINE)


def test_an_error_tells_its_traceback_to_those_who_debug(step: Callable[..., Step]) -> None:
    """And to nobody else."""
    Path("onnx-gate.yml").write_text("version: 1\nmodels: []\n")
    assert "Traceback" not in step(INPUT_COMMENT="never").out
    assert "::debug::Traceback" in step(INPUT_COMMENT="never", RUNNER_DEBUG="1").out


def test_what_pip_prints_commands_nobody(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Packages run code while they are installed: each of its lines is marked, and none is a command."""
    Path("requirements.txt").write_text("::error::x\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("INPUT_REQUIREMENTS", "requirements.txt")
    monkeypatch.setenv("INPUT_COMMENT", "never")
    assert main_action() == 2
    out, err = capfd.readouterr()
    assert "Invalid requirement" in out
    assert "Invalid requirement" not in err
    assert [line.partition("::")[2].split()[0] for line in commands_of(out)] == ["error"]
    assert "  pip: ERROR: Invalid requirement" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_so(workspace: Path, github: GitHub, number: int) -> None:
    """In the comment too, before the runner kills us."""
    endless(workspace / "endless.onnx")
    Path("onnx-gate.yml").write_text("version: 1\nmodels:\n  - {id: endless, source: endless.onnx}\n")
    environ = {**os.environ, **github.environ, "GITHUB_TOKEN": TOKEN}
    command = [sys.executable, "-m", "onnx_gate", "run", "--comment", "auto"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "onnx-gate: 1 model\n"
        process.send_signal(number)
        process.communicate()
    assert process.returncode == 128 + number
    (comment,) = github.comments
    assert "stopped before the end" in comment["body"].splitlines()[1]
    assert "What is missing here did not pass." in comment["body"]


def test_shards_leave_the_comment_to_their_merge(step: Callable[..., Step], github: GitHub) -> None:
    """One comment, of all models, by the job that has seen all."""
    for number in (1, 2):
        shard = step("run", "--shard", f"{number}/2", "--output", f"shards/{number}", "--comment", "auto")
        assert shard.warnings == []
    assert github.comments == []
    merged = step("merge", "shards", "--comment", "auto")
    assert (merged.code, merged.warnings) == (1, [])
    assert "[1/2] ✔ right: passed" in merged.out
    [comment] = github.comments
    assert "1 of 2 models diverged, 1 passed" in comment["body"]
    assert "`right`" in comment["body"]


def test_parts_that_can_not_be_merged_replace_an_old_comment(step: Callable[..., Step], github: GitHub) -> None:
    """A green one must not stand for a run of which nothing came."""
    assert step("run", "--only", "right", "--comment", "auto").code == 0
    Path("nothing").mkdir()
    assert step("merge", "nothing", "--output", "merged", "--comment", "auto").code == 3
    [comment] = github.comments
    assert "there is no results.json to merge" in comment["body"]
