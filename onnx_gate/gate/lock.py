"""A lock for exclusive use of a folder. The system releases it when its holder dies, however that happens."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

NAME = ".onnx-gate.lock"


class Held(Exception):
    """Somebody else has the lock."""


class FolderLock:
    """The lock of a folder, acquired at once or not at all; raises Held, or OSError if the file can't be created.

    Child processes that run another program don't inherit the lock.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self.exclusive = True
        """False on a file system without locks: other runs may use the folder at the same time."""
        self._fd = self._open()
        while self.exclusive and not self._is_in_place():
            os.close(self._fd)
            self._fd = self._open()

    def release(self) -> None:
        """Remove the file, then unlock: a process that had opened the removed file notices, and opens a new one."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._fd)

    def _open(self) -> int:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise Held from error
        except OSError:
            self.exclusive = False
        return fd

    def _is_in_place(self) -> bool:
        """Whether the file is still the one that others open, and not one that its last holder has removed."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.lstat())
        except FileNotFoundError:
            return False
