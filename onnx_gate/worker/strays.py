"""Processes that a model's code has left behind: found among our own children, and ended.

Works where `adopt_orphans` does: on Linux, whatever loses its parent below us becomes our child.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 2.0
"""Seconds for strays to end, with all that they start meanwhile."""
_PAUSE = 0.001
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, kw_only=True)
class Child:
    """A process whose parent we are; one that ended stays such until it is waited for."""

    pid: int
    """Its number, which is nobody else's until then."""
    group: int
    """Its process group."""
    session: int
    """Its session."""


def end_strays(kept: Collection[int], *, patience: float = PATIENCE) -> bool:
    """End all children but those kept; what loses its parent by that is a child then, and ends as well.

    Processes of our own session are left alone: models' code never runs in it. False if patience ran out first.
    """
    own, until = os.getsid(0), time.monotonic() + patience
    while True:
        found = False
        for child in children():
            if child.pid not in kept and child.session != own:
                found = True
                _end(child)
        if not found:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)


def children() -> Iterator[Child]:
    """The newest first: of a chain of processes that each start the next, it is the only one that is left."""
    if sys.platform != "linux":
        return
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        for pid in sorted(_candidates(), reverse=True):
            if (child := _look_at(pid)) is not None:
                yield child


def _candidates() -> set[int]:
    """Our children, where the kernel lists them; else all processes."""
    with suppress(OSError):
        if listed := [file.read_text() for file in _TASKS.glob("*/children")]:
            return {int(pid) for line in listed for pid in line.split()}
    return {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}


def _look_at(pid: int) -> Child | None:
    """None for a process that is none of our children."""
    try:
        # The name, in parentheses, may hold anything.
        facts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        parent, group, session = (int(fact) for fact in facts[1:4])
    except (OSError, ValueError):
        return None
    return Child(pid=pid, group=group, session=session) if parent == os.getpid() else None


def _end(child: Child) -> None:
    """With its group, which a chain within one group can't get away from."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(child.pid, signal.SIGKILL)
    if child.group > 1:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.group, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)
