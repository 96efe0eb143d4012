"""A look at files that anybody may have put there: what can't be read is nothing, and nothing can make it wait."""

from __future__ import annotations

import os
import stat
from pathlib import Path

LARGEST = 1024 * 1024
"""How much of a file is searched, in bytes."""


def read_text(path: Path, largest: int = LARGEST) -> str:
    """The start of a regular file; empty for whatever else is there."""
    return read_start(path, largest)[0]


def read_plain_text(path: Path) -> str:
    """The same of a file that is text; empty for anything else, such as weights."""
    text = read_text(path)
    return "" if "\0" in text or "\ufffd" in text[:-1] else text


def read_start(path: Path, largest: int) -> tuple[str, bool]:
    """The same, and whether that is all of it. Of other kinds nothing is read: a pipe would never end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        # A path out of a file can hold a NUL.
        return "", True
    try:
        start = _read(fd, largest + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return "", True
    finally:
        os.close(fd)
    return start[:largest].decode("utf-8", "replace"), len(start) <= largest


def _read(fd: int, most: int) -> bytes:
    """One read may bring less than is there."""
    parts, left = list[bytes](), most
    while left and (part := os.read(fd, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


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
