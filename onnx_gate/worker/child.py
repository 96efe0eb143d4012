"""The process of one job: set up, judge, leave.

Forked from a warm server, or started cold as `python -m onnx_gate.worker.child CHANNEL_FD LOG_FD`.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import resource
import site
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from onnx_gate.kernel import adopt_orphans, become, die_with_parent, gain_nothing, keep_memory
from onnx_gate.protocol import STACK_SIGNAL, Event, Job, encode
from onnx_gate.worker.log import log_failure

_GARBAGE = (5_000, 10, 10)
"""How often Python searches for garbage. Exporters make millions of objects; its default costs a tenth of the time."""


def run_child(channel: socket.socket, log_fd: int, *, user: int | None = None) -> None:
    """Do the job that comes through the channel, as the user given; never returns."""
    code = 1
    try:
        _detach(log_fd, user)
        job = _receive(channel)
        _settle(job)
        _limit_memory(job.spec.memory)
        # Imported after the set-up: in a cold start this takes the job's time, log and limits.
        from onnx_gate.worker.judge import judge

        judge(job, _sender(channel), _log_reader(log_fd))
        code = 0
    except BaseException as error:
        log_failure(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # No destructors: what native libraries do at exit may crash, and the job is done.
        os._exit(code)


def _detach(log_fd: int, user: int | None) -> None:
    """A session of its own, so that all that the model's code starts can be ended; output goes to the log."""
    # A cold process was started in one.
    if os.getsid(0) != os.getpid():
        os.setsid()
    _write("/proc/self/oom_score_adj", "1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if user is not None:
        keep_memory()
        become(user)
    gain_nothing()
    die_with_parent()
    adopt_orphans()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    # The text layers may be set to ASCII by the environment, and exporters print more than that.
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    faulthandler.enable(file=sys.stderr, all_threads=False)
    # Written by the handler itself, whatever holds the interpreter up: native code, or a lock.
    faulthandler.register(STACK_SIGNAL, file=sys.stderr, all_threads=True)
    warnings.simplefilter("default")
    gc.set_threshold(*_GARBAGE)
    gc.enable()


def _receive(channel: socket.socket) -> Job:
    """The job, pickled by our own parent."""
    with channel.makefile("rb") as file:
        size = int.from_bytes(file.read(8), "big")
        return pickle.loads(file.read(size))  # type: ignore[no-any-return]


def _settle(job: Job) -> None:
    """Where the user's code finds itself: its environment, its folder, and what it can import."""
    if job.environ is not None:
        os.environ.clear()
        os.environ.update(job.environ)
        # A library may have asked for it in the server.
        tempfile.tempdir = None
        # What is out of reach is told when the model is looked for.
        with suppress(OSError):
            for name in ("HOME", "TMPDIR"):
                Path(job.environ[name]).mkdir(exist_ok=True)
            os.chdir(job.folder)
    for folder in reversed(job.packages):
        sys.path.insert(0, folder)
        site.addsitedir(folder)


def _limit_memory(memory: int | None) -> None:
    """Let allocations beyond the limit fail cleanly. (A limit on the address space would break mapped weights.)"""
    if memory is None or sys.platform != "linux":
        return
    used = _status_bytes("VmData")
    resource.setrlimit(resource.RLIMIT_DATA, (used + memory, used + memory))


def _status_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0


def _sender(channel: socket.socket) -> Callable[[Event], None]:
    return lambda event: channel.sendall(encode(event))


def _log_reader(log_fd: int) -> Callable[[], str]:
    """What was logged since it was last asked: native libraries tell their reasons nowhere else."""
    position = 0

    def read_log() -> str:
        nonlocal position
        size = os.fstat(log_fd).st_size
        text = os.pread(log_fd, min(size - position, 1 << 20), position).decode("utf-8", "replace")
        position = size
        return text

    return read_log


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError:
        return


if __name__ == "__main__":
    channel_fd, log = int(sys.argv[1]), int(sys.argv[2])
    run_child(socket.socket(fileno=channel_fd), log)
