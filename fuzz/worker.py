"""The process that checks cases: if a case kills it, the runner knows which one."""

from __future__ import annotations

import contextlib
import faulthandler
import resource
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.case import Target, check_all, draw, load_target

LONGEST_REASON = 20_000


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work for a process."""

    target: str
    """Name of the target."""
    seed: int
    """Seed of the random numbers."""
    starts: range
    """The first number of each batch."""
    size: int
    """Number of cases in a batch."""
    end: int
    """The number after the last case."""
    deadline: float | None
    """No batch except the first starts after this time; None for no limit."""
    trace: str
    """The file for the traceback of a crash or a hang."""

    def batches(self) -> Iterator[range]:
        """The numbers of the cases in each batch."""
        return (range(start, min(start + self.size, self.end)) for start in self.starts)


@dataclass(frozen=True, kw_only=True)
class Began:
    """A message that a batch has started: if no more messages follow, this batch has ended the process."""

    cases: range


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one case."""

    number: int
    word: str
    """One word for the outcome; empty if the case failed."""
    reason: str = ""
    """Why it failed."""


def work(channel: Connection, asked: Work) -> None:
    """Check the batches one after the other, and send the outcome of each case, and None at the end."""
    # Temporary files are removed at the end of the run, also those of a process that died.
    tempfile.tempdir = str(Path(asked.trace).parent)
    target = load_target(asked.target)
    target.seeds()
    if target.MEMORY is not None:
        resource.setrlimit(resource.RLIMIT_AS, (target.MEMORY, target.MEMORY))
    with contextlib.suppress(BrokenPipeError), Path(asked.trace).open("w") as trace:
        faulthandler.enable(trace)
        for number, batch in enumerate(asked.batches()):
            if number and asked.deadline is not None and time.monotonic() > asked.deadline:
                break
            channel.send(Began(cases=batch))
            # Works even if native code hangs: it writes the traceback of every thread, and exits.
            faulthandler.dump_traceback_later(target.PATIENCE, exit=True, file=trace)
            for outcome in check_batch(target, asked, batch):
                channel.send(outcome)
            faulthandler.cancel_dump_traceback_later()
        channel.send(None)


def check_batch(target: Target, asked: Work, batch: range) -> list[Outcome]:
    """The outcome of each case; a batch that fails is halved until the failing case is known."""
    try:
        words = check_all(target, [draw(target, asked.target, asked.seed, number) for number in batch])
        return [Outcome(number=number, word=word) for number, word in zip(batch, words, strict=True)]
    except Exception:
        reason = traceback.format_exc()[-LONGEST_REASON:]
    if len(batch) == 1:
        return [Outcome(number=batch[0], word="", reason=reason)]
    middle = len(batch) // 2
    halves = [outcome for half in (batch[:middle], batch[middle:]) for outcome in check_batch(target, asked, half)]
    if any(outcome.reason for outcome in halves):
        return halves
    # The cases fail together, but not in halves: the failure is reported for the first one.
    cases = f"{batch[0]}-{batch[-1]}"
    return [Outcome(number=batch[0], word="", reason=f"with --case {cases} only\n{reason}"), *halves[1:]]
