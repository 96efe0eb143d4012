"""The warm server of one framework: imports it once, then forks a process for each job.

`python -m onnx_gate.worker.server CONTROL_FD FRAMEWORK`, started by the parent. Messages on the control socket are
JSON. The first one says whether to convert a dummy model, too; a job comes with two file descriptors, its channel and
its log.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from onnx_gate import protocol
from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.kernel import adopt_orphans, die_with_parent, end_strays
from onnx_gate.worker.child import run_child

_MESSAGE = 65536


def serve(control: socket.socket, framework: str) -> None:
    """Warm up, then fork until the parent hangs up."""
    # Nobody listens to the parent while a framework is imported.
    die_with_parent()
    # What is imported stays: to search it for garbage again and again takes a fifth of the time. Each child turns the
    # search on again.
    gc.disable()
    import_all(framework)
    # Nobody may need a server that was started early: then the parent has hung up.
    if not (message := control.recv(_MESSAGE)):
        return
    if export := json.loads(message)["export"]:
        get_plugin(framework).warm_up(export)
    adopt_orphans()
    # From now on there is something to end before we go.
    die_with_parent(False)
    _send(control, {"ready": True})
    if export:
        # A conversion leaves garbage, imports hardly any.
        gc.collect()
    # Nothing that is here now is ever freed: children don't copy these pages just to count references.
    gc.freeze()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, str] = {}
    try:
        while True:
            readable, _, _ = select.select([control.fileno(), wake_read], [], [])
            if wake_read in readable:
                os.read(wake_read, 4096)
                _report_ended(control, children)
            if control.fileno() in readable and not _take_job(control, children):
                break
    finally:
        # Also where the parent was killed: nobody else is left to do it.
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        end_strays(kept=())


def import_all(framework: str) -> None:
    """Import and make what every job of the framework needs. Nothing here opens a session or starts a thread."""
    get_plugin(framework)
    importlib.import_module("onnx_gate.worker.judge")
    protocol.get_ready()


def _take_job(control: socket.socket, children: dict[int, str]) -> bool:
    message, fds, _, _ = socket.recv_fds(control, _MESSAGE, 2)
    if not message:
        return False
    channel_fd, log_fd = fds
    job = json.loads(message)
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Neither the way to the parent nor anything else of the server's stays in reach of a model.
            control.detach()
            _close_all_but(channel_fd, log_fd)
            run_child(socket.socket(fileno=channel_fd), log_fd, user=job["user"])
        finally:
            # Whatever happens, a job never goes on as a server.
            os._exit(1)
    os.close(channel_fd)
    os.close(log_fd)
    children[pid] = job["job"]
    _send(control, {"job": job["job"], "pid": pid})
    return True


def _close_all_but(*kept: int) -> None:
    for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if fd > 2 and fd not in kept:
            with contextlib.suppress(OSError):
                os.close(fd)


def _report_ended(control: socket.socket, children: dict[int, str]) -> None:
    """Who hears that a job has ended may rely on it that nothing which it started runs any more."""
    ended: dict[str, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = found
            if pid in children:
                ended[children.pop(pid)] = status
    if ended:
        # What a job's code started in sessions of its own is ours since the job has ended.
        end_strays(kept=children)
    for job, status in ended.items():
        _send(control, {"job": job, "status": status})


def _send(control: socket.socket, message: dict[str, object]) -> None:
    control.send(json.dumps(message).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
