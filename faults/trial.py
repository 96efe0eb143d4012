"""One run of the command with one fault, and everything that it leaves behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from faults import hooks, mounts
from faults.plan import API, CLOCK, GATE, REAL_DISK, SETS, WORKER, Fault
from faults.workload import HURRIED
from onnx_gate.errors import UsageError
from onnx_gate.gate.output import OutputFolder
from onnx_gate.github.comment import marker_of
from onnx_gate.vocabulary import REPORTS
from tests.github import server
from tests.github.server import GitHub

REPOSITORY = Path(__file__).parent.parent
LIMIT = 120.0
"""Seconds for one run: a run that takes longer counts as hung."""
SOON = 5.0
"""Seconds for the processes of a killed gate to end."""
OLD = "an earlier verdict"
_HEAD = "b" * 40
_ENV = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The facts about a finished run."""

    fault: Fault | None
    """The fault; None for a run without one."""
    code: int | None
    """The exit code; negative if a signal killed the run, None if it was killed because it hung."""
    seconds: float
    """Wall time."""
    said: str
    """Standard output."""
    complained: str
    """Standard error."""
    fired: bool
    """Whether the fault has happened."""
    reports: dict[str, bytes]
    """The reports that were written, by name."""
    left: tuple[str, ...]
    """Other files in the output folder, after another run has opened and closed it."""
    survivors: tuple[str, ...]
    """Processes of the run that were still alive after it."""
    comments: tuple[str, ...] | None = None
    """Comments on the pull request; None if there is no pull request."""


def run_trial(fault: Fault | None, *, workload: Path, home: Path, models: str = "all") -> Trial:
    """Run the command on the workload; `home` is a folder for this trial, which is removed afterwards."""
    home.mkdir(parents=True)
    mark = str(uuid.uuid4())
    environ = _environ(home, mark, fault)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        output, github = home / "report", None
        if fault and fault.kind == REAL_DISK:
            output = stack.enter_context(mounts.mounted(home / "disk", fault))
        if fault and fault.kind in (API, CLOCK):
            github = stack.enter_context(_github(fault, home))
            environ |= _step(github, home, workload)
        began = time.monotonic()
        code, said, complained = _run(_command(fault, models, output), workload, environ, fault, home)
        return Trial(
            fault=fault,
            code=code,
            seconds=time.monotonic() - began,
            said=said,
            complained=complained,
            survivors=_survivors(mark),
            reports={name: (output / name).read_bytes() for name in REPORTS if (output / name).is_file()},
            left=_open_again(output, home / "disk" / mounts.BALLAST),
            fired=_has_fired(fault, home, github),
            comments=tuple(comment["body"] for comment in github.comments) if github else None,
        )


def _environ(home: Path, mark: str, fault: Fault | None) -> dict[str, str]:
    paths = [str(REPOSITORY / "faults" / "site"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environ = {name: os.environ[name] for name in _ENV if name in os.environ}
    environ |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "ORT_FAULT_MARK": mark}
    if fault:
        environ |= {"ORT_FAULT": json.dumps(asdict(fault)), "ORT_FAULT_HOME": str(home)}
    return environ


def _command(fault: Fault | None, models: str, output: Path) -> list[str]:
    hangs = fault and (fault.what == "stuck" or (fault.kind == WORKER and fault.what == "SIGSTOP"))
    module = "faults.launcher" if fault else "onnx_gate"
    command = [sys.executable, "-m", module, "run", HURRIED if hangs else "onnx-gate.yml", "--output", str(output)]
    command += ["--jobs", str(fault.jobs if fault else 2)]
    for model in SETS[fault.models if fault else models]:
        command += ["--only", model]
    return [*command, "--comment", "auto"] if fault and fault.kind in (API, CLOCK) else command


def _run(
    command: list[str], folder: Path, environ: dict[str, str], fault: Fault | None, home: Path
) -> tuple[int | None, str, str]:
    """The exit code, standard output and standard error."""
    # Files instead of pipes: a process that survives must not block the trial.
    with (home / "said").open("wb") as out, (home / "complained").open("wb") as err:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=err, start_new_session=True)
        with _helped(process, fault, home):
            try:
                code: int | None = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = None
    texts = [(home / name).read_text("utf-8", "replace") for name in ("said", "complained")]
    return code, texts[0], texts[1]


@contextmanager
def _helped(process: subprocess.Popen[bytes], fault: Fault | None, home: Path) -> Iterator[None]:
    """Act from outside in a thread: wake a stopped gate, or fill its disk."""
    done = threading.Event()

    def wake() -> None:
        while not done.wait(0.05):
            if (home / "fired").exists():
                done.wait(0.3)
                process.send_signal(signal.SIGCONT)

    def fill() -> None:
        lines = 1 if fault and fault.at == "filled when the run begins" else 2
        while not done.wait(0.01):
            if (home / "said").read_bytes().count(b"\n") >= lines:
                mounts.fill(home / "disk")
                return

    stopped = fault and fault.kind == GATE and fault.what == "SIGSTOP"
    filled = fault and fault.kind == REAL_DISK and fault.at.startswith("filled")
    helper = threading.Thread(target=wake if stopped else fill) if stopped or filled else None
    if helper:
        helper.start()
    try:
        yield
    finally:
        done.set()
        if helper:
            helper.join()


# ── Leftovers ───────────────────────────────────────────────────────────────────────────────────────────


def _open_again(output: Path, ballast: Path) -> tuple[str, ...]:
    """What the next run leaves in the output folder: it has to start again, once the disk is usable."""
    with suppress(OSError):
        ballast.unlink(missing_ok=True)
    refused = ""
    try:
        with OutputFolder(output):
            pass
    except UsageError as error:
        refused = str(error)
    left = {path.name for path in output.iterdir()} - {"models", "logs"} if output.is_dir() else set()
    # A disk that is too small or read-only is still so.
    expected = any(os.strerror(number) in refused for number in (errno.ENOSPC, errno.EROFS))
    return (*sorted(left), *([refused] if refused and not expected else []))


def _has_fired(fault: Fault | None, home: Path, github: GitHub | None) -> bool:
    if fault is None or fault.kind == REAL_DISK:
        return fault is not None
    if fault.kind == API and github:
        return github.faults != [_answer(fault)]
    return (home / "fired").exists()


def _survivors(mark: str) -> tuple[str, ...]:
    """Processes of the run that are still alive after a moment; they are killed."""
    until = time.monotonic() + SOON
    while (found := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.02)
    for process in found:
        with suppress(OSError):
            os.kill(int(process.name), signal.SIGKILL)
    return tuple(process.name for process in found)


def _marked(mark: str) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes():
                found.append(process)
    return found


# ── GitHub ──────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _github(fault: Fault, home: Path) -> Iterator[GitHub]:
    """A server in place of GitHub, with the fault in its answers."""
    with server.serve() as github:
        if fault.at == "PATCH":
            github.add(f"{marker_of('onnx-gate.yml')}\n{OLD}")
        if fault.kind == API:
            github.faults = [_answer(fault)]
        if fault.kind == CLOCK and fault.at == "request":
            github.asked = Jumping(home, fault)
        yield github


class Jumping(list[server.Asked]):
    """The list of requests of a run; the first request sets the clock."""

    def __init__(self, home: Path, fault: Fault) -> None:
        super().__init__()
        self._home = home
        self._fault = fault

    def append(self, asked: server.Asked) -> None:
        (self._home / "fired").touch()
        hooks.set_clock(self._home, self._fault)
        super().append(asked)


def _answer(fault: Fault) -> server.Fault:
    ways: dict[str, dict[str, Any]] = {
        "dropped": {},
        "done, then dropped": {"after": True},
        "stalled": {"hangs": True},
        "half": {"status": 200, "breaks_off": True},
        "429": {"status": 429, "headers": {"retry-after": "1"}},
    }
    way = ways[fault.what] if fault.what in ways else {"status": int(fault.what)}
    return server.Fault(**way, method=fault.at, times=1_000_000 if fault.lasting else 1)


def _step(github: GitHub, home: Path, workload: Path) -> dict[str, str]:
    """The environment of a workflow step on a pull request."""
    event = {"pull_request": {"number": 7, "head": {"sha": _HEAD, "repo": {"full_name": server.REPOSITORY}}}}
    (home / "event.json").write_text(json.dumps(event))
    return {
        **github.environ,
        "GITHUB_WORKSPACE": str(workload),
        "GITHUB_EVENT_PATH": str(home / "event.json"),
        "GITHUB_STEP_SUMMARY": str(home / "summary"),
        "GITHUB_OUTPUT": str(home / "outputs"),
        "GITHUB_TOKEN": server.TOKEN,
    }
