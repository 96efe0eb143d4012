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
        return [self._shown(path) for path in self._found() if self._is_inside(path)]

    def outside(self) -> list[str]:
        """The links of the repository that lead to files outside of it: a reference keeps no hashes of these.

        Links of Python's own environment don't count.
        """
        others = (path for path in self._found() if not path.is_relative_to(sys.prefix))
        return [self._shown(path) for path in others if not self._is_inside(path)]

    def _found(self) -> list[Path]:
        return sorted({path for name in list(self._paths) if (path := self._counted(Path(name)))})

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._repository).as_posix()

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self._repository)

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
            # A link counts by its own path: it may lead to another file later.
            places = (path, path.resolve())
            apart = any(place.is_relative_to(self._apart) for place in places)
            return path if path.is_file() and not apart else None
        return None
