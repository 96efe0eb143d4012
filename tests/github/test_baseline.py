"""Whole steps with a baseline: found on GitHub or in a file, and never a reason for another verdict."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_gate.reports import json as results_json
from onnx_gate.vocabulary import ChangeKind, Status
from tests.github.server import REPOSITORY, Fault, GitHub
from tests.github.step import HEAD, Step
from tests.github.test_artifacts import zipped
from tests.golden.families import FAMILIES
from tests.onnx_models import F, save, value

PULL = {
    "pull_request": {"number": 7, "head": {"sha": HEAD, "repo": {"full_name": REPOSITORY}}, "base": {"ref": "main"}}
}
AUTO = {"INPUT_BASELINE": "auto", "INPUT_COMMENT": "never"}
Run = Callable[..., Step]


def verdicts(folder: Path = Path("onnx-gate-report")) -> tuple[Any, ...]:
    """All that a baseline must not touch."""
    result = results_json.read(folder)
    checks = [(m.id, m.verdict, m.cause, [check.status for check in m.checks]) for m in result.models]
    return result.verdict, result.exit_code, result.complete, checks


def kept() -> bytes:
    """The last run's results.json, as an artifact."""
    return zipped(Path("onnx-gate-report/results.json").read_bytes())


def test_a_pull_request_is_compared_with_the_last_push(step: Run, github: GitHub, workspace: Path) -> None:
    """Summary, comment, page, JUnit, outputs and results say what changed; the history grows with each push."""
    shutil.copy("right.npz", "wrong.npz")
    assert step().code == 0
    github.push(1, kept())
    event, ref = {"ref": "refs/heads/main"}, "refs/heads/main"
    assert step(pull=event, GITHUB_REF=ref, **AUTO).warnings == []
    github.push(2, kept())
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez("wrong.npz", x=x, y=3 * x)
    done = step(pull=PULL, INPUT_BASELINE="auto")
    assert done.code == 1
    assert done.warnings == []
    said = "- ❌ **newly diverged**: `wrong` (passed before)"
    title = f"**Against main at {2:040x}"[:24]
    folder = workspace / "onnx-gate-report"
    for text in (done.summary, github.comments[0]["body"]):
        assert title in text
        assert said in text
        assert "▁▁ → █" in text
    assert "changed<<" in done.outputs
    assert 'name="changed" value="newly diverged (passed before)' in (folder / "junit.xml").read_text()
    page = (folder / "report.html").read_text()
    assert "<b>newly diverged</b>" in page
    result = results_json.read(folder)
    assert result.baseline
    assert [run.commit for run in result.baseline.runs] == [f"{number:040x}" for number in (1, 2)]
    assert [len(model.past or ()) for model in result.models] == [2, 2]


def test_a_forks_branch_of_the_same_name_is_no_baseline(step: Run, github: GitHub) -> None:
    """Nor is a run under way; one warning says what to do."""
    step(INPUT_COMMENT="never")
    github.push(1, kept(), head_repository={"full_name": "mallory/models"})
    github.push(2, kept(), event="pull_request", head_repository={"full_name": "mallory/models"})
    github.push(3, kept(), status="in_progress")
    before = verdicts()
    done = step(pull=PULL, **AUTO)
    assert verdicts() == before
    assert len(done.warnings) == 1
    assert "no push to the base branch has kept a complete results.json" in done.warnings[0]
    assert results_json.read(Path("onnx-gate-report")).baseline is None
    assert not any("artifacts" in each.path for each in github.asked)


def test_a_run_that_was_stopped_is_passed_over(step: Run, github: GitHub) -> None:
    """The one before it was whole; a shard is not either."""
    step(INPUT_COMMENT="never")
    whole = results_json.read(Path("onnx-gate-report"))
    github.push(1, kept())
    stopped = replace(whole, complete=False, exit_code=143)
    github.push(2, zipped(results_json.render(stopped).encode()))
    done = step(pull=PULL, **AUTO)
    assert done.warnings == []
    result = results_json.read(Path("onnx-gate-report"))
    assert result.baseline and result.baseline.source.endswith("/runs/1")


def expired(github: GitHub) -> None:
    github.push(1)
    github.keep(1, kept(), expired=True)


def huge(github: GitHub) -> None:
    github.push(1)
    github.keep(1, kept(), size_in_bytes=10**12)


def refused(github: GitHub) -> None:
    github.push(1, kept())
    github.faults.append(Fault(403, method="GET"))


def hanging(github: GitHub) -> None:
    github.push(1, kept())
    github.faults.append(Fault(500, method="GET"))


def silent(github: GitHub) -> None:
    github.push(1, kept())
    github.faults.append(Fault(0, method="GET"))


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda github: None, "no push to the base branch has kept"),
        (lambda github: github.push(1), "no push to the base branch has kept"),
        (expired, "that is still there"),
        (huge, "at most 64 MiB are taken"),
        (refused, "GitHub answers 403: fault 403. Fix: the job needs `permissions: {actions: read}`"),
        (hanging, "GitHub answers 500"),
        (silent, "GitHub could not be reached"),
        (lambda github: github.push(1, b"no zip"), "can't be unpacked"),
        (lambda github: github.push(1, zipped(b"{}")), "not a results.json of this version"),
        (lambda github: github.push(1, zipped(b"[" * 100_000)), "not a results.json"),
        (lambda github: github.push(1, zipped(b"{}", name="x.json")), "holds no results.json"),
    ],
    ids=["none", "no artifact", "expired", "huge", "403", "500", "no answer", "no zip", "no result", "deep", "no file"],
)
def test_whatever_fails_is_one_warning(
    step: Run, github: GitHub, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[GitHub], Any], words: str
) -> None:
    """And the verdict, the files and the exit code are as they were."""
    monkeypatch.setattr("onnx_gate.baselines.find.PATIENCE", 2.0)
    assert step(INPUT_COMMENT="never").code == 1
    before = verdicts()
    prepare(github)
    done = step(pull=PULL, **AUTO)
    assert done.code == 1
    assert verdicts() == before
    assert len(done.warnings) == 1
    assert words in done.warnings[0]
    assert "The run is judged as without one" in done.warnings[0]
    assert "\n" + "changed<<" in "\n" + done.outputs


def test_without_a_token_there_is_one_warning(step: Run) -> None:
    """`auto` needs one."""
    done = step(pull=PULL, INPUT_TOKEN="", **AUTO)
    assert done.code == 1
    assert len(done.warnings) == 1
    assert "there is no token" in done.warnings[0]


def test_a_bug_is_one_warning(step: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is ours."""
    monkeypatch.setattr("onnx_gate.baselines.find.kept_files", lambda *_: 1 / 0)
    done = step(pull=PULL, **AUTO)
    assert done.code == 1
    assert ["a bug in onnx-gate (ZeroDivisionError)" in line for line in done.warnings] == [True]


# ── A file ──────────────────────────────────────────────────────────────────────────────────────────────


def hostile() -> dict[str, bytes]:
    """Baselines that somebody else made."""
    good = results_json.read(Path("onnx-gate-report"))
    better = tuple(replace(m, verdict=Status.PASSED, checks=()) for m in good.models)
    lies = json.loads(results_json.render(good))
    for model in lies["models"]:
        for check in model["checks"]:
            check["status"] = "passed"
    return {
        "empty": b"",
        "no JSON": b"\xff\xfe<results>",
        "another schema": b'{"schema": 1}',
        "deep": b"[" * 200_000,
        "no checks": results_json.render(replace(good, models=better)).encode(),
        "lies": json.dumps(lies).encode(),
        "stopped": results_json.render(replace(good, complete=False, exit_code=143)).encode(),
        "nasty": results_json.render(FAMILIES["nasty"]()).encode(),
        "history": results_json.render(FAMILIES["history"]()).encode(),
    }


@pytest.mark.parametrize("name", ["empty", "no JSON", "another schema", "deep", "no checks", "lies", "stopped"])
def test_a_file_that_is_no_baseline_is_one_warning(step: Run, name: str) -> None:
    """Verdict, statuses and exit code are the same with any baseline."""
    step(INPUT_COMMENT="never")
    before = verdicts()
    Path("baseline.json").write_bytes(hostile()[name])
    done = step(INPUT_BASELINE="baseline.json", INPUT_COMMENT="never")
    assert (done.code, verdicts()) == (1, before)
    assert len(done.warnings) == 1
    assert "Fix:" in done.warnings[0]
    assert results_json.read(Path("onnx-gate-report")).baseline is None


@pytest.mark.parametrize("name", ["nasty", "history"])
def test_a_strange_baseline_changes_nothing_but_what_is_said_of_it(step: Run, name: str) -> None:
    """It is of other models, with names that try to be more than names."""
    step(INPUT_COMMENT="never")
    before = verdicts()
    Path("baseline.json").write_bytes(hostile()[name])
    done = step(INPUT_BASELINE="baseline.json", INPUT_COMMENT="never")
    assert (done.code, verdicts()) == (1, before)
    result = results_json.read(Path("onnx-gate-report"))
    refused = len(done.warnings) == 1 and "contradicts itself" in done.warnings[0]
    assert refused or (result.baseline and all(m.changes for m in result.models))


@pytest.mark.parametrize("path", ["nowhere.json", "pipe", "loop", "onnx-gate.yml", "x" * 5000])
def test_a_path_that_leads_to_no_result_is_one_warning(step: Run, path: str) -> None:
    """A cache may not have been filled yet."""
    if path == "pipe":
        os.mkfifo(path)
    if path == "loop":
        Path(path).symlink_to(path)
    done = step(INPUT_BASELINE=path, INPUT_COMMENT="never")
    assert done.code == 1
    assert len(done.warnings) == 1
    assert "Fix:" in done.warnings[0]
    assert "bug" not in done.warnings[0]


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────

MODELS = """\
version: 1
defaults: {strength: false}
models:
"""


def times(path: str, factor: float, *, opset: int = 18, ballast: int = 0) -> None:
    """y = factor · x, in a file with so many bytes more."""
    nodes = [helper.make_node("Mul", ["x", "by"], ["y"])]
    constants: dict[str, Any] = {"by": np.float32(factor)}
    if ballast:
        nodes = [helper.make_node("Mul", ["x", "by"], ["a"]), helper.make_node("Add", ["a", "many"], ["b"])]
        nodes.append(helper.make_node("Gather", ["b", "first"], ["y"], axis=0))
        constants |= {"many": np.zeros((ballast // 4, 1, 1), np.float32), "first": np.int64(0)}
    save(Path(path), nodes, [value("x", F)], [value("y", F)], constants, opset=opset)


def manifest(*ids: str) -> None:
    """Models of these names, each held against y = 2·x."""
    rows = "".join(f"  - {{id: {name}, source: {name}.onnx, data: right.npz}}\n" for name in ids)
    Path("onnx-gate.yml").write_text(MODELS + rows)


def test_two_real_runs_with_changed_models_between_them(workspace: Path, step: Run) -> None:
    """Into the same folder: the baseline is read before the folder is emptied."""
    for name in ("same", "drifting", "breaking", "healing", "growing", "leaving"):
        times(f"{name}.onnx", 3.0 if name == "healing" else 2.0)
    manifest("same", "drifting", "breaking", "healing", "growing", "leaving")
    assert step("run").code == 1
    times("drifting.onnx", 2.0008)
    times("breaking.onnx", 2.5)
    times("healing.onnx", 2.0)
    times("growing.onnx", 2.0, opset=20, ballast=40_000)
    times("joining.onnx", 2.0)
    manifest("same", "drifting", "breaking", "healing", "growing", "joining")
    done = step("run", "--baseline", "onnx-gate-report")
    assert done.code == 1
    result = results_json.read(workspace / "onnx-gate-report")
    found = {m.id: [change.kind for change in m.changes or ()] for m in result.models}
    assert found == {
        "same": [],
        "drifting": [ChangeKind.DRIFTED],
        "breaking": [ChangeKind.DIVERGED],
        "healing": [ChangeKind.FIXED],
        "growing": [ChangeKind.LARGER, ChangeKind.OPSET],
        "joining": [ChangeKind.NEW],
    }
    assert result.baseline
    assert result.baseline.gone == ("leaving",)
    assert [each.what for each in result.baseline.differences] == ["manifest"]
    summary = (workspace / "onnx-gate-report/summary.md").read_text()
    assert "The baseline was made with another manifest, or before it was edited" in summary
    # What was said is said again by `report`, and by no other baseline than its own.
    again = step("report", "onnx-gate-report", "--output", "again")
    assert again.code == 1
    assert (workspace / "again/summary.md").read_text() == summary
    step("report", "onnx-gate-report", "--output", "self", "--baseline", "onnx-gate-report/results.json")
    shown = results_json.read(workspace / "self")
    assert shown.baseline
    assert not any(m.changes for m in shown.models)
    assert len(shown.baseline.runs) == 2


def test_shards_are_compared_when_they_are_merged(workspace: Path, step: Run) -> None:
    """What a shard said of a baseline is not handed on."""
    times("a.onnx", 2.0)
    times("b.onnx", 2.0)
    manifest("a", "b")
    assert step("run", "--output", "before").code == 0
    times("b.onnx", 2.5)
    for number in (1, 2):
        step("run", "--shard", f"{number}/2", "--output", f"shards/{number}", "--baseline", "before")
    step("merge", "shards", "--output", "bare")
    assert results_json.read(workspace / "bare").baseline is None
    done = step("merge", "shards", "--output", "merged", "--baseline", "before")
    assert done.code == 1
    assert verdicts(workspace / "merged") == verdicts(workspace / "bare")
    result = results_json.read(workspace / "merged")
    assert [[change.kind for change in m.changes or ()] for m in result.models] == [
        [],
        [ChangeKind.DIVERGED],
    ]
    shard = step("run", "--baseline", "shards/1")
    assert "it is only shard 1/2" in "".join(shard.warnings)
