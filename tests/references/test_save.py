"""What is kept of a reference: a model's code may have put anything into its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_gate.references.save import plain_files
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
