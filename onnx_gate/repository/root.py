"""Where the repository begins."""

from __future__ import annotations

import re
from pathlib import Path

from onnx_gate.repository.files import read_text

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def find_repository(folder: Path) -> Path:
    """The nearest folder upwards with `.git`, else the folder itself."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def head_commit(repository: Path) -> str:
    """The commit that is checked out, as its files say; empty where they don't."""
    git = repository / ".git"
    if pointer := re.fullmatch(r"gitdir: (.+)\n?", read_text(git)):
        git = repository / pointer[1]
    head = read_text(git / "HEAD").strip()
    if not head.startswith("ref: "):
        return head if _COMMIT.fullmatch(head) else ""
    shared = git / read_text(git / "commondir").strip()
    name = head.removeprefix("ref: ")
    packed = {line.partition(" ")[2]: line.partition(" ")[0] for line in read_text(shared / "packed-refs").splitlines()}
    commit = read_text(git / name).strip() or read_text(shared / name).strip() or packed.get(name, "")
    return commit if _COMMIT.fullmatch(commit) else ""
