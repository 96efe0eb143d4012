"""A target with bugs: it doesn't like some numbers, dies of one, and never ends with another."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from random import Random

from fuzz.case import Case, Failed, Seed

COUNT = 40
BATCH = 4
PATIENCE = 2.0
MEMORY: int | None = None
SUFFIX = ".txt"


def seeds() -> Sequence[Seed]:
    """Two."""
    return [Seed(name="a", data=b"a"), Seed(name="b", data=b"b")]


def mutate(rng: Random, seed: Seed) -> Case:
    """A number behind the seed."""
    return Case(seed=seed.name, data=seed.data + b"%d" % rng.randrange(100), how="number")


def check(case: Case) -> str:
    """Which seed it was."""
    number = int(case.data[1:])
    if number == 13:
        raise Failed("thirteen")
    if number == 66:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 99:
        time.sleep(3_600)
    return case.seed
