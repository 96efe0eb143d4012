"""Who works in a folder alone: a lock that the system takes back when its holder dies, however that happens."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

NAME = ".onnx-gate.lock"


class Held(Exception):
    """Somebody else has the lock."""


class FolderLock:
    """The lock of a folder, taken at once or not at all; raises Held, or OSError where no file can be made.

    Children that run another program don't inherit it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self.exclusive = True
        """False on a file system that knows no locks: others may be here as well."""
        self._fd = self._open()
        while self.exclusive and not self._is_in_place():
            os.close(self._fd)
            self._fd = self._open()

    def release(self) -> None:
        """The file goes first: whoever opens it before that, and gets the lock after that, looks again."""
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
