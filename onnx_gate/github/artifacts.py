"""A file that an earlier push to a branch of this repository kept as an artifact. It needs `actions: read`.

Neither the names nor the bytes are trusted: a fork may have a branch of the same name, and a zip may hold anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from onnx_gate.github.api import Api
from onnx_gate.github.event import COMMIT, at, base_branch, workflow_file
from onnx_gate.github.http import LARGEST_ANSWER, ApiError
from onnx_gate.records.settings import Workflow
from onnx_gate.wording.numbers import size
from onnx_gate.wording.text import one_line

MOST_RUNS = 20
"""The most runs whose artifacts are looked at."""
MOST_FILES = 10_000
"""The most files in a zip: the list of more would take more memory than the wanted file."""
_ENTRY = b"PK\x01\x02"
"""The start of each entry in the list of files of a zip."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A file of an earlier run."""

    data: bytes
    """The content of the file."""
    branch: str
    """The branch of the push."""
    commit: str
    """The commit that was pushed; empty if GitHub doesn't say."""
    run: str
    """The address of the run's page, or its number if there is no page."""


def kept_files(api: Api, workflow: Workflow, artifact: str, name: str, limit: int) -> Iterator[Kept]:
    """The file of that name in the artifacts of earlier pushes to the base branch, the newest first."""
    branch = base_branch(workflow, api)
    if not branch:
        raise ApiError("this run is about no branch, so that there is no earlier push to it")
    for run in _pushes(api, workflow, branch)[:MOST_RUNS]:
        found = _artifact(api, workflow, run["id"], artifact)
        if found is None:
            continue
        archive = api.download(f"/repos/{workflow.repository}/actions/artifacts/{found}/zip")
        yield Kept(
            data=unpack(archive, name, limit),
            branch=branch,
            commit=_commit(run.get("head_sha")),
            run=_page(run["id"], workflow),
        )


def _pushes(api: Api, workflow: Workflow, branch: str) -> list[dict[str, Any]]:
    """Finished runs of pushes to the branch: first those of our own workflow, then others, each the newest first."""
    asked = f"branch={quote(branch, safe='')}&event=push&status=completed&per_page=100"
    answer = api.get(f"/repos/{workflow.repository}/actions/runs?{asked}")
    listed = at(answer, "workflow_runs")
    if not isinstance(listed, list):
        raise ApiError("GitHub's answer has no list of runs")
    own = [run for run in listed if _is_own_push(run, workflow, branch)]
    file = workflow_file(workflow)
    return sorted(own, key=lambda run: (run.get("path") != file, -run["id"]))


def _is_own_push(run: Any, workflow: Workflow, branch: str) -> bool:
    """Whether a run is a push to this repository; a fork's branch of the same name does not count."""
    known = (at(run, "event"), at(run, "status"), at(run, "head_branch"))
    home, number = at(run, "head_repository", "full_name"), at(run, "id")
    return (
        known == ("push", "completed", branch)
        and isinstance(home, str)
        and home.lower() == workflow.repository.lower()
        and isinstance(number, int)
        and _is_earlier(number, workflow)
    )


def _is_earlier(number: int, workflow: Workflow) -> bool:
    """Whether a run is earlier: a push that is run again is not compared with later ones, but a pull request may be."""
    if not workflow.ref.startswith("refs/heads/") or not workflow.run_id.isdecimal():
        return True
    return number < int(workflow.run_id)


def _artifact(api: Api, workflow: Workflow, run: int, name: str) -> int | None:
    """The id of the run's last artifact of that name; None if there is none, or it has expired."""
    asked = f"name={quote(name, safe='')}&per_page=100"
    listed = at(api.get(f"/repos/{workflow.repository}/actions/runs/{run}/artifacts?{asked}"), "artifacts")
    found = [each for each in listed if _is_there(each, name)] if isinstance(listed, list) else []
    if not found:
        return None
    last = max(found, key=lambda each: each["id"])
    large = last.get("size_in_bytes")
    if isinstance(large, int) and large > LARGEST_ANSWER:
        raise ApiError(
            f"the artifact {one_line(name)} of run {run} has {size(large)}, at most {size(LARGEST_ANSWER)} are taken"
        )
    return int(last["id"])


def _is_there(artifact: Any, name: str) -> bool:
    kept = at(artifact, "name") == name and at(artifact, "expired") is False
    return kept and isinstance(at(artifact, "id"), int)


def _commit(value: Any) -> str:
    return value if isinstance(value, str) and COMMIT.fullmatch(value) else ""


def _page(number: int, workflow: Workflow) -> str:
    base = workflow.run_url.rpartition("/")[0]
    return f"{base}/{number}" if base else f"run {number}"


def unpack(archive: bytes, name: str, limit: int) -> bytes:
    """One file of a zip; nothing else is unpacked, and nothing is written to disk. Raises ApiError for any fault."""
    if archive.count(_ENTRY) > MOST_FILES:
        raise ApiError(f"the artifact holds more than {MOST_FILES:,} files")
    try:
        with ZipFile(BytesIO(archive)) as opened:
            entry = opened.getinfo(name)
            if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise ApiError(f"{name} in the artifact is packed in an unusual way")
            with opened.open(entry) as file:
                data = file.read(limit + 1)
    except KeyError:
        raise ApiError(f"the artifact holds no {name}") from None
    # The library raises RuntimeError if a file needs a password, or for anything else that it can't do.
    except (BadZipFile, RuntimeError, OSError, ValueError, EOFError, OverflowError, zlib.error) as error:
        raise ApiError(f"the artifact can't be unpacked ({type(error).__name__})") from None
    if len(data) > limit:
        raise ApiError(f"{name} in the artifact has more than {size(limit)}")
    return data
