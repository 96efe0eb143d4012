"""Requests to the kernel: give up privileges, and end processes that models left running."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_PROCESSES = 1024
"""The most processes and threads that one user may have, which stops a fork bomb."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 37, 38
_MAP_FIXED = 0x10
_IN_CLOSE_NOWRITE, _IN_ONLYDIR, _IN_ISDIR, _IN_Q_OVERFLOW = 0x10, 0x01000000, 0x40000000, 0x4000
_EVENTS = 1 << 16
INSTALLER = 64000
"""The user that installs the requirements."""
ENDER = 64001
"""The user that ends other users' processes; it has no processes of its own."""
MODELS = range(64002, 65534)
"""The users that run models. No system gives these numbers to anybody else, and rootless containers have them too."""


def become(user: int) -> None:
    """Change to another user, who owns nothing, belongs to no group and has no capability; this can't be undone."""
    _drop_capabilities()
    resource.setrlimit(resource.RLIMIT_NPROC, _at_most(resource.RLIMIT_NPROC, MOST_PROCESSES))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # After a change of user a process can't read its own /proc files, which some libraries need.
    _prctl(_PR_SET_DUMPABLE, 1)
    os.umask(0o077)
    gain_nothing()


def is_ours(user: int) -> bool:
    """Whether this user runs a model or installs the requirements."""
    return user == INSTALLER or user in MODELS


def keep_memory() -> None:
    """Replace memory that forked processes share, such as a library's lock, by our own copy at the same place."""
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
    """Let no program that is started from now on gain privileges: neither sudo nor su works."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def hide() -> None:
    """Hide our environment and memory from other processes of the same user; root can still read them."""
    _prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(die: bool = True) -> None:
    """Ask for SIGKILL when the parent ends. A change of user cancels this, so it must be called after that change."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if die else 0)


def adopt_orphans(adopt: bool = True) -> bool:
    """Adopt processes that lose their parent; otherwise they escape to the first process of the machine.

    Returns whether this process adopted orphans before.
    """
    before = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(before))
    _prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))
    return bool(before.value)


class Reads:
    """Files in some folders that are read, as the system says: also by native code, and also by other processes."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders: dict[int, str] = {}
        self._fd = -1
        self.lost = False
        """Whether there were more of them than the system remembers."""
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            # A file that was opened to be written doesn't count.
            asked = ctypes.c_uint32(_IN_CLOSE_NOWRITE | _IN_ONLYDIR)
            for folder in folders if self._fd >= 0 else ():
                number = libc.inotify_add_watch(self._fd, os.fsencode(folder), asked)
                if number >= 0:
                    self._folders[number] = folder

    def take(self) -> Iterator[str]:
        """The files that were closed since the last call, after they were read."""
        while self._folders and (events := self._next()):
            place = 0
            while place < len(events):
                number, kind, _, size = struct.unpack_from("=iIII", events, place)
                name = events[place + 16 : place + 16 + size].rstrip(b"\0")
                place += 16 + size
                self.lost |= bool(kind & _IN_Q_OVERFLOW)
                if name and not kind & _IN_ISDIR and number in self._folders:
                    yield os.path.join(self._folders[number], os.fsdecode(name))  # noqa: PTH118

    def _next(self) -> bytes:
        try:
            return os.read(self._fd, _EVENTS)
        except OSError:
            return b""


def end_all(user: int) -> None:
    """Kill every process of a user. One pass is enough: a process with SIGKILL pending can't fork."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os.setgroups([])
            # The real and the saved user differ from theirs, so that they can't kill this process first.
            os.setresuid(ENDER, user, ENDER)
            if os.getresuid() == (ENDER, user, ENDER):
                os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(pid, 0)


def _drop_capabilities() -> None:
    """Empty the bounding set. Without CAP_SETPCAP it stays, but a process that can't gain privileges can't use it."""
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
    # The arguments are longer than an int, because one of them may be a pointer.
    rest = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, *rest)) == 0


PATIENCE = 2.0
"""Seconds within which stray processes, and all that they start meanwhile, have to end."""
_PAUSE = 0.001
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, kw_only=True)
class Child:
    """A child process of ours; one that has ended stays a child until it is waited for."""

    pid: int
    """Its process number; no other process gets this number until then."""
    group: int
    """Its process group."""
    session: int
    """Its session."""


def end_strays(kept: Collection[int], *, patience: float = PATIENCE) -> bool:
    """End all children except those in `kept`; processes that lose their parent then become ours, and end as well.

    Processes of our own session are left alone: models' code never runs in it. Returns False if `patience` ran out.
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
    """Our children, newest first: in a chain where each process starts the next and ends, only the newest is left."""
    if sys.platform != "linux":
        return
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        for pid in sorted(_candidates(), reverse=True):
            if (child := _look_at(pid)) is not None:
                yield child


def _candidates() -> set[int]:
    """Our children if the kernel lists them, otherwise all processes."""
    with suppress(OSError):
        if listed := [file.read_text() for file in _TASKS.glob("*/children")]:
            return {int(pid) for line in listed for pid in line.split()}
    return {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}


def _look_at(pid: int) -> Child | None:
    """The child with this number; None if the process is not our child."""
    try:
        # The process's name, in parentheses, may contain any character.
        facts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        parent, group, session = (int(fact) for fact in facts[1:4])
    except (OSError, ValueError):
        return None
    return Child(pid=pid, group=group, session=session) if parent == os.getpid() else None


def _end(child: Child) -> None:
    """Kill a child with its process group: a chain of processes within one group can't escape that."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(child.pid, signal.SIGKILL)
    if child.group > 1:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.group, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)
