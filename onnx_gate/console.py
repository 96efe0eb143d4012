"""Printing that can't fail a run: whatever the terminal can't show, or whoever stopped listening."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def prepare_streams() -> None:
    """Characters that the terminal's encoding lacks are shown as escapes instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line; a pipe whose reader has gone (`| head`), or a full disk, is silently left."""
    stream = stream or sys.stdout
    try:
        # The runner takes this for a command, anywhere in a line.
        print(text.replace("##[", "## ["), file=stream, flush=True)
    except OSError:
        # Else Python would try again at exit, and end with a code of its own.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
