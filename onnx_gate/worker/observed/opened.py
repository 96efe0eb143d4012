"""Which files of a repository the code of this process has read.

Python's audit events name them. What a native library opens by itself is not seen.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_FILES = 10_000


class Opened:
    """Takes note from when it is made, to the end of the process; `apart` is a folder that doesn't count."""

    def __init__(self, repository: Path, *, apart: Path) -> None:
        self._repository = repository
        self._within = f"{repository}{os.sep}"
        self._apart = apart
        self._paths: dict[str, None] = {}
        sys.addaudithook(self._hear)

    @property
    def full(self) -> bool:
        """Whether there may be more than are known."""
        return len(self._paths) >= MOST_FILES

    def files(self) -> list[str]:
        """Those that are there, by their paths in the repository; of compiled code, its source."""
        found = sorted({path for name in list(self._paths) if (path := self._counted(Path(name)))})
        return [path.relative_to(self._repository).as_posix() for path in found]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes) or len(self._paths) >= MOST_FILES:
            return
        # An exception here would be one of the code that opens the file, such as in a folder that is gone.
        with suppress(OSError):
            path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100  # links stay as they are
            if path.startswith(self._within):
                self._paths[path] = None

    def _counted(self, path: Path) -> Path | None:
        # Code may try to open any text, and call a file of its own anything.
        with suppress(OSError, ValueError):
            if path.parent.name == "__pycache__" and path.suffix == ".pyc":
                path = Path(importlib.util.source_from_cache(str(path)))
            plain = path.is_file() and not path.is_symlink() and not path.is_relative_to(self._apart)
            return path if plain else None
        return None
