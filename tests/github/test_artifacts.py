"""The file of an earlier push: found, fetched without the token, unpacked with care."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.github import artifacts
from onnx_gate.github.api import Api
from onnx_gate.github.artifacts import Kept, kept_files, unpack
from onnx_gate.github.http import ApiError
from onnx_gate.records.settings import Workflow
from tests.github.server import REPOSITORY, TOKEN, GitHub

NAME, LIMIT = "results.json", 1000
EVENT = {"pull_request": {"number": 7, "head": {"sha": "b" * 40, "repo": None}, "base": {"ref": "main"}}}


def zipped(data: bytes = b"{}", name: str = NAME, **how: Any) -> bytes:
    """An artifact as GitHub gives it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how.get("compression", zipfile.ZIP_DEFLATED)) as archive:
        archive.writestr(name, data)
    return file.getvalue()


def look(github: GitHub, folder: Path, event: Any = EVENT, **given: Any) -> list[Kept]:
    """All that a step on pull request 7 finds."""
    path = folder / "event.json"
    path.write_text(json.dumps(event))
    known: dict[str, Any] = {
        "api_url": github.url,
        "repository": REPOSITORY,
        "event_path": path,
        "ref": "refs/pull/7/merge",
        "run_id": "77",
        "run_url": "https://github.example/acme/models/actions/runs/77",
        "workflow_ref": f"{REPOSITORY}/.github/workflows/models.yml@refs/pull/7/merge",
    }
    workflow = Workflow(**(known | given))
    api = Api(github.url, TOKEN, sleep=lambda _: None)
    return list(kept_files(api, workflow, "onnx-gate-baseline", NAME, LIMIT))


def test_pushes_to_the_base_branch_come_newest_first(github: GitHub, tmp_path: Path) -> None:
    """With what was pushed, and the page of the run; the token doesn't go to where artifacts are kept."""
    github.push(1, zipped(b"old"))
    github.push(2, zipped(b"new"))
    new, old = look(github, tmp_path)
    assert (new.data, old.data) == (b"new", b"old")
    assert new.commit == f"{2:040x}"
    assert (new.branch, new.run) == ("main", "https://github.example/acme/models/actions/runs/2")
    stored = [each for each in github.asked if each.path.startswith("/storage/")]
    assert len(stored) == 2
    assert not any("Authorization" in each.headers or TOKEN in str(each.headers) for each in stored)


@pytest.mark.parametrize(
    "given",
    [
        {"head_repository": {"full_name": "mallory/models"}},
        {"head_repository": None},
        {"event": "pull_request"},
        {"status": "in_progress"},
        {"head_branch": "other"},
        {"id": "2"},
    ],
    ids=["fork", "gone fork", "pull request", "in progress", "other branch", "no number"],
)
@pytest.mark.parametrize("filters", [True, False], ids=["filtered", "unfiltered"])
def test_nothing_else_is_a_push_to_it(
    github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], filters: bool
) -> None:
    """A fork's branch of the same name, a run under way, another event: also where GitHub's own filter let them by."""
    github.push(1, zipped(b"own"))
    github.push(2, zipped(b"other"), **given)
    if not filters:
        monkeypatch.setattr("tests.github.server._Handler._actions", _unfiltered(github))
    assert [kept.data for kept in look(github, tmp_path)] == [b"own"]


def _unfiltered(github: GitHub) -> Any:
    from tests.github.server import _Handler

    answer = _Handler._actions

    def actions(handler: Any, url: Any) -> Any:
        if url.path.endswith("/actions/runs"):
            return 200, {"workflow_runs": github.runs}, {}
        return answer(handler, url)

    return actions


def test_a_run_without_the_artifact_or_with_an_expired_one_is_passed_over(github: GitHub, tmp_path: Path) -> None:
    """The one before it is taken."""
    github.push(1, zipped(b"kept"))
    github.push(2)
    github.keep(2, zipped(b"late"), expired=True)
    github.push(3)
    github.push(4)
    github.keep(4, zipped(b"other"), name="onnx-gate-report")
    assert [kept.data for kept in look(github, tmp_path)] == [b"kept"]


def test_of_a_run_again_the_last_artifact_counts(github: GitHub, tmp_path: Path) -> None:
    """Each attempt may have left one."""
    github.push(1, zipped(b"first"))
    github.keep(1, zipped(b"second"))
    assert [kept.data for kept in look(github, tmp_path)] == [b"second"]


def test_runs_of_the_same_workflow_come_first(github: GitHub, tmp_path: Path) -> None:
    """Others have pushed later, and may keep an artifact of the same name."""
    github.push(1, zipped(b"models"))
    github.push(2, zipped(b"other"), path=".github/workflows/other.yml")
    assert [kept.data for kept in look(github, tmp_path)] == [b"models", b"other"]


def test_a_push_is_compared_with_earlier_ones_of_its_branch(github: GitHub, tmp_path: Path) -> None:
    """Also where it is run again after later ones."""
    for number in (1, 77, 99):
        github.push(number, zipped(b"%d" % number))
    found = look(github, tmp_path, event={"ref": "refs/heads/main"}, ref="refs/heads/main")
    assert [kept.data for kept in found] == [b"1"]


@pytest.mark.parametrize(
    ("event", "ref"),
    [
        ({"merge_group": {"base_ref": "refs/heads/main"}}, "refs/heads/gh-readonly-queue/main/pr-7"),
        ({"issue": {"number": 7, "pull_request": {}}}, "refs/heads/main"),
        ({}, "refs/pull/7/merge"),
    ],
    ids=["merge queue", "comment", "ref"],
)
def test_the_base_branch_is_that_of_the_change(github: GitHub, tmp_path: Path, event: Any, ref: str) -> None:
    """Where the event doesn't name it, the pull request is asked."""
    github.push(1, zipped(b"kept"))
    assert [kept.data for kept in look(github, tmp_path, event=event, ref=ref)] == [b"kept"]


def test_a_workflow_that_follows_a_pull_request_asks_for_its_base(github: GitHub, tmp_path: Path) -> None:
    """The event itself names no pull request of a fork."""
    head = {"sha": "b" * 40, "repo": {"full_name": "mallory/models"}}
    github.pulls.append({"number": 7, "state": "open", "head": head, "base": {"ref": "main"}})
    github.push(1, zipped(b"kept"))
    run = {
        "id": 70,
        "event": "pull_request",
        "head_sha": "b" * 40,
        "head_branch": "main",
        "head_repository": {"owner": {"login": "mallory"}},
        "path": ".github/workflows/models.yml",
    }
    event = {"workflow_run": run}
    assert [kept.data for kept in look(github, tmp_path, event=event, ref="refs/heads/main")] == [b"kept"]


def test_a_tag_has_no_base_branch(github: GitHub, tmp_path: Path) -> None:
    """And there is nothing to look for."""
    with pytest.raises(ApiError, match="about no branch"):
        look(github, tmp_path, event={}, ref="refs/tags/v1")


def test_no_more_runs_are_asked_than_have_to_be(github: GitHub, tmp_path: Path) -> None:
    """A repository may have thousands that kept nothing."""
    for number in range(artifacts.MOST_RUNS + 10):
        github.push(number + 1)
    assert look(github, tmp_path, run_id="1000") == []
    assert len(github.asked) == artifacts.MOST_RUNS + 1


def test_a_large_artifact_is_not_downloaded(github: GitHub, tmp_path: Path) -> None:
    """GitHub says how large it is."""
    github.push(1)
    github.keep(1, zipped(), size_in_bytes=2**40)
    with pytest.raises(ApiError, match=r"has 1 TiB, at most 64 MiB"):
        look(github, tmp_path)
    assert not any(each.path.startswith("/storage/") for each in github.asked)


@pytest.mark.parametrize("storage", ["file:///etc", "ftp://127.0.0.1", "http://[", "javascript:"])
def test_a_file_is_only_fetched_from_the_web(
    github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    """Whatever address the answer names."""
    github.push(1, zipped())
    monkeypatch.setattr(GitHub, "storage", storage)
    with pytest.raises(ApiError, match="GitHub answers 302"):
        look(github, tmp_path)


def test_a_way_that_never_ends_is_left(github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one redirect to the next."""
    github.push(1, zipped())
    again = "/repos/acme/models/actions/artifacts/1/zip?"
    monkeypatch.setattr(GitHub, "storage", property(lambda self: f"{self.url}{again}"))
    with pytest.raises(ApiError, match="GitHub answers 302"):
        look(github, tmp_path)
    assert len(github.asked) < 10


# ── The zip ─────────────────────────────────────────────────────────────────────────────────────────────


def test_one_file_is_unpacked() -> None:
    """The one of that name."""
    assert unpack(zipped(b"x" * LIMIT), NAME, LIMIT) == b"x" * LIMIT


def encrypted() -> bytes:
    """The flag is enough."""
    data = bytearray(zipped())
    at = data.rindex(b"PK\x01\x02")
    data[at + 8] |= 1
    data[6] |= 1
    return bytes(data)


def changed(offset: int, value: int) -> bytes:
    """With other numbers in its list."""
    data = bytearray(zipped(b"x" * 100))
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (b"", "can't be unpacked"),
        (b"PK\x05\x06" + b"\xff" * 18, "can't be unpacked"),
        (zipped()[:-10], "can't be unpacked"),
        (b"PK\x01\x02" * 20_000, "more than 10,000 files"),
        (zipped(name="../results.json"), "holds no results.json"),
        (zipped(name="/results.json"), "holds no results.json"),
        (zipped(b"0" * 10_000_000), "has more than 0.977 KiB"),
        (zipped(b"x" * (LIMIT + 1)), "has more than"),
        (zipped(compression=zipfile.ZIP_LZMA), "unusual way"),
        (encrypted(), "can't be unpacked"),
        (changed(16, 1), "can't be unpacked"),
        (changed(42, 2**31), "can't be unpacked"),
    ],
    ids=[
        *("empty", "torn end", "cut", "endless list", "outside", "absolute", "bomb", "too large", "lzma"),
        *("encrypted", "wrong checksum", "wrong place"),
    ],
)
def test_a_zip_that_is_wrong_costs_a_sentence(archive: bytes, words: str) -> None:
    """No memory, no file, no other exception."""
    with pytest.raises(ApiError, match=words):
        unpack(archive, NAME, LIMIT)


@pytest.mark.parametrize("step", range(8))
def test_a_zip_with_any_byte_flipped_is_read_or_refused(step: int) -> None:
    """And nothing else."""
    whole = zipped(b"some words that repeat, some words that repeat")
    for at in range(step, len(whole), 8):
        broken = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        try:
            assert len(unpack(broken, NAME, LIMIT)) <= LIMIT
        except ApiError:
            continue
