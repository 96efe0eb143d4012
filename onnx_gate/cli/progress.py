"""The progress of a run: a live display on a terminal, plain lines in a log."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TextIO

from onnx_gate.cli.estimate import Estimate
from onnx_gate.gate.console import say
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Status
from onnx_gate.wording.gaps import ITSELF, skipped_providers
from onnx_gate.wording.numbers import plural, seconds
from onnx_gate.wording.repro import shows_again
from onnx_gate.wording.strength import row_of
from onnx_gate.wording.text import LONGEST, one_line, shorten
from onnx_gate.wording.verdicts import (
    difference,
    failure,
    farthest_check,
    is_allowed,
    needless_allowance,
    outcome,
    reason,
    urgency,
)

_MARKS = {Status.PASSED: "✔", Status.DIVERGED: "✘", Status.ERROR: "!", Status.SKIPPED: "-"}
_WARNS = "⚠"
MOST_WORST = 3
"""The most models that are named again at the end."""


def result_line(result: ModelResult) -> str:
    """One model in one line."""
    line = f"{_MARKS[result.verdict]} {result.id}: {outcome(result)}"
    # As in the reports: an empty batch has no elements, but its dtypes and shapes were compared.
    passed = sum(check.status is Status.PASSED for check in result.checks)
    if result.verdict is Status.ERROR:
        line += f" ({result.cause}): {shorten(result.error, LONGEST)}"
    elif result.verdict is Status.DIVERGED:
        allowed = ", allowed" if is_allowed(result) else ""
        line += f" ({result.cause}{allowed}), {_what_differs(result)}"
    elif result.verdict is Status.SKIPPED:
        line += ", nothing was compared"
    elif passed:
        weak = f", {ITSELF} (no outputs are recorded)" if result.weak_reference else ""
        line += f"{weak}, {plural(passed, 'comparison')}, {difference(result)}"
        line += f", {row_of(result.strength)}" if result.strength else ""
    skipped = skipped_providers(result)
    more = f" [{', '.join(skipped)} skipped]" if skipped else ""
    took = "cached" if result.cached else seconds(result.seconds)
    return one_line(f"{line}{more} ({took})")


def _skips(result: ModelResult) -> list[tuple[str, str]]:
    return [(check.provider, check.message) for check in result.checks if check.status is Status.SKIPPED]


def _what_differs(result: ModelResult) -> str:
    """The largest difference; if no values were compared, the message of the first check that failed."""
    if farthest_check(result):
        return difference(result)
    return next((shorten(check.message, LONGEST) for check in result.checks if check.status is result.verdict), "–")


def worst_line(result: ModelResult) -> str:
    """One model that failed, and why, in one line."""
    allowed = ", allowed" if is_allowed(result) else ""
    far = f", {difference(result)}" if result.verdict is Status.DIVERGED and farthest_check(result) else ""
    why = f": {told}" if (told := reason(result)) else ""
    return one_line(f"{_MARKS[result.verdict]} {result.id} ({result.cause}{allowed}{far}){why}")


def _about(left: float) -> str:
    """The time left in whole seconds, since it is an estimate; at least one second, since something is left."""
    return f"about {seconds(max(10, math.ceil(left)))}" if left > 9 else f"about {max(1, math.ceil(left))} s"


class PlainProgress:
    """One line for each model; `debug` is called for every stage."""

    def __init__(self, stream: TextIO, debug: Callable[[str], None] = lambda line: None) -> None:
        self._stream = stream
        self._debug = debug
        self._started: dict[str, float] = {}
        self._total = self._done = 0
        self._told: set[tuple[str, str]] = set()
        self._failed: Counter[str] = Counter()
        self._worst: list[tuple[tuple[float, ...], str]] = []

    def began(self, models: Sequence[ModelSpec]) -> None:
        self.expect(len(models))

    def expect(self, count: int) -> None:
        """Set how many models will be reported, and print it."""
        self._total = count
        self._print(f"onnx-gate: {plural(count, 'model')}")

    def started(self, model_id: str) -> None:
        self._started[model_id] = time.monotonic()
        self._debug(f"{model_id}: started")

    def stage(self, model_id: str, name: str) -> None:
        since = time.monotonic() - self._started.get(model_id, time.monotonic())
        self._debug(one_line(f"{model_id}: {name}, after {seconds(since)}"))

    def ended(self, result: ModelResult) -> None:
        self._done += 1
        if result.verdict in (Status.DIVERGED, Status.ERROR):
            self._failed[failure(result)] += not is_allowed(result)
            self._worst = sorted([*self._worst, (urgency(result), worst_line(result))])[:MOST_WORST]
        self._print(f"[{self._done}/{self._total}] {result_line(result)}")
        for warning in result.coverage.warnings if result.coverage else ():
            self._print(one_line(f"{_WARNS} {result.id}: {warning}"))
        if needless := needless_allowance(result):
            self._print(one_line(f"{result.id}: {needless}"))
        for command in shows_again(result.repro)[:1] if result.repro else ():
            self._print(one_line(f"{result.id}: shows it again, in the output folder: {command}"))
        for provider, why in _skips(result):
            # Each reason is printed once: fifty models on a machine without a GPU have the same one.
            if (provider, why) not in self._told:
                self._told.add((provider, why))
                self._print(one_line(f"{provider or result.id}: {shorten(why, LONGEST)}"))

    def say(self, line: str) -> None:
        """Print a line about the run as a whole."""
        self._print(one_line(line))

    def close(self) -> None:
        """Print the worst models that failed, for readers who look at the end first."""
        if self._worst:
            self._print(f"The worst {len(self._worst)}:" if len(self._worst) > 1 else "What failed:")
        for _, line in self._worst:
            self._print(f"  {line}")
        self._worst = []

    def _print(self, line: str) -> None:
        say(line, self._stream)


def tell_results(models: Sequence[ModelResult], stream: TextIO) -> None:
    """Print the lines of models that were judged elsewhere."""
    told = PlainProgress(stream)
    told.expect(len(models))
    for model in models:
        told.ended(model)
    told.close()


class LiveProgress(PlainProgress):
    """The same lines, above a display of what is running. `last`: the seconds that each model took in the last run."""

    def __init__(self, stream: TextIO, last: Mapping[str, float] = MappingProxyType({})) -> None:
        super().__init__(stream)
        self._estimate = Estimate(last)
        # Imported here: a log doesn't need it, and the import takes time.
        from rich.console import Console
        from rich.live import Live

        self._running: dict[str, tuple[str, float]] = {}
        self._began = time.monotonic()
        self._console = Console(file=stream, highlight=False)
        # `Live` renders at once, so the fields that it shows have to exist.
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=8, transient=True)

    def began(self, models: Sequence[ModelSpec]) -> None:
        super().began(models)
        self._estimate.began(models)
        self._live.start()

    def started(self, model_id: str) -> None:
        self._running[model_id] = ("start", time.monotonic())

    def stage(self, model_id: str, name: str) -> None:
        self._running[model_id] = (name, self._running.get(model_id, ("", time.monotonic()))[1])

    def ended(self, result: ModelResult) -> None:
        self._running.pop(result.id, None)
        self._estimate.ended(result.id, result.seconds)
        super().ended(result)

    def close(self) -> None:
        self._live.stop()
        super().close()

    def _print(self, line: str) -> None:
        from rich.text import Text

        colours = {"✔": "green", "✘": "red", "!": "red", "-": "yellow", _WARNS: "yellow"}
        colour = next((colours[mark] for mark in line.split() if mark in colours), "")
        self._console.print(Text(line, style=colour), soft_wrap=True)

    def _render(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        table = Table.grid(padding=(0, 2))
        # A separate thread draws this, while models start and end.
        running = list(self._running.items())
        waiting = max(0, self._total - self._done - len(running))
        told = Text(f"{self._done} done")
        for word, count in list(self._failed.items()):
            told.append(f", {count} {word}" if count else "", style="red")
        told.append(f", {len(running)} running, {waiting} waiting")
        told.append(", frameworks are loading" if waiting and not running else "")
        left = self._estimate.left({model_id: now - since for model_id, (_, since) in running})
        told.append(f", {_about(left)} left" if left is not None and (running or waiting) else "")
        table.add_row("", told, seconds(now - self._began))
        for model_id, (stage, since) in running:
            table.add_row("…", Text(one_line(f"{model_id}: {stage}")), seconds(now - since))
        return table
