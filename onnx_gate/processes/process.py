"""What the supervisor knows of a process that it started, and how it looks at it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from onnx_gate.kernel import become
from onnx_gate.processes import endings
from onnx_gate.processes.hearing import Hearing
from onnx_gate.processes.sandbox import Place, trusted_environ
from onnx_gate.protocol import STACK_SIGNAL, Job, Stage
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Failure


@dataclass(frozen=True, kw_only=True)
class Started:
    """A job's process runs."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A model is done with, well or not."""

    seconds: float
    """Wall time of its process."""


@dataclass(frozen=True, kw_only=True)
class NoStrength:
    """A job's process died while it tried wrong models, after it had compared the right one."""

    why: str
    """In words."""


@dataclass
class Running:
    """One model's process, and what is known of it."""

    spec: ModelSpec
    process: Process
    log_fd: int
    job: Job
    hearing: Hearing
    handed: float = field(default_factory=time.monotonic)
    started: float | None = None
    forgiven: float = 0.0
    """Seconds in which nobody listened to it."""
    memory_at_start: int = 0
    hung_up: bool = False
    killed: Failure | None = None
    over: float | None = None
    """Since when its end is only waited for: it has answered, or was killed."""
    hurried: bool = False
    """That took too long already, and it was ended for it."""
    oom_kills: int = field(default_factory=endings.oom_kills)

    @property
    def at(self) -> Stage:
        """What it says that it does."""
        return self.hearing.at

    @property
    def done(self) -> bool:
        """It says that it has come to its end."""
        return self.hearing.done


def receive(channel: socket.socket) -> bytes | None:
    """What a channel holds; None if nothing yet, empty if nothing more will come."""
    try:
        return channel.recv(1 << 16)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def has_data(channel: socket.socket) -> bool:
    """Whether a process that is gone has left something unread."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def ask_stack(process: Process, log_fd: int, patience: float) -> str:
    """What a process writes into its log when it is asked where it is; empty where it does not answer.

    It may be in native code, and then answers all the same. Model code may have taken the signal for itself.
    """
    before = os.fstat(log_fd).st_size
    if process.pid is None or process.status is not None:
        return ""
    try:
        os.kill(process.pid, STACK_SIGNAL)
    except OSError:
        return ""
    until, told = time.monotonic() + patience, b""
    while time.monotonic() < until:
        time.sleep(_A_MOMENT)
        heard = os.pread(log_fd, _LONGEST_STACK, before)
        if heard and heard == told:
            break
        told = heard
    return told.decode("utf-8", "replace")


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where that can't be known."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


# `-P`: the folder that the user happens to be in must not shadow our imports.
_PYTHON = [sys.executable, "-P", "-m"]
# For root: nothing of the environment or of a home folder is imported either, nor anything written.
_ROOTS_PYTHON = [sys.executable, "-I", "-B", "-m"]
_PATIENCE = 2.0
_HANDING_OVER = 60.0
_DYING = 10.0
_A_MOMENT = 0.05
_LONGEST_STACK = 256 * 1024


@dataclass
class Process:
    """One job's process, as far as the parent knows it."""

    key: str
    channel: socket.socket
    """Our end."""
    pid: int | None = None
    """None until it runs."""
    status: int | None = None
    """As waitpid has it; None while it runs."""
    popen: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def poll(self) -> None:
        """Look whether a cold process has ended; a server tells by itself."""
        if self.popen is not None and self.status is None and (code := self.popen.poll()) is not None:
            self.status = -code if code < 0 else code << 8

    def wait(self) -> None:
        """Until a cold process that was killed is gone; not for one that not even SIGKILL ends."""
        if self.popen is not None:
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(_PATIENCE)

    def kill(self) -> None:
        """End it and all that it started."""
        if self.pid is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        # One that was waited for is gone, and its number may be another's.
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)


def send_job(process: Process, job: Job) -> None:
    """Hand the job over; a process that died first is noticed by its status, one that never reads by its silence."""
    payload = pickle.dumps(job)
    # A large job does not fit into the channel: somebody has to read, and a server may have been stopped.
    process.channel.settimeout(_HANDING_OVER)
    with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
        process.channel.sendall(len(payload).to_bytes(8, "big") + payload)


def launch_cold(key: str, place: Place, packages: tuple[str, ...] = ()) -> Process:
    """A fresh interpreter, which imports from `packages` first."""
    log_fd, user = place.log_fd, place.user
    path = {"PYTHONPATH": os.pathsep.join(packages)} if packages else {}
    ours, theirs = socket.socketpair()
    popen = subprocess.Popen(
        [*_PYTHON, "onnx_gate.worker.child", str(theirs.fileno()), str(log_fd)],
        pass_fds=(theirs.fileno(), log_fd),
        env={**place.environ, **path},
        cwd="/" if user else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log_fd,
        preexec_fn=partial(become, user) if user else None,
        start_new_session=True,
    )
    theirs.close()
    return Process(key=key, channel=ours, pid=popen.pid, popen=popen)


class Server:
    """The parent's side of a warm server."""

    def __init__(
        self, framework: str, *, export: bool, environ: Mapping[str, str], log: Path, as_root: bool = False
    ) -> None:
        self.framework = framework
        self.ready = False
        self.dead = False
        self.started = time.monotonic()
        self._processes: dict[str, Process] = {}
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with log.open("ab") as log_file:
            self._popen = self._start(theirs, export=export, environ=environ, log=log_file, as_root=as_root)
        theirs.close()

    def _start(
        self, theirs: socket.socket, *, export: bool, environ: Mapping[str, str], log: IO[bytes], as_root: bool
    ) -> subprocess.Popen[bytes]:
        """A fresh interpreter, which becomes the server."""
        return subprocess.Popen(
            [
                *(_ROOTS_PYTHON if as_root else _PYTHON),
                "onnx_gate.worker.server",
                str(theirs.fileno()),
                self.framework,
                "export" if export else "no",
            ],
            pass_fds=(theirs.fileno(),),
            env=trusted_environ(environ) if as_root else dict(environ),
            cwd="/" if as_root else None,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def launch(self, key: str, log_fd: int, *, user: int | None = None) -> Process:
        """Ask for a process, as the user given; its pid comes later."""
        ours, theirs = socket.socketpair()
        process = Process(key=key, channel=ours)
        self._processes[key] = process
        try:
            message = json.dumps({"job": key, "user": user}).encode()
            socket.send_fds(self.control, [message], [theirs.fileno(), log_fd])
        except OSError:
            self.dead = True
            process.status = signal.SIGKILL
        theirs.close()
        return process

    def hear(self) -> None:
        """Take in one message of the server."""
        try:
            message = self.control.recv(65536)
        except OSError:
            message = b""
        if not message:
            self.dead = True
            self._lose_processes()
            return
        told = json.loads(message)
        if "ready" in told:
            self.ready = True
        elif "pid" in told:
            self._processes[told["job"]].pid = told["pid"]
        else:
            self._processes.pop(told["job"]).status = told["status"]

    @property
    def pid(self) -> int:
        """Of the server itself."""
        return self._popen.pid

    def kill(self) -> None:
        """End one that hangs; that it is gone is then heard."""
        self._popen.kill()

    def close(self) -> None:
        """End it, and with it all of its children; one that not even SIGKILL ends is left behind."""
        self.control.close()
        self._popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(_DYING)

    def _lose_processes(self) -> None:
        # Nobody can wait for its children now, and they die with it.
        for process in self._processes.values():
            process.kill()
            process.status = process.status if process.status is not None else int(signal.SIGKILL)
        self._processes.clear()
