"""What is kept of a reference: a model's code may have put anything into its place."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_gate.errors import UsageError
from onnx_gate.references.save import plain_files, read_by
from tests.conftest import run_manifest
from tests.onnx_models import external

MANIFEST = "version: 1\nmodels:\n  - {id: m, source: m.onnx, batches: [2]}\n"
OWNER = 1001


def link(folder: Path) -> None:
    (folder / "case-0.npz").symlink_to("/etc/passwd")


def linked_folder(folder: Path) -> None:
    (folder / "model").symlink_to("/etc")


def second_name(folder: Path) -> None:
    (folder.parent / "secret").touch()
    (folder / "case-0.npz").hardlink_to(folder.parent / "secret")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "case-0.npz")


def depth(folder: Path) -> None:
    (folder / "a/b/c").mkdir(parents=True)


@pytest.mark.parametrize("trick", [link, linked_folder, second_name, pipe, depth])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, trick: Callable[[Path], None]) -> None:
    """Nothing is taken along that the model could not have written itself."""
    made = tmp_path / "made"
    made.mkdir()
    trick(made)
    with pytest.raises(OSError, match="is no plain file"):
        plain_files(made)


def test_a_link_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    """It would be walked."""
    (tmp_path / "made").symlink_to("/etc")
    with pytest.raises(OSError, match="is no plain folder"):
        plain_files(tmp_path / "made")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
def test_references_go_to_the_owner_of_the_workspace(tmp_path: Path) -> None:
    """As reports do, with the folders on the way."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    external(workspace / "m.onnx")
    os.chown(workspace, OWNER, OWNER)
    run_manifest(workspace, MANIFEST, save_reference=workspace / "deep" / "references")
    made = [workspace / "deep", *(workspace / "deep").rglob("*")]
    assert (workspace / "deep/references/m/index.json") in made
    assert {path.stat().st_uid for path in made} == {OWNER}


def unfinished(folder: Path, model_id: str = "m") -> Path:
    """What a run that was killed while it saved leaves."""
    left = folder / f".{model_id}.fresh"
    left.mkdir(parents=True)
    (left / "case-0.npz").touch()
    return left


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path: Path) -> None:
    """The next run that saves there removes it, also that of other models; one that uses the references ignores it."""
    external(tmp_path / "m.onnx")
    references = tmp_path / "references"
    unfinished(references)
    unfinished(references, "other")
    run_manifest(tmp_path, MANIFEST, save_reference=references)
    assert [path.name for path in references.iterdir()] == ["m"]
    unfinished(references, "other")
    assert run_manifest(tmp_path, MANIFEST, reference=references).result.exit_code == 0


def test_what_another_run_is_saving_stays(tmp_path: Path) -> None:
    """Two runs may save different models into one folder at the same time."""
    external(tmp_path / "m.onnx")
    references = tmp_path / "references"
    left = unfinished(references, "other")
    fd = os.open(references, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    run_manifest(tmp_path, MANIFEST, save_reference=references)
    os.close(fd)
    assert left.is_dir()
    assert (references / "m/index.json").is_file()


@pytest.mark.parametrize("name", [".fresh", "m.fresh", ".m.fresh.bak"])
def test_a_folder_of_somebody_elses_is_still_refused(tmp_path: Path, name: str) -> None:
    """Only what is called as ours are counts as ours."""
    external(tmp_path / "m.onnx")
    (tmp_path / "references" / name).mkdir(parents=True)
    with pytest.raises(UsageError, match="which is no reference"):
        run_manifest(tmp_path, MANIFEST, save_reference=tmp_path / "references")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b'["' + b"x" * 5 * 2**20 + b'"]', "longer than 4 MiB"),
        (b'{"a": 1}', "no list"),
        (b"[" * 100_000, "no list"),
        (b"\xff", "no list"),
        (None, "No such file"),
    ],
)
def test_a_reference_is_not_kept_without_the_files_that_were_read(
    tmp_path: Path, written: bytes | None, said: str
) -> None:
    """Else nobody would notice that one of them has changed."""
    if written is not None:
        (tmp_path / "read.json").write_bytes(written)
    with pytest.raises(OSError, match=said):
        read_by(tmp_path / "read.json")
