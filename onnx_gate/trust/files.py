"""A look at files that anybody may have put there: what can't be read is nothing, and nothing can make it wait."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_LARGEST = 1024 * 1024


def read_text(path: Path) -> str:
    """The start of a regular file; empty for whatever else is there. A pipe would never end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            regular = stat.S_ISREG(os.fstat(fd).st_mode)
            return os.read(fd, _LARGEST).decode("utf-8", "replace") if regular else ""
        finally:
            os.close(fd)
    except (OSError, ValueError):
        # A path out of a file can hold a NUL.
        return ""


def is_file(path: Path) -> bool:
    """A regular file, or a link to one."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """A folder, or a link to one."""
    return stat.S_ISDIR(_mode(path))


def is_link(path: Path) -> bool:
    """A symbolic link, wherever it leads."""
    return stat.S_ISLNK(_mode(path, follow=False))


def exists(path: Path) -> bool:
    """Anything, also a link that leads nowhere."""
    return bool(_mode(path, follow=False))


def list_folder(path: str | Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it can't be read."""
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (OSError, ValueError):
        return []


def is_own_folder(entry: os.DirEntry[str]) -> bool:
    """A folder, and no link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _mode(path: Path, *, follow: bool = True) -> int:
    try:
        return path.stat(follow_symlinks=follow).st_mode
    except (OSError, ValueError):
        return 0
