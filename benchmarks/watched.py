"""One command, with what it takes: seconds, seconds of the CPU, and the memory of each process that has a log."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_EVERY = 0.1
"""Seconds between two looks at the memory."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What a command took."""

    seconds: float
    cpu: float
    """Of the command and all that it started, on all cores."""
    memory: dict[str, int] = field(default_factory=dict)
    """Log → the most bytes that a process took that writes it."""


def watched(command: list[str], folder: Path, *, expected: int = 0) -> Watched:
    """Run it to its end; a command that ends with another code than the expected one ends the benchmark."""
    before, start = _cpu(), time.monotonic()
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ended, memory = threading.Event(), dict[str, int]()
    watch = threading.Thread(target=_watch, args=(folder, ended, memory))
    watch.start()
    printed, _ = running.communicate()
    seconds, cpu = time.monotonic() - start, _cpu() - before
    ended.set()
    watch.join()
    if running.returncode != expected:
        sys.exit(f"{' '.join(command)} failed:\n{printed}")
    return Watched(seconds=seconds, cpu=cpu, memory=memory)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(folder: Path, ended: threading.Event, memory: dict[str, int]) -> None:
    while not ended.wait(_EVERY):
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                _look(process, folder, memory)


def _look(process: Path, folder: Path, memory: dict[str, int]) -> None:
    try:
        log = (process / "fd" / "2").readlink()
        if log.is_relative_to(folder):
            memory[log.stem] = max(memory.get(log.stem, 0), _peak(process))
    except OSError:
        # It ended in between, or is somebody else's.
        return


def _peak(process: Path) -> int:
    lines = (process / "status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
