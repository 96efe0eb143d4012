"""The process that checks cases: whatever they do to it, the runner knows which one it was."""

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
    """What a process is asked to do."""

    target: str
    """Its name."""
    seed: int
    """Of the random numbers."""
    starts: range
    """The first number of each batch."""
    size: int
    """Of a batch."""
    end: int
    """No case has this number, or a higher one."""
    deadline: float | None
    """No batch but the first is begun after it; None for all."""
    trace: str
    """The file to which a crash or a hang writes where it was."""

    def batches(self) -> Iterator[range]:
        """Numbers of cases, as they are checked together."""
        return (range(start, min(start + self.size, self.end)) for start in self.starts)


@dataclass(frozen=True, kw_only=True)
class Began:
    """A batch is being checked: if nothing more comes, it is what ended the process."""

    cases: range


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one case."""

    number: int
    word: str
    """Empty where it failed."""
    reason: str = ""
    """Why it failed."""


def work(channel: Connection, asked: Work) -> None:
    """Check the batches, one after the other, and say of each how it went; None at the end."""
    # All that is left there goes with the run, also what a process that died has left.
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
            # Also out of native code: it writes where every thread is, and leaves.
            faulthandler.dump_traceback_later(target.PATIENCE, exit=True, file=trace)
            for outcome in check_batch(target, asked, batch):
                channel.send(outcome)
            faulthandler.cancel_dump_traceback_later()
        channel.send(None)


def check_batch(target: Target, asked: Work, batch: range) -> list[Outcome]:
    """The outcome of each case; a batch that fails is halved until it is known which of them it was."""
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
    # Together they fail, and in halves they don't: the first stands for all.
    cases = f"{batch[0]}-{batch[-1]}"
    return [Outcome(number=batch[0], word="", reason=f"with --case {cases} only\n{reason}"), *halves[1:]]
