"""Files of results that somebody else may have made: no link is followed, and only plain files are read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from onnx_gate.errors import CannotMerge
from onnx_gate.wording.numbers import size
from onnx_gate.wording.text import one_line

_FIX = "Fix: download the artifact again, as `onnx-gate run` wrote it"


@contextmanager
def opened(folder: Path, name: str, limit: int) -> Iterator[BinaryIO | None]:
    """A plain file of the folder, of at most `limit` bytes; None if it doesn't exist. `name` may contain one folder."""
    *folders, last = name.split("/")
    with ExitStack() as stack:
        try:
            at = stack.enter_context(_folder(folder, None))
            for each in folders:
                at = stack.enter_context(_folder(each, at))
            # Without O_NONBLOCK, opening a pipe would wait for its writer.
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            linked = error.errno in (errno.ELOOP, errno.ENOTDIR)
            why = "a link, or something else that is no folder, is in its way" if linked else str(error.strerror)
            raise CannotMerge(f"{one_line(f'{folder}/{name}')}: it can't be read ({why}). {_FIX}") from None
        with ExitStack() as undo:
            undo.callback(os.close, handle)
            # Checked before `fdopen`, which gives a less helpful error for a folder.
            _require_plain(os.fstat(handle), one_line(f"{folder}/{name}"), limit)
            undo.pop_all()
        yield stack.enter_context(os.fdopen(handle, "rb"))


@contextmanager
def _folder(name: str | Path, at: int | None) -> Iterator[int]:
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield handle
    finally:
        os.close(handle)


def _require_plain(found: os.stat_result, shown: str, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise CannotMerge(f"{shown}: got a folder, a device or a pipe, expected a plain file. {_FIX}")
    if found.st_size > limit:
        raise CannotMerge(f"{shown}: it has {size(found.st_size)}, at most {size(limit)} are taken. {_FIX}")


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """A file's bytes, a mebibyte at a time."""
    while piece := file.read(1024 * 1024):
        yield piece
