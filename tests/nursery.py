"""Warm servers that need not import their framework: each is forked from a process that has done it before.

A run of the gate starts its servers anew, and to import scikit-learn or PyTorch takes several times as long as to
judge a small model. So `conftest` lets all runs within one process of pytest share what they import: the nursery, a
child of that process, keeps one *nurse* for each framework, which has warmed up as a server does and forks one for
every run. The server itself, its jobs, and all that the gate has with them are the real ones.

`python -P nursery.py FD` is the nursery, `python -P nursery.py FD FRAMEWORK` a nurse. Nothing here is imported
from `tests`: what a model's process can import is what it can import in a run of the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from onnx_gate.kernel import die_with_parent
from onnx_gate.processes.process import Server

MOST_NURSES = 3
"""Those that were used last: a file of tests is about one framework or two, and torch takes half a gigabyte."""
_MESSAGE = 65536


class Nursery:
    """The process that keeps the nurses. It has to be started before any gate: what a gate starts, it ends."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._popen = _start([str(theirs.fileno())], theirs, self.environ)
        theirs.close()

    def fork(self, framework: str, *, control: socket.socket, log: IO[bytes]) -> int | None:
        """The number of a new server; None where the framework can't be imported."""
        request = {"framework": framework, "folder": str(Path.cwd())}
        socket.send_fds(self.control, [json.dumps(request).encode()], [control.fileno(), log.fileno()])
        return int(self.control.recv(_MESSAGE)) or None

    def close(self) -> None:
        """End it, and with it the nurses."""
        self.control.close()
        self._popen.wait()


class Forked:
    """What the parent's side of a server does with its process, for one that somebody else has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._fd)

    def kill(self) -> None:
        """As Popen does: one that is gone is no error."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait(self, timeout: float) -> None:
        """Until it is gone."""
        if not select.select([self._fd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("server", timeout)


def servers_of(nursery: Nursery) -> type[Server]:
    """Servers that come from the nursery wherever theirs is the usual environment."""

    class ForkedServer(Server):
        _has_exported = False
        """Whether its nurse has converted a dummy model before."""

        def _start(self, theirs: socket.socket, *, environ: Mapping[str, str], log: IO[bytes], as_root: bool) -> Any:
            if not as_root and dict(environ) == nursery.environ:
                pid = nursery.fork(self.framework, control=theirs, log=log)
                # Its patience begins now: the first one of a framework has waited for the imports.
                self.started = time.monotonic()
                if pid is not None:
                    self._has_exported = True
                    return Forked(pid)
            # It has another environment, or reports itself what is wrong with its framework.
            return super()._start(theirs, environ=environ, log=log, as_root=as_root)

        def warm(self, *, export: bool) -> None:
            super().warm(export=export and not self._has_exported)

    return ForkedServer


def _start(arguments: list[str], theirs: socket.socket, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", __file__, *arguments],
        pass_fds=(theirs.fileno(),),
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


# ── The nursery ─────────────────────────────────────────────────────────────────────────────────────────────


def _keep_nurses(control: socket.socket) -> None:
    die_with_parent()
    nurses: dict[str, socket.socket] = {}
    while True:
        message, fds, _, _ = socket.recv_fds(control, _MESSAGE, 2)
        if not message:
            break
        request = json.loads(message)
        framework = request["framework"]
        # The one that was asked last stands last.
        nurses[framework] = nurses.pop(framework) if framework in nurses else _hire(framework)
        pid = _ask(nurses[framework], message, fds)
        if not pid:
            nurses.pop(framework).close()
        while len(nurses) > MOST_NURSES:
            nurses.pop(next(iter(nurses))).close()
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())
    for nurse in nurses.values():
        nurse.close()
    _wait_for_all()


def _wait_for_all() -> None:
    """Until every child is gone: what somebody waited for is in the time that a run of the suite takes."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _hire(framework: str) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _start([str(theirs.fileno()), framework], theirs, os.environ)
    theirs.close()
    return ours


def _ask(nurse: socket.socket, message: bytes, fds: list[int]) -> int:
    try:
        socket.send_fds(nurse, [message], fds)
        return int(nurse.recv(_MESSAGE) or 0)
    except OSError:
        return 0


# ── A nurse ─────────────────────────────────────────────────────────────────────────────────────────────────


def _nurse(control: socket.socket, framework: str) -> None:
    die_with_parent()
    from onnx_gate.frameworks.plugin import get_plugin
    from onnx_gate.worker.server import import_all

    import_all(framework)
    # Even for a single model: it is done once for all runs.
    get_plugin(framework).warm_up(True)

    while True:
        message, fds, _, _ = socket.recv_fds(control, _MESSAGE, 2)
        if not message:
            break
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        pid = os.fork()
        if pid == 0:
            _become_server(control, fds, json.loads(message))
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())
    # Servers die with their parent while they warm up: it stays until they have all gone.
    _wait_for_all()


def _become_server(control: socket.socket, fds: list[int], request: dict[str, Any]) -> None:
    """As if it had been started just now; never returns."""
    import numpy as np

    from onnx_gate.worker.server import serve

    code = 1
    try:
        control.close()
        os.setsid()
        os.chdir(request["folder"])
        ours, log = fds
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        # The random numbers of a process that has just begun are not those of the one before.
        np.random.seed()
        serve(socket.socket(fileno=ours), request["framework"])
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    channel = socket.socket(fileno=int(sys.argv[1]))
    if len(sys.argv) > 2:
        _nurse(channel, sys.argv[2])
    else:
        _keep_nurses(channel)
