"""Makes a process of a run fail: signals, disks, pipes and clocks. It is small, because every process imports it.

The variable ORT_FAULT holds the fault, and ORT_FAULT_HOME a folder that all processes of a run share: the file `fired`
exists after the fault has happened, and `clock` holds the offset of the clock. Workers get these variables too.
"""

from __future__ import annotations

import datetime as datetime_module
import errno
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.plan import API, CLOCK, DISK, GATE, PIPE, SERVER, WORKER, Fault

SHORT_PATIENCE, SHORT_ENDING = 8.0, 1.5
"""Seconds for a stopped server to start a process, instead of 120, and to report its end, instead of 10."""
API_TIMEOUT, API_PATIENCE = 0.5, 3.0
"""Seconds without a byte, and in total, instead of 20 and 60."""
_KIND = re.compile(rb'"kind":"([a-z-]+)"')
_STAGE = re.compile(rb'"name":"([^"]+)"')
_REAL_TIME = time.time


def read_fault() -> Fault:
    """The fault of this run."""
    return Fault(**json.loads(os.environ["ORT_FAULT"]))


def home() -> Path:
    """The folder that the processes of a run share."""
    return Path(os.environ["ORT_FAULT_HOME"])


def fire(fault: Fault) -> bool:
    """Whether the fault has to happen now: a lasting fault happens each time, any other only once."""
    try:
        (home() / "fired").touch(exist_ok=fault.lasting)
    except FileExistsError:
        return False
    return True


def strike(fault: Fault, pid: int) -> None:
    """Send the signal of a fault."""
    if fire(fault):
        os.kill(pid, signal.Signals[fault.what])


def _put(owner: Any, name: str, value: Any) -> None:
    """Replace an attribute that has to exist: if the name were gone, the fault would never happen."""
    assert hasattr(owner, name), f"{owner} has no {name}"
    setattr(owner, name, value)


class Count:
    """Counts moments, and detects the n-th one."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._seen = 0

    def reached(self, at: str) -> bool:
        if at != self._fault.at:
            return False
        self._seen += 1
        return self._seen == self._fault.nth or (self._fault.lasting and self._seen > self._fault.nth)


# ── In the gate ─────────────────────────────────────────────────────────────────────────────────────────


def install_in_gate() -> None:
    """Install the fault in the gate, before the command starts."""
    fault = read_fault()
    if fault.kind == CLOCK:
        install_clock()
        install_calendar()
    if fault.kind in (API, CLOCK):
        _shorten_patience()
    _watch_models(fault)
    if fault.kind in (DISK, GATE):
        _spoil_disk(fault)


def _watch_models(fault: Fault) -> None:
    from onnx_gate.gate import run
    from onnx_gate.processes import supervisor

    stops = fault.kind == SERVER and fault.what == "SIGSTOP"
    if stops:
        supervisor.ENDING_SECONDS = SHORT_ENDING

    class Watched(supervisor.Supervisor):
        """A supervisor that triggers the fault when the n-th event arrives."""

        def __init__(self, **options: Any) -> None:
            if stops:
                options["patience"] = SHORT_PATIENCE
            if fault.cold:
                options["fork"] = False
            super().__init__(**options)

        def run(self, specs: list[Any], *steps: Callable[[], None], **named: Callable[[], None]) -> Iterator[Any]:
            count = Count(fault)
            for happening in super().run(specs, *steps, **named):
                if count.reached("event") and fault.kind in (GATE, CLOCK):
                    strike(fault, os.getpid()) if fault.kind == GATE else jump(fault)
                yield happening

    _put(run, "Supervisor", Watched)


def _spoil_disk(fault: Fault) -> None:
    from onnx_gate.gate import output

    count = Count(fault)

    class Spoilt(output.Disk):
        """A disk that fails at the n-th step of a kind, or sends the gate a signal there; a file is truncated then."""

        def make_folder(self, path: Path, **options: Any) -> None:
            self._step("make_folder", path)
            super().make_folder(path, **options)

        def write(self, path: Path, pieces: Iterable[bytes]) -> None:
            whole = b"".join(pieces)
            super().write(path, [whole[: len(whole) // 2]])
            self._step("write", path)
            super().write(path, [whole])

        def replace(self, path: Path, target: Path) -> None:
            self._step("replace", path)
            super().replace(path, target)

        def remove_file(self, path: Path) -> None:
            self._step("remove_file", path)
            super().remove_file(path)

        def _step(self, name: str, path: Path) -> None:
            if not count.reached(name):
                return
            if fault.kind == GATE:
                strike(fault, os.getpid())
            elif fire(fault):
                number = getattr(errno, fault.what)
                raise OSError(number, os.strerror(number), str(path))

    _put(output, "OutputFolder", partial(output.OutputFolder, disk=Spoilt()))


def _shorten_patience() -> None:
    """Shorten timeouts, so that a server that stalls does not delay the plan."""
    from onnx_gate.github.api import Api
    from onnx_gate.publish import comment

    _put(comment, "Api", partial(Api, timeout=API_TIMEOUT))
    _put(comment, "PATIENCE", API_PATIENCE)


# ── In servers and workers ──────────────────────────────────────────────────────────────────────────────


def install_in_worker(argv: Sequence[str]) -> None:
    """Install the fault in a server or worker, when Python starts and before onnx-gate is imported."""
    fault, role = read_fault(), argv[argv.index("-m") + 1] if "-m" in argv else ""
    if fault.kind == CLOCK and role.startswith("onnx_gate.worker."):
        install_clock()
    if role == "onnx_gate.worker.server" and fault.kind == SERVER:
        _strike_server(fault)
        _spoil_channel(fault)
    if role in ("onnx_gate.worker.server", "onnx_gate.worker.child") and fault.kind in (WORKER, PIPE):
        _spoil_channel(fault)


def _strike_server(fault: Fault) -> None:
    """Trigger the fault at moments of a server that are not part of a job."""
    if fault.at == "start":
        strike(fault, os.getpid())
    send, fork = socket.socket.send, os.fork

    def spoilt_send(self: socket.socket, data: bytes, *flags: int) -> int:
        if fault.at in ("ready", "status") and f'"{fault.at}"'.encode() in data:
            strike(fault, os.getpid())
        return send(self, data, *flags)

    def spoilt_fork() -> int:
        if fault.at == "fork":
            strike(fault, os.getpid())
        pid = fork()
        if pid == 0 and fault.at == "born":
            strike(fault, os.getppid())
        if pid != 0 and fault.at == "forked":
            strike(fault, os.getpid())
        return pid

    _put(socket.socket, "send", spoilt_send)
    _put(os, "fork", spoilt_fork)


def _spoil_channel(fault: Fault) -> None:
    """Spoil the channel of a worker: everything goes through `sendall`, one event at a time."""
    send = socket.socket.sendall
    count, server = Count(fault), os.getpid()

    def spoilt_sendall(self: socket.socket, data: bytes, *flags: int) -> None:
        found = _KIND.search(data[:64])
        if found is None or (fault.model and fault.model != _model()):
            send(self, data, *flags)
            return
        stage = _STAGE.search(data)
        at = stage[1].decode() if found[1] == b"stage" and stage else found[1].decode()
        reached = count.reached(at)
        if fault.kind == PIPE:
            _TRICKS[fault.what](self, bytes(data), partial(send, self), fault, reached)
            return
        send(self, data, *flags)
        if reached:
            strike(fault, os.getpid() if fault.kind == WORKER else server)

    _put(socket.socket, "sendall", spoilt_sendall)


def _model() -> str:
    """The model of this process: its standard output is the model's log."""
    return Path("/proc/self/fd/1").readlink().stem


Send = Callable[[bytes], None]


def _cut(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    """Send half an event, then close the channel; the process continues."""
    hit = reached and fire(fault)
    send(data[: len(data) // 2] if hit else data)
    if hit:
        channel.shutdown(socket.SHUT_RDWR)


def _close(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    """Close the channel between two events."""
    send(data)
    if reached and fire(fault):
        channel.shutdown(socket.SHUT_RDWR)


def _tear(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    """Send half an event, and then the next one."""
    send(data[: len(data) // 2] if reached and fire(fault) else data)


def _add_noise(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    send(b'\x00\xff{"kind":"done"' + data if reached and fire(fault) else data)


def _split(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    """Send byte by byte, from then on."""
    if not reached and not (home() / "fired").exists():
        send(data)
        return
    fire(fault)
    for start in range(len(data)):
        send(data[start : start + 1])


def _slow_down(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    """Send each event in two halves with a pause between them, from the first event on."""
    fire(fault)
    send(data[: len(data) // 2])
    time.sleep(0.05)
    send(data[len(data) // 2 :])


def _double(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    send(data * 2 if reached and fire(fault) else data)


def _drop(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    if not (reached and fire(fault)):
        send(data)


def _get_stuck(channel: socket.socket, data: bytes, send: Send, fault: Fault, reached: bool) -> None:
    """Send half an event, and then nothing more."""
    if reached and fire(fault):
        send(data[: len(data) // 2])
        time.sleep(600)
    send(data)


_TRICKS = {
    "cut": _cut,
    "closed": _close,
    "torn": _tear,
    "noise": _add_noise,
    "split": _split,
    "slow": _slow_down,
    "doubled": _double,
    "missing": _drop,
    "stuck": _get_stuck,
}


# ── Clocks ──────────────────────────────────────────────────────────────────────────────────────────────


def jump(fault: Fault) -> None:
    """Set the clocks of all processes of a run."""
    if fire(fault):
        set_clock(home(), fault)


def set_clock(folder: Path, fault: Fault) -> None:
    """Set the clock of a run from outside of it."""
    (folder / "clock").write_text(str(float(fault.what.removesuffix(" h")) * 3600))


def _now() -> float:
    try:
        return _REAL_TIME() + float((home() / "clock").read_text())
    except (OSError, ValueError):
        return _REAL_TIME()


def install_clock() -> None:
    """Replace the wall clock of Python code; monotonic clocks don't jump on a real machine either."""
    _put(time, "time", _now)
    _put(time, "time_ns", lambda: int(_now() * 1e9))


def install_calendar() -> None:
    """Replace `datetime.now`, only in the gate: pandas crashes if that class is replaced."""

    class Jumping(datetime_module.datetime):
        """A `datetime` that reads the clock of the run."""

        @classmethod
        def now(cls, tz: datetime_module.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(_now(), tz)

    assert "onnx_gate.gate.run" not in sys.modules
    _put(datetime_module, "datetime", Jumping)
