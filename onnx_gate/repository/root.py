"""Where the repository begins."""

from __future__ import annotations

from pathlib import Path


def find_repository(folder: Path) -> Path:
    """The nearest folder upwards with `.git`, else the folder itself."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder
