"""Runs the cases of a target in separate processes, counts their outcomes, and keeps the failing cases."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from fuzz.case import draw, load_target
from fuzz.worker import Began, Outcome, Work, work

FAILURES = Path(__file__).parent / "failures"
MOST_KEPT = 20
"""Most failing cases of one target that are written: further ones are mostly the same bug."""
MOST_LOST = 100
"""Most processes that may die before the target is aborted."""
_START = multiprocessing.get_context("spawn")


@dataclass
class Tally:
    """The outcomes of the cases of one target."""

    target: str
    words: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """Number of cases that were checked."""
        return self.words.total() + len(self.failures)


@dataclass
class _Lane:
    """One process, and its remaining batches."""

    asked: Work
    process: BaseProcess
    channel: Connection
    at: range | None = None
    told: int = 0
    """Number of outcomes of the batch that were received."""


def run_target(
    name: str,
    *,
    seed: int,
    numbers: range,
    seconds: float | None = None,
    jobs: int = 2,
    batch: int | None = None,
    failed: Callable[[Outcome], None] = lambda _: None,
) -> Tally:
    """Check the cases with these numbers, or as many of them as the seconds allow."""
    tally, began = Tally(name), time.monotonic()
    size = batch or load_target(name).BATCH
    deadline = None if seconds is None else began + seconds
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        asked = [
            Work(
                target=name,
                seed=seed,
                starts=range(numbers.start + lane * size, numbers.stop, jobs * size),
                size=size,
                end=numbers.stop,
                deadline=deadline,
                trace=str(Path(folder) / f"{lane}.trace"),
            )
            for lane in range(jobs)
        ]
        _run_lanes([_start(each) for each in asked if each.starts], tally, failed)
    tally.seconds = time.monotonic() - began
    return tally


def _start(asked: Work) -> _Lane:
    ours, theirs = _START.Pipe()
    process = _START.Process(target=work, args=(theirs, asked), daemon=True)
    process.start()
    theirs.close()
    return _Lane(asked=asked, process=process, channel=ours)


def _run_lanes(lanes: list[_Lane], tally: Tally, failed: Callable[[Outcome], None]) -> None:
    """Run until every process has ended; a process that dies is replaced by one that continues after the case."""
    lost = 0
    while lanes:
        for channel in wait([lane.channel for lane in lanes]):
            lane = next(lane for lane in lanes if lane.channel is channel)
            if _hear(lane, tally, failed):
                continue
            lanes.remove(lane)
            rest = _close(lane, tally, failed)
            lost += rest is not None
            if rest and rest.starts and lost < MOST_LOST:
                lanes.append(_start(rest))


def _hear(lane: _Lane, tally: Tally, failed: Callable[[Outcome], None]) -> bool:
    """Receive one message; False if there are no more."""
    try:
        message = lane.channel.recv()
    except EOFError:
        return False
    if isinstance(message, Began):
        lane.at, lane.told = message.cases, 0
    elif isinstance(message, Outcome):
        lane.told += 1
        _book(message, tally, failed)
    else:
        lane.at = None
        return False
    return True


def _book(outcome: Outcome, tally: Tally, failed: Callable[[Outcome], None]) -> None:
    if not outcome.reason:
        tally.words[outcome.word] += 1
        return
    tally.failures.append(outcome)
    failed(outcome)


def _close(lane: _Lane, tally: Tally, failed: Callable[[Outcome], None]) -> Work | None:
    """The remaining work of a process that died; None if it did not die."""
    lane.channel.close()
    lane.process.join()
    if lane.at is None:
        if lane.process.exitcode:
            raise SystemExit(f"fuzz {lane.asked.target}: its process could not start (exit {lane.process.exitcode})")
        return None
    number = lane.at[min(lane.told, len(lane.at) - 1)]
    trace = Path(lane.asked.trace).read_text(errors="replace")
    reason = f"the process that checked it died (exit code {lane.process.exitcode}), or hung\n{trace}"
    _book(Outcome(number=number, word="", reason=reason), tally, failed)
    starts = lane.asked.starts
    return replace(lane.asked, starts=starts[starts.index(lane.at.start) + 1 :])


# ── Failing cases ───────────────────────────────────────────────────────────────────────────────────────


def keep_failure(name: str, seed: int, outcome: Outcome, folder: Path = FAILURES) -> str:
    """Write the case and the reason of its failure; returns the command that reproduces it."""
    target = load_target(name)
    case = draw(target, name, seed, outcome.number)
    command = f"python -m fuzz {name} --seed {seed} --case {outcome.number}"
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-{seed}-{outcome.number}{target.SUFFIX}"
    file.write_bytes(case.data)
    told = f"{command}\n\nseed file: {case.seed}\nmutation: {case.how}\n\n{outcome.reason}\n"
    file.with_name(f"{file.name}.txt").write_text(told, encoding="utf-8", errors="backslashreplace")
    return command
