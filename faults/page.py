"""The table of a plan, for the terminal and for docs/faults.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from faults.honesty import Ending, broken_promises, ending_of, wrong_verdicts
from faults.plan import SHARES
from faults.trial import Trial
from onnx_gate.records.result import Environment
from sweeps.page import write_page

SHOWN = (Ending.SAME, Ending.ERRORS, Ending.INCOMPLETE, Ending.NOT_WRITTEN, Ending.REFUSED, Ending.DIED)
HEADER = ("kind", "injected", "reached", *SHOWN, "wrong verdicts", "other broken promises")
INTRO = """\
What *no wrong verdict* rests on: each row counts whole runs of the command on up to five models: two that pass,
two that diverge, and one that can't be loaded. One fault is injected into each run. Afterwards one of these
must hold:

- every model has the verdict that it has without the fault, or is an error with a cause;
- the run says that it is incomplete;
- there are no reports, and the exit code says so.

Any other verdict is wrong: a pass of what diverges, a divergence of what passes, or a run that passes though
something is missing. The other promises are:

- nothing hangs, and no process survives;
- reports are whole, and all there or none;
- exit code and reports agree;
- a fault of one model changes no other model's verdict;
- the next run finds nothing in its way.

A fault that is *not reached* was planned for a moment that never came, such as the twelfth file of a run that
writes ten. A gate that is killed by a signal that nobody can catch ends with that signal, and CI sees it.

How the faults are injected:

- A process sends itself the signal at the stage, event or write that the plan names.
- Disks fail in the one object through which the output folder is written. The real ones are small or read-only
  tmpfs mounts.
- Pipes are spoilt where a worker sends its events.
- A server on loopback plays GitHub.
- Clocks jump in what Python reads from the wall clock: `time.time` in all processes of a run, `datetime.now` in
  the gate. Monotonic clocks go on, as they do if somebody sets the clock of a real machine."""


def rows(trials: Sequence[Trial]) -> list[list[object]]:
    """One row per kind, and one for all."""
    kinds = [[trial for trial in trials if trial.fault and trial.fault.kind == kind] for kind in SHARES]
    named = [(kind, own) for kind, own in zip(SHARES, kinds, strict=True) if own]
    return [_row(name, own) for name, own in (*named, ("**all**", list(trials)))]


def table(trials: Sequence[Trial]) -> list[str]:
    """The lines of the table for a terminal."""
    return [" | ".join(map(str, row)) for row in (HEADER, *rows(trials))]


def write(trials: Sequence[Trial], seed: int, environment: Environment) -> Path:
    """Write docs/faults.md."""
    reached = sum(trial.fired for trial in trials)
    return write_page(
        "faults",
        title="Injected faults",
        intro=INTRO,
        command=f"python -m faults --seed {seed} --count {len(trials)} --write",
        environment=environment,
        summary={
            "faults": len(trials),
            "of these, reached": reached,
            "wrong verdicts": sum(bool(wrong_verdicts(trial)) for trial in trials),
            "other broken promises": sum(bool(broken_promises(trial)) for trial in trials),
        },
        header=HEADER,
        rows=rows(trials),
    )


def _row(name: str, trials: list[Trial]) -> list[object]:
    endings = Counter(map(ending_of, trials))
    return [
        name,
        len(trials),
        sum(trial.fired for trial in trials),
        *(endings[ending] for ending in SHOWN),
        sum(bool(wrong_verdicts(trial)) for trial in trials),
        sum(bool(broken_promises(trial)) for trial in trials),
    ]
