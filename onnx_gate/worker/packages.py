"""The packages that the user brings, beside ours."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def shadows_ours(folders: tuple[str, ...]) -> bool:
    """Whether they bring something that is here already, such as another version of a framework."""
    theirs = set(_names(folders))
    return bool(theirs) and not theirs.isdisjoint(_names(folder for folder in sys.path if folder not in folders))


def _names(folders: Iterable[str]) -> Iterator[str]:
    """What can be imported from there."""
    for folder in filter(Path.is_dir, map(Path, folders)):
        for file in folder.iterdir():
            name = file.name.partition(".")[0]
            if name.isidentifier() and not name.startswith("__") and file.suffix not in (".pth", ".txt"):
                yield name
