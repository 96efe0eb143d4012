"""Giving up privileges for good, and ending what a user has started. On Linux, from root."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import sys
from contextlib import suppress
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
