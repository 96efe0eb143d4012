"""Plans the faults to inject: a list that depends only on a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

P = TypeVar("P")

SEED = 20
COUNT = 500

WORKER, SERVER, GATE = "signal to a worker", "signal to a server", "signal to the gate"
DISK, REAL_DISK = "disk that fails", "real disk, full or read-only"
PIPE, API, CLOCK = "torn or slow pipe", "cut-off API", "clock that jumps"
SHARES = {WORKER: 0.26, SERVER: 0.14, GATE: 0.16, DISK: 0.16, REAL_DISK: 0.02, PIPE: 0.14, API: 0.06, CLOCK: 0.06}
"""The share of the plan for each kind."""

SETS = {
    "all": ("passes", "differs", "recorded", "wrong", "broken"),
    "green": ("passes", "recorded"),
    "light": ("recorded", "wrong"),
    "one": ("recorded",),
}
"""Sets of models of the workload: all, and cheaper ones. Models of `green` and `one` pass without a fault."""
EVENTS = {"all": 65, "green": 28, "light": 29, "one": 13}
"""The number of events in a run of each set."""
STAGES = {
    "passes": ("load", "inputs", "reference", "convert", "check", "run on cpu"),
    "differs": ("load", "inputs", "reference", "check", "run on cpu", "triage"),
    "recorded": ("load", "inputs", "reference", "check", "run on cpu"),
    "wrong": ("load", "inputs", "reference", "check", "run on cpu", "triage"),
    "broken": ("load",),
}
"""The stages of each model's worker."""
POINTS = {
    model: (*stages, *(("failure", "done") if model == "broken" else ("expect", "diff", "provider-done", "done")))
    for model, stages in STAGES.items()
}
"""Moments of a model's worker: its stages, and the events that it reports."""

_SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGABRT", "SIGSTOP")
_ERRORS = ("ENOSPC", "EROFS", "EIO", "EDQUOT")
_STEPS = {"make_folder": 14, "write": 4, "replace": 13, "remove_file": 4}
"""Disk operations of a run of all models, and their number."""
_FEW_STEPS = 8
"""Number of disk operations of one kind in a run of two models."""
_MOUNTS = (
    ("read-only", "the folder is there"),
    ("read-only", "the folder is to be made"),
    ("size=4k", "from the start"),
    ("size=16k", "from the start"),
    ("size=48k", "from the start"),
    ("size=64k", "from the start"),
    ("nr_inodes=5", "from the start"),
    ("nr_inodes=14", "from the start"),
    ("size=8m", "filled when the run begins"),
    ("size=8m", "filled after the first model"),
)
_TRICKS = ("cut", "closed", "torn", "noise", "split", "slow", "doubled", "missing", "stuck")
_SERVER_MOMENTS = ("start", "ready", "fork", "forked", "born", "load", "run on cpu", "status")
_ANSWERS = ("dropped", "done, then dropped", "stalled", "half", "500", "503", "403", "429")
_HOURS = (1, -1, 5, -5, 24, -24, 8760, -8760)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault, in one run."""

    kind: str
    """A key of `SHARES`."""
    what: str
    """The signal, the error, or the trick on a channel."""
    at: str
    """The moment: a stage, an event, a disk operation, a request."""
    nth: int = 1
    """The number of the occurrence of this moment."""
    model: str = ""
    """The model whose process is hit; empty if it is not the process of a model."""
    models: str = "all"
    """A key of `SETS`."""
    jobs: int = 2
    """The value of `--jobs`."""
    cold: bool = False
    """Whether the run has no warm server."""
    lasting: bool = False
    """Whether the fault happens each time from then on, not only once."""
    number: int = 0
    """Position in the plan."""

    def __str__(self) -> str:
        whose = f" of {self.model}" if self.model else ""
        how = f"{', cold' * self.cold}{', lasting' * self.lasting}"
        return f"{self.number}: {self.kind}: {self.what} at {self.at} {self.nth}{whose} ({self.models}{how})"


def plan(seed: int = SEED, count: int = COUNT) -> list[Fault]:
    """The faults of a seed; each kind gets its share."""
    rng = random.Random(seed)
    drawn = [
        fault
        for kind, number in _shares(count).items()
        for fault in itertools.islice(itertools.cycle(list(DRAW[kind](rng))), number)
    ]
    rng.shuffle(drawn)
    return [replace(fault, number=number) for number, fault in enumerate(drawn, start=1)]


def _shares(count: int) -> dict[str, int]:
    """Integers whose sum is the count: kinds with the largest remainder get one more."""
    whole = {kind: int(share * count) for kind, share in SHARES.items()}
    by_rest = sorted(SHARES, key=lambda kind: (whole[kind] - SHARES[kind] * count, kind))
    for kind in by_rest[: count - sum(whole.values())]:
        whole[kind] += 1
    return whole


def _dealt(rng: random.Random, places: Iterable[P], ways: Sequence[str]) -> Iterator[tuple[P, str]]:
    """Every way at every place, in rounds: each place is used once before any is used twice, and so are most ways."""
    shuffled, order = list(places), list(ways)
    rng.shuffle(shuffled)
    rng.shuffle(order)
    for start in range(len(order)):
        for number, place in enumerate(shuffled, start=start):
            yield place, order[number % len(order)]


def _workers(rng: random.Random) -> Iterator[Fault]:
    """Every signal at every moment of every model's worker."""
    for (model, at), what in _dealt(rng, _points(), _SIGNALS):
        models = _set_with(rng, model)
        cold = models in ("light", "one") and rng.random() < 0.4
        yield Fault(kind=WORKER, what=what, at=at, model=model, models=models, cold=cold, jobs=_jobs(rng))


def _servers(rng: random.Random) -> Iterator[Fault]:
    """Faults of the server before, while and after it forks, once and each time."""
    places = itertools.product(_SERVER_MOMENTS, (False, True), ("all", "light"))
    for (at, lasting, models), what in _dealt(rng, places, ("SIGKILL", "SIGTERM", "SIGSEGV", "SIGSTOP")):
        yield Fault(kind=SERVER, what=what, at=at, models=models, jobs=_jobs(rng), lasting=lasting)


def _gates(rng: random.Random) -> Iterator[Fault]:
    """Faults of the gate while models run, and at each step of writing reports."""
    events = [("event", nth, models) for models in SETS for nth in rng.sample(range(1, EVENTS[models] + 1), 8)]
    steps = [(at, nth, _set_of(rng, nth)) for at, most in _STEPS.items() for nth in range(1, most + 1)]
    for (at, nth, models), what in _dealt(rng, (*events, *steps), (*_SIGNALS, "SIGHUP")):
        yield Fault(kind=GATE, what=what, at=at, nth=nth, models=models, jobs=_jobs(rng))


def _disks(rng: random.Random) -> Iterator[Fault]:
    """Every error at every step, once and from then on."""
    steps = [
        (at, nth, lasting) for at, most in _STEPS.items() for nth in range(1, most + 1) for lasting in (False, True)
    ]
    for (at, nth, lasting), what in _dealt(rng, steps, _ERRORS):
        yield Fault(kind=DISK, what=what, at=at, nth=nth, models=_set_of(rng, nth), lasting=lasting)


def _real_disks(rng: random.Random) -> Iterator[Fault]:
    for what, at in _MOUNTS:
        # The larger disks only become full with all models.
        models = "all" if what in ("size=48k", "size=64k") else rng.choice(("light", "all"))
        yield Fault(kind=REAL_DISK, what=what, at=at, models=models, lasting=True)


def _pipes(rng: random.Random) -> Iterator[Fault]:
    """Every trick at every moment of every model's worker."""
    for (model, at), what in _dealt(rng, _points(), _TRICKS):
        yield Fault(kind=PIPE, what=what, at=at, model=model, models=_set_with(rng, model), jobs=_jobs(rng))


def _apis(rng: random.Random) -> Iterator[Fault]:
    """Every wrong answer to every request, once and each time."""
    for (at, lasting), what in _dealt(rng, itertools.product(("GET", "POST", "PATCH"), (False, True)), _ANSWERS):
        yield Fault(kind=API, what=what, at=at, models=rng.choice(("light", "one")), lasting=lasting)


def _clocks(rng: random.Random) -> Iterator[Fault]:
    """Jumps of the clock, forwards and backwards, while models run and during requests to GitHub."""
    moments = [("event", "all"), ("event", "light"), ("event", "one"), ("request", "one")]
    for (at, models), what in _dealt(rng, moments, [f"{hours:+} h" for hours in _HOURS]):
        nth = rng.randint(1, EVENTS[models]) if at == "event" else 1
        yield Fault(kind=CLOCK, what=what, at=at, nth=nth, models=models, jobs=_jobs(rng))


def _points() -> list[tuple[str, str]]:
    return [(model, at) for model, points in POINTS.items() for at in points]


def _set_with(rng: random.Random, model: str) -> str:
    """A random set that holds a model; small sets are preferred."""
    small = [name for name, models in SETS.items() if model in models and name != "all"]
    return rng.choice((*small, *small, "all"))


def _set_of(rng: random.Random, steps: int) -> str:
    """A random set whose run has at least this many disk operations."""
    return "all" if steps > _FEW_STEPS else rng.choice(("light", "light", "green", "all"))


def _jobs(rng: random.Random) -> int:
    return rng.choice((1, 2))


DRAW: dict[str, Callable[[random.Random], Iterator[Fault]]] = {
    WORKER: _workers,
    SERVER: _servers,
    GATE: _gates,
    DISK: _disks,
    REAL_DISK: _real_disks,
    PIPE: _pipes,
    API: _apis,
    CLOCK: _clocks,
}
