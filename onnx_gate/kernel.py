"""What the gate asks of the kernel: privileges given up, and what models left running ended."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_PROCESSES = 1024
"""Processes and threads that one user may have: a fork bomb stops there."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 37, 38
_MAP_FIXED = 0x10
INSTALLER = 64000
"""The user as which the requirements are installed."""
ENDER = 64001
"""The user as which other users' processes are ended; it has none itself."""
MODELS = range(64002, 65534)
"""The users of models. No system gives such numbers to anybody, and containers of plain users have them too."""


def become(user: int) -> None:
    """Another user, who owns nothing, belongs to no group and holds no capability; there is no way back."""
    _drop_capabilities()
    resource.setrlimit(resource.RLIMIT_NPROC, _at_most(resource.RLIMIT_NPROC, MOST_PROCESSES))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # A change of user takes a process's /proc files away from it, which some libraries read.
    _prctl(_PR_SET_DUMPABLE, 1)
    os.umask(0o077)
    gain_nothing()


def is_ours(user: int) -> bool:
    """Whether this is a user of a model's, or of the requirements."""
    return user == INSTALLER or user in MODELS


def keep_memory() -> None:
    """What a library shares with all that are forked, such as a lock, becomes a copy of our own at the same place."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    for line in maps:
        place, permissions = line.split()[:2]
        if permissions == "rw-s":
            start, end = (int(edge, 16) for edge in place.split("-"))
            content = ctypes.string_at(start, end - start)
            if libc.mmap(start, len(content), mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0) != start:
                raise OSError(ctypes.get_errno(), "memory that is shared can't be kept apart")
            ctypes.memmove(start, content, len(content))


def gain_nothing() -> None:
    """No program that is started from here on gets more than it has now: neither sudo nor su work."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def hide() -> None:
    """Let other processes of the same user read neither our environment nor our memory, unless they are root's."""
    _prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(die: bool = True) -> None:
    """Ask for SIGKILL when the parent ends; a change of user takes that back, so it comes after it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if die else 0)


def adopt_orphans(adopt: bool = True) -> bool:
    """Processes that lose their parent become ours, instead of escaping to the first process of the machine.

    Returns whether it was so before.
    """
    before = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(before))
    _prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))
    return bool(before.value)


def end_all(user: int) -> None:
    """Kill every process of a user. One pass does: whoever has SIGKILL pending forks no more."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os.setgroups([])
            # Real and saved user are others than theirs, so that they can't kill this process first.
            os.setresuid(ENDER, user, ENDER)
            if os.getresuid() == (ENDER, user, ENDER):
                os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(pid, 0)


def _drop_capabilities() -> None:
    """From the bounding set; without CAP_SETPCAP it stays, and a process that may gain nothing can't use it."""
    for capability in range(64):
        if not _prctl(_PR_CAPBSET_DROP, capability):
            return


def _at_most(limit: int, wanted: int) -> tuple[int, int]:
    _, hard = resource.getrlimit(limit)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    return most, most


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    # The arguments are longer than an int, which a pointer needs.
    rest = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, *rest)) == 0


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
