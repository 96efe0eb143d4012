"""Runs one command and measures its cost: time, CPU time, and the memory of every process that it starts."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_EVERY = 0.1
"""Seconds between two samples of the memory."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The cost of a command."""

    seconds: float
    cpu: float
    """CPU seconds of the command and all processes that it started, on all cores."""
    own: int = 0
    """Peak bytes of its own process."""
    largest: int = 0
    """Peak bytes of the largest process, its own or one that it started."""
    memory: dict[str, int] = field(default_factory=dict)
    """Log → peak bytes of a process that writes to it."""


def watched(
    command: list[str], folder: Path, *, expected: int = 0, environ: Mapping[str, str] | None = None
) -> Watched:
    """Run a command to its end; an unexpected exit code ends the benchmark."""
    before, start = _cpu(), time.monotonic()
    running = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
    )
    ended, looks = threading.Event(), _Looks(running.pid, folder)
    watch = threading.Thread(target=looks.until, args=(ended,))
    watch.start()
    printed, _ = running.communicate()
    seconds, cpu = time.monotonic() - start, _cpu() - before
    ended.set()
    watch.join()
    if running.returncode != expected:
        sys.exit(f"{' '.join(command)} failed:\n{printed}")
    peaks = looks.peaks
    return Watched(
        seconds=seconds,
        cpu=cpu,
        own=peaks.get(running.pid, 0),
        largest=max(peaks.values(), default=0),
        memory=looks.by_log,
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Looks:
    """Samples the memory of a process and its descendants."""

    def __init__(self, root: int, folder: Path) -> None:
        self.peaks: dict[int, int] = {root: 0}
        self.by_log: dict[str, int] = {}
        self._folder = folder

    def until(self, ended: threading.Event) -> None:
        """Sample repeatedly until the command has ended."""
        while not ended.wait(_EVERY):
            for process in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
                self._look(process)

    def _look(self, process: int) -> None:
        try:
            status = _status(process)
            # A child has a higher process id than its parent, unless the ids have wrapped around.
            if process not in self.peaks and int(status["PPid"]) not in self.peaks:
                return
            peak = int(status.get("VmHWM", "0").split()[0]) * 1024
            self.peaks[process] = max(self.peaks.get(process, 0), peak)
            log = Path(f"/proc/{process}/fd/2").readlink()
            if log.is_relative_to(self._folder):
                self.by_log[log.stem] = max(self.by_log.get(log.stem, 0), peak)
        except OSError:
            # The process has ended in the meantime.
            return


def _status(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
