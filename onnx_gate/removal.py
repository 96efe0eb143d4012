"""Removing what models left behind, however deep they nested it."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path


def remove(folder: Path) -> None:
    """A folder with all that is in it; links are not followed."""
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return
    # rm needs neither a stack frame nor an open file for each level.
    if folder.exists():
        subprocess.run(["/bin/rm", "-rf", "--", str(folder)], env={}, stderr=subprocess.DEVNULL, check=False)
