"""The folder of entries, which are found by model, written whole, and limited in size.

`<folder>/<slot>/<name>.entry`: a slot is one model of a manifest on certain providers. It holds the entries of a few
different states of the model, such as those of two branches or of two kinds of processors.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from onnx_gate.errors import UsageError
from onnx_gate.repository.files import is_own_folder, list_folder

MOST_BYTES = 2 * 1024**3
"""The default for the most bytes of all entries together."""
MOST_IN_SLOT = 4
_SLOT = re.compile(r"[0-9a-f]{32}")
_ENTRY = re.compile(r"[0-9a-f]{32}\.entry")
_FRESH = re.compile(r"\.[0-9a-f]{16}\.fresh")
_STALE_SECONDS = 24 * 3600
_TRIES = 20


@dataclass(frozen=True, kw_only=True)
class _Found:
    path: Path
    size: int
    used: int


class Store:
    """One folder; several runs may use it at the same time."""

    def __init__(self, folder: Path, *, most: int = MOST_BYTES) -> None:
        self.folder = folder
        self._most = most
        self._made = [path for path in (folder.absolute(), *folder.absolute().parents) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--cache {folder}: the folder can't be made ({error.strerror}). "
                "Fix: name a folder that you may write to"
            ) from error
        self._require_own()

    def _require_own(self) -> None:
        """Refuse a link, and a folder with other files: files of others are neither read nor removed."""
        strange = [entry.name for entry in list_folder(self.folder) if not _is_ours(entry)]
        if strange or self.folder.is_symlink():
            what = f"it holds {sorted(strange)[0]!r}, which is no part of a cache" if strange else "it is a link"
            raise UsageError(f"--cache {self.folder}: {what}. Fix: name a folder of its own")

    def entries(self, slot: str) -> list[Path]:
        """The entries of a slot, the most recently used first."""
        found = sorted(_entries_in(self.folder / slot), key=lambda each: each.used, reverse=True)
        return [each.path for each in found[:MOST_IN_SLOT]]

    def use(self, path: Path) -> None:
        """Mark an entry as used: entries that were not used are removed first."""
        with suppress(OSError):
            os.utime(path)

    def drop(self, path: Path) -> None:
        """Remove an entry."""
        with suppress(OSError):
            path.unlink()

    def write(self, slot: str, name: str, fill: Callable[[IO[bytes]], None]) -> None:
        """Write an entry whole or not at all: a temporary file, then a rename; raises OSError."""
        fresh = self.folder / f".{secrets.token_hex(8)}.fresh"
        try:
            with fresh.open("xb") as file:
                fill(file)
            self._put(fresh, self.folder / slot / f"{name}.entry")
        finally:
            fresh.unlink(missing_ok=True)
        for each in self.entries_beyond(slot):
            self.drop(each)

    def _put(self, fresh: Path, target: Path) -> None:
        """Move a file into its slot; tries again, because another run may remove the empty folder of the slot."""
        for _ in range(_TRIES):
            target.parent.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                fresh.replace(target)
                return
        raise FileNotFoundError(errno.ENOENT, "it was removed again and again", str(target.parent))

    def entries_beyond(self, slot: str) -> list[Path]:
        """The entries of a slot beyond the limit."""
        found = sorted(_entries_in(self.folder / slot), key=lambda each: each.used, reverse=True)
        return [each.path for each in found[MOST_IN_SLOT:]]

    def tidy(self) -> None:
        """Enforce the size limit, removing the least recently used entries first; one run at a time does this."""
        with _locked(self.folder) as alone:
            if not alone:
                return
            self._remove_stale()
            found = sorted(self._all(), key=lambda each: each.used, reverse=True)
            for each, total in zip(found, itertools.accumulate(each.size for each in found), strict=True):
                if total > self._most:
                    self.drop(each.path)
            for entry in list_folder(self.folder):
                if _SLOT.fullmatch(entry.name):
                    # This removes empty folders only.
                    with suppress(OSError):
                        Path(entry.path).rmdir()

    def _all(self) -> Iterator[_Found]:
        for entry in list_folder(self.folder):
            if _SLOT.fullmatch(entry.name) and is_own_folder(entry):
                yield from _entries_in(Path(entry.path))

    def _remove_stale(self) -> None:
        """Remove the temporary files of runs that were killed."""
        for entry in list_folder(self.folder):
            with suppress(OSError):
                if _FRESH.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                    Path(entry.path).unlink()

    def hand_over(self) -> None:
        """If run as root, give the folder to its owner: the workflow step that saves it runs as another user."""
        if os.name != "posix" or os.geteuid() != 0:
            return
        given = next(path for path in self.folder.absolute().parents if path not in self._made)
        owner = given.stat()
        if owner.st_uid == 0:
            return
        for path in (*self._made, self.folder, *self.folder.rglob("*")):
            with suppress(OSError):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def slot_of(*parts: str) -> str:
    """The name of a slot."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _entries_in(folder: Path) -> Iterator[_Found]:
    for entry in list_folder(folder):
        with suppress(OSError):
            if _ENTRY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                found = entry.stat(follow_symlinks=False)
                yield _Found(path=Path(entry.path), size=found.st_size, used=found.st_mtime_ns)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if _SLOT.fullmatch(entry.name):
        return is_own_folder(entry)
    return bool(_FRESH.fullmatch(entry.name)) or entry.name == _LOCK


_LOCK = ".lock"


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock, which the system releases if its holder dies; yields False if another run has it."""
    try:
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        got = False
        # Some file systems have no locks.
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            got = True
        yield got
    finally:
        os.close(fd)
