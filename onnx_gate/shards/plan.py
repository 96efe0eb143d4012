"""A manifest → shards that take about the same time, and the matrix of jobs that judges them."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from onnx_gate.errors import UsageError
from onnx_gate.gate.selection import MOST_SHARDS, select_models, write_plan
from onnx_gate.records.asked import Manifest, ModelSpec, RunOptions
from onnx_gate.reports.json import read
from onnx_gate.wording.hints import first
from onnx_gate.wording.numbers import plural
from onnx_gate.wording.numbers import seconds as in_words

LONGEST_PLAN = 100_000
"""The most characters of a plan; an argument or a variable may have 131,071."""
_MOST_SECONDS = 1e9
_MOST_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which shard judges which models."""

    manifest: str
    """The manifest as the user named it."""
    text: str
    """The text for `run --plan`; empty if there is nothing to run."""
    shards: tuple[tuple[str, ...], ...]
    """The ids of the models of each shard, in the order of the manifest."""
    seconds: tuple[float, ...] | None
    """The expected seconds of each shard; None if no model's time is known."""

    @property
    def matrix(self) -> str:
        """JSON for `matrix: ${{ fromJSON(…) }}`; `name` is for names of artifacts, which can't contain a slash."""
        count = len(self.shards)
        entries = [
            {
                "shard": f"{number}/{count}",
                "name": f"{number}-of-{count}",
                "models": len(ids),
                "seconds": round(self.seconds[number - 1], 1) if self.seconds else None,
            }
            for number, ids in enumerate(self.shards, start=1)
        ]
        return json.dumps({"include": entries})

    @property
    def outputs(self) -> dict[str, str]:
        """The step's outputs."""
        return {
            "matrix": self.matrix,
            "plan": self.text,
            "shards": str(len(self.shards)),
            "empty": "false" if self.shards else "true",
        }

    @property
    def told(self) -> list[str]:
        """The plan for people: one line per shard."""
        if not self.shards:
            return [
                f"onnx-gate: {self.manifest}: no model runs on the providers asked for, so there is nothing to plan. "
                "The matrix is empty, which a job can't have. Fix: skip that job where the output `empty` is true"
            ]
        return [self._line(number) for number in range(1, len(self.shards) + 1)]

    def _line(self, number: int) -> str:
        ids = self.shards[number - 1]
        time = f", about {in_words(self.seconds[number - 1])}" if self.seconds else ""
        return f"shard {number}/{len(self.shards)}: {plural(len(ids), 'model')}{time}: {first(ids, _MOST_NAMES)}"


def make_plan(manifest: Manifest, options: RunOptions, shards: int, seconds: Mapping[str, float]) -> Plan:
    """A plan that gives each model, longest first, to the shard with the least work; at most one shard per model."""
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(
            f"--shards: got {shards}, expected 1 to {MOST_SHARDS}, the jobs that a matrix may have. "
            "Fix: ask for fewer; --jobs runs several models at a time in each"
        )
    specs = select_models(manifest, options)
    runnable = [spec for spec in specs if spec.providers]
    weights = expected_seconds(runnable, seconds)
    numbers = _balance([spec.id for spec in specs], weights, min(shards, len(runnable)))
    count = max(numbers.values(), default=0)
    held: list[list[str]] = [[] for _ in range(count)]
    for one, number in numbers.items():
        held[number - 1].append(one)
    text = write_plan(manifest.sha256, count, {spec.id: numbers.get(spec.id, 0) for spec in manifest.models})
    if len(text) > LONGEST_PLAN:
        raise UsageError(
            f"{manifest.path}: a plan of {plural(len(manifest.models), 'model')} has {len(text):,} characters, and "
            f"{LONGEST_PLAN:,} fit into an argument. Fix: use `run --shard I/N` without a plan, or split the manifest"
        )
    known = any(spec.id in seconds for spec in runnable)
    loads = tuple(sum(weights.get(one, 0.0) for one in ids) for ids in held)
    return Plan(
        manifest=manifest.path,
        text=text if count else "",
        shards=tuple(map(tuple, held)),
        seconds=loads if known else None,
    )


def seconds_if_known(path: str | None) -> tuple[dict[str, float], list[str]]:
    """The seconds that each model took in an earlier run, by id, and messages about them.

    The very first run has no results, and those of an older version may be unreadable: the plan is valid without.
    """
    if path is None:
        return {}, []
    try:
        taken = {model.id: model.seconds for model in read(Path(path)).models}
    except UsageError as error:
        return {}, [f"onnx-gate: planning without earlier results, each model counts the same: {error}"]
    return {one: each for one, each in taken.items() if math.isfinite(each) and 0 < each < _MOST_SECONDS}, []


def expected_seconds(specs: Sequence[ModelSpec], known: Mapping[str, float]) -> dict[str, float]:
    """Known seconds by id; else the median of the framework, else the median of all, else the same for all models."""
    taken = [known[spec.id] for spec in specs if spec.id in known]
    usual = median(taken) if taken else 1.0
    by_framework: dict[str, list[float]] = {}
    for spec in specs:
        if spec.id in known:
            by_framework.setdefault(spec.framework, []).append(known[spec.id])
    medians = {framework: median(each) for framework, each in by_framework.items()}
    return {spec.id: known.get(spec.id, medians.get(spec.framework, usual)) for spec in specs}


def _balance(ids: Sequence[str], weights: Mapping[str, float], count: int) -> dict[str, int]:
    """The shard of each id, in the order given. Equal weights keep that order, so every machine makes the same plan.

    A model without a weight runs on no requested provider: it takes no time, but one shard still has to report it.
    """
    if not count:
        return {}
    free = [(0.0, number) for number in range(1, count + 1)]
    numbers = {}
    for one in sorted(ids, key=lambda one: -weights.get(one, 0.0)):
        load, number = heapq.heappop(free)
        numbers[one] = number
        heapq.heappush(free, (load + weights.get(one, 0.0), number))
    return {one: numbers[one] for one in ids}
