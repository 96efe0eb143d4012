"""What the supervisor knows about a process that it started, and how it observes it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
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
from onnx_gate.processes.sandbox import Place
from onnx_gate.processes.warming import DYING, PYTHON, Warming, start_server
from onnx_gate.protocol import STACK_SIGNAL, Job, Stage
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Failure


@dataclass(frozen=True, kw_only=True)
class Started:
    """The process of a job has started."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """No more processes will run for a model, whether it succeeded or not."""

    seconds: float
    """Wall time of its processes."""


@dataclass(frozen=True, kw_only=True)
class NoStrength:
    """A job's process died while it tried wrong models, after it had compared the right one."""

    why: str
    """The reason, in words."""


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
    """Seconds in which the supervisor was busy elsewhere; they don't count towards the timeout."""
    memory_at_start: int = 0
    hung_up: bool = False
    killed: Failure | None = None
    over: float | None = None
    """Since when only its end is awaited, because it has answered or was killed."""
    hurried: bool = False
    """Whether it was ended because its end took too long."""
    oom_kills: int = field(default_factory=endings.oom_kills)

    @property
    def at(self) -> Stage:
        """The stage that the process reported last."""
        return self.hearing.at

    @property
    def done(self) -> bool:
        """Whether the process has reported that its job is done."""
        return self.hearing.done


def receive(channel: socket.socket) -> bytes | None:
    """The bytes that a channel holds; None if there are none yet, empty if no more will come."""
    try:
        return channel.recv(1 << 16)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def has_data(channel: socket.socket) -> bool:
    """Whether a process that has ended left unread bytes."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def ask_stack(process: Process, log_fd: int, patience: float) -> str:
    """The stack that a process writes to its log on request; empty if it does not answer.

    A process in native code answers too. Model code may have replaced the handler of the signal.
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
    """Bytes of memory that a process holds; 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


_PATIENCE = 2.0
_HANDING_OVER = 60.0
_A_MOMENT = 0.05
_LONGEST_STACK = 256 * 1024


@dataclass
class Process:
    """The process of one job, as the parent sees it."""

    key: str
    channel: socket.socket
    """The parent's end."""
    pid: int | None = None
    """None until the process runs."""
    status: int | None = None
    """The wait status, as waitpid returns it; None while the process runs."""
    popen: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def poll(self) -> None:
        """Check whether a cold process has ended; a server reports the end of its own processes."""
        if self.popen is not None and self.status is None and (code := self.popen.poll()) is not None:
            self.status = -code if code < 0 else code << 8

    def wait(self) -> None:
        """Wait until a killed cold process has ended, but not forever: some survive even SIGKILL."""
        if self.popen is not None:
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(_PATIENCE)

    def kill(self) -> None:
        """End the process and all that it started."""
        if self.pid is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        # The pid of a process that was waited for may belong to another process now.
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)


def send_job(process: Process, job: Job) -> None:
    """Send the job. A process that has died is noticed later by its status, and one that never reads by its silence."""
    payload = pickle.dumps(job)
    # A large job does not fit into the channel's buffer. The other end has to read, and a server may be stopped.
    process.channel.settimeout(_HANDING_OVER)
    with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
        process.channel.sendall(len(payload).to_bytes(8, "big") + payload)


def launch_cold(key: str, place: Place, packages: tuple[str, ...] = ()) -> Process:
    """A process with a fresh interpreter, which imports from `packages` first."""
    log_fd, user = place.log_fd, place.user
    path = {"PYTHONPATH": os.pathsep.join(packages)} if packages else {}
    ours, theirs = socket.socketpair()
    popen = subprocess.Popen(
        [*PYTHON, "onnx_gate.worker.child", str(theirs.fileno()), str(log_fd)],
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
        self,
        framework: str,
        *,
        environ: Mapping[str, str],
        log: Path,
        as_root: bool = False,
        warming: Warming | None = None,
    ) -> None:
        self.framework = framework
        self.ready = False
        self.dead = False
        self._processes: dict[str, Process] = {}
        if warming:
            self.started, self.control, self._popen = warming.started, warming.control, warming.popen
            return
        self.started = time.monotonic()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with log.open("ab") as log_file, theirs:
            self._popen = self._start(theirs, environ=environ, log=log_file, as_root=as_root)

    def _start(
        self, theirs: socket.socket, *, environ: Mapping[str, str], log: IO[bytes], as_root: bool
    ) -> subprocess.Popen[bytes]:
        return start_server(self.framework, theirs, environ=environ, log=log, as_root=as_root)

    def warm(self, *, export: bool) -> None:
        """Tell the server whether to convert a dummy model, too, before it is ready."""
        # A server that has died is noticed by its silence.
        with suppress(OSError):
            self.control.send(json.dumps({"export": export}).encode())

    def launch(self, key: str, log_fd: int, *, user: int | None = None) -> Process:
        """Ask the server for a process that runs as the given user; its pid arrives later."""
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
        """Read one message from the server."""
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
        """The pid of the server itself."""
        return self._popen.pid

    def kill(self) -> None:
        """End a server that hangs; its end is then noticed through the closed channel."""
        self._popen.kill()

    def close(self) -> None:
        """End the server and all of its children; a server that survives even SIGKILL is left behind."""
        self.control.close()
        self._popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(DYING)

    def _lose_processes(self) -> None:
        # Only the server could wait for its children, and they die with it.
        for process in self._processes.values():
            process.kill()
            process.status = process.status if process.status is not None else int(signal.SIGKILL)
        self._processes.clear()
