"""How a run goes, for those who watch: live on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TextIO

from onnx_gate.records import ModelResult, ModelSpec, Status
from onnx_gate.wording import difference, one_line, seconds, worst_check

_MARKS = {Status.PASSED: "✔", Status.DIVERGED: "✘", Status.ERROR: "!", Status.SKIPPED: "-"}


def result_line(result: ModelResult) -> str:
    """One model in one line."""
    line = f"{_MARKS[result.verdict]} {result.id}: {result.verdict}"
    compared = sum(1 for check in result.checks if check.total)
    if result.verdict is Status.ERROR:
        line += f" ({result.cause}): {one_line(result.error)}"
    elif result.verdict is Status.DIVERGED:
        line += f" ({result.cause}), {difference(worst_check(result))}"
    elif compared:
        line += f", {compared} comparison{'s' * (compared != 1)}, {difference(worst_check(result))}"
    skipped = [
        f"{check.provider}: {one_line(check.message)}" for check in result.checks if check.status is Status.SKIPPED
    ]
    more = f" [{'; '.join(skipped)}]" if skipped else ""
    return f"{line}{more} ({seconds(result.seconds)})"


class PlainProgress:
    """A line a model."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = self._done = 0

    def began(self, models: Sequence[ModelSpec]) -> None:
        self._total = len(models)
        self._print(f"onnx-gate: {self._total} model{'s' * (self._total != 1)}")

    def started(self, model_id: str) -> None:
        pass

    def stage(self, model_id: str, name: str) -> None:
        pass

    def ended(self, result: ModelResult) -> None:
        self._done += 1
        self._print(f"[{self._done}/{self._total}] {result_line(result)}")

    def close(self) -> None:
        pass

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class LiveProgress(PlainProgress):
    """The same lines, above a display of what is running."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        # Imported here: a log needs none of it, and it takes time.
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False)
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=8, transient=True)
        self._running: dict[str, tuple[str, float]] = {}
        self._began = time.monotonic()

    def began(self, models: Sequence[ModelSpec]) -> None:
        super().began(models)
        self._live.start()

    def started(self, model_id: str) -> None:
        self._running[model_id] = ("start", time.monotonic())

    def stage(self, model_id: str, name: str) -> None:
        self._running[model_id] = (name, self._running.get(model_id, ("", time.monotonic()))[1])

    def ended(self, result: ModelResult) -> None:
        self._running.pop(result.id, None)
        super().ended(result)

    def close(self) -> None:
        self._live.stop()

    def _print(self, line: str) -> None:
        from rich.text import Text

        colours = {"✔": "green", "✘": "red", "!": "red", "-": "yellow"}
        colour = next((colours[mark] for mark in line.split() if mark in colours), "")
        self._console.print(Text(line, style=colour), soft_wrap=True)

    def _render(self) -> Any:
        from rich.table import Table

        now = time.monotonic()
        table = Table.grid(padding=(0, 2))
        waiting = self._total - self._done - len(self._running)
        table.add_row(
            "",
            f"{self._done} done, {len(self._running)} running, {waiting} waiting",
            seconds(now - self._began),
        )
        for model_id, (stage, since) in self._running.items():
            table.add_row("…", f"{model_id}: {stage}", seconds(now - since))
        return table
