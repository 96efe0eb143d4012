"""Python stacks that a process left in its log: where it crashed, or where it was at its timeout."""

from __future__ import annotations

import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current t|T)hread 0x[0-9a-f]+[^\n]*\(most recent call first\):$", re.MULTILINE)
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<inside>.+)$")
_OURS = str(Path(__file__).parent.parent)
_PYTHONS = tuple({*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")), f"{sys.base_prefix}/lib"})
_MOST_OWN = 3
_LONGEST = 120


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One call on a stack, as faulthandler writes it."""

    file: str
    """The path as Python knows it."""
    line: int
    """The line in the file."""
    function: str
    """The function that was called."""

    @property
    def package(self) -> str:
        """The installed package that the file belongs to; empty if none."""
        found = _INSTALLED.search(self.file)
        return re.split(r"[/\\]", found["inside"])[0] if found else ""

    @property
    def is_ours(self) -> bool:
        """Whether this is a line of the gate itself."""
        return self.file.startswith(f"{_OURS}/")

    @property
    def is_users(self) -> bool:
        """Whether this is a line of the user: not of a library, of Python or of the gate."""
        return not (self.package or self.is_ours or self.file.startswith(("<", *_PYTHONS)))

    def __str__(self) -> str:
        found = _INSTALLED.search(self.file)
        name = found["inside"] if found else Path(self.file).name
        return f"{name[:_LONGEST]}, line {self.line} in {self.function[:_LONGEST]}"


def of_crash(log: str) -> list[Frame]:
    """The stack of the last crash in native code, the innermost call first."""
    _, fatal, dump = log.rpartition("Fatal Python error")
    return frames_of(dump) if fatal else []


def of_process(dump: str) -> list[Frame]:
    """The stack of the thread that shows best where a process is, the innermost call first.

    That is a thread with lines of the user, and among those the main thread, which is written last.
    """
    threads = [frames for part in _THREAD.split(dump)[1:] if (frames := frames_of(part))]
    own = [frames for frames in threads if any(frame.is_users for frame in frames)]
    return (own or threads or [[]])[-1]


def told(frames: list[Frame]) -> str:
    """The frames in words: the user's lines first, then the innermost call, maybe in a library that they call."""
    own = [frame for frame in frames if frame.is_users]
    others = [frame for frame in frames if not frame.is_ours]
    if not own:
        return str((others or frames)[0])
    path = ", called from ".join(map(str, own[:_MOST_OWN]))
    return path if own[0] == others[0] else f"{path}; within it at {others[0]}"


def frames_of(text: str) -> list[Frame]:
    """The calls of a stack, in its order."""
    return [
        Frame(file=found["file"], line=int(found["line"]), function=found["function"].strip())
        for found in _FRAME.finditer(text)
    ]
