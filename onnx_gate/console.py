"""Printing that can't fail a run, and that nobody's words can turn into a command to the Actions runner."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TextIO

# The runner trims a line before it looks for the colons, ends lines at a lone return too, and takes
# the old form of a command anywhere in a line.
_COMMAND = re.compile(r"(\A|[\r\n])([\s\u180e\u200b\ufeff]*):(?=:)")


def prepare_streams() -> None:
    """Characters that the terminal's encoding lacks are shown as escapes instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, stream: TextIO | None = None) -> None:
    """Print words, whoever's they are: none of their lines is a workflow command."""
    _print(_COMMAND.sub(r"\1\2: ", text.replace("##[", "## [")), stream)


def command(*lines: str) -> None:
    """Print workflow commands, one a line, whose words are escaped already."""
    _print("\n".join(line.replace("##[", "## [") for line in lines), None)


def _print(text: str, stream: TextIO | None) -> None:
    """A pipe whose reader has gone (`| head`), or a full disk, is silently left."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # Else Python would try again at exit, and end with a code of its own.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
