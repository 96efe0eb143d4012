"""Printing that can't fail a run, and in which no printed text can become a command to the Actions runner."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from onnx_gate.wording.text import visible

# The runner trims a line before it looks for the colons, also ends lines at a lone carriage return, and accepts
# the old form of a command anywhere in a line.
_COMMAND = re.compile(r"(\A|[\r\n])([\s\u180e\u200b\ufeff]*):(?=:)")


def prepare_streams() -> None:
    """Make the streams show characters that the terminal's encoding lacks as escapes, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, stream: TextIO | None = None) -> None:
    """Print text from any source, so that no line of it is a workflow command or controls the terminal."""
    _print(_COMMAND.sub(r"\1\2: ", _modern(visible(text))), stream)


@dataclass(frozen=True, slots=True)
class Command:
    """A line that the Actions runner obeys. Only `workflow_command` makes one; it escapes all its contents."""

    line: str
    """The text as the runner reads it."""


def workflow_command(name: str, words: str = "", **properties: object) -> Command:
    """`::error file=…,line=…::words`; properties that are empty are left out."""
    given = ",".join(f"{key}={_escape_property(str(value))}" for key, value in properties.items() if value)
    return Command(_modern(f"::{name}{' ' if given else ''}{given}::{_escape(words)}"))


def command(*commands: Command) -> None:
    """Print workflow commands, one per line."""
    _print("\n".join(each.line for each in commands), None)


def _escape(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _modern(text: str) -> str:
    """The text with the old form of a command disabled."""
    return text.replace("##[", "## [")


def _print(text: str, stream: TextIO | None) -> None:
    """Print, and silently give up on a pipe whose reader has gone (`| head`) or on a full disk."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # Otherwise Python would try again at exit, and end with its own exit code.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
