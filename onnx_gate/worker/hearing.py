"""What the parent takes from one model's process: whole events, within bounds, about that model only.

No process, no socket: bytes in, events out. A model's code runs beside the worker's and may write to its channel, so
whatever comes is taken for somebody else's until it was checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_gate.records import Expectation, ModelSpec, OutputDiff
from onnx_gate.records.bounds import MOST_COMPARISONS
from onnx_gate.worker.protocol import LONGEST_LINE, Event, GarbageReply, decode

POOL = 24 * 1024 * 1024
"""Bytes that the reports of all models of a run may weigh together: they are kept until the end."""
MOST_SAID = 16 * 1024 * 1024
"""Bytes that those of one model may weigh: some 13,000 comparisons."""
ENOUGH = 512 * 1024
"""Bytes that those of a model may weigh in any case: some 400 comparisons."""
VALUE = 24
"""Bytes that a value weighs beside its text: a list of empty ones is short on the channel, and large in memory."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")


class SaidTooMuch(Exception):
    """A model must not fill the memory of the process that all share."""


def fair_share(models: int) -> int:
    """What the reports of each of so many models may weigh, so that none takes another's room."""
    return max(ENOUGH, min(MOST_SAID, POOL // max(1, models)))


def weigh(line: bytes) -> int:
    """About what a report takes in memory; with one character beyond the first 65,536, each takes four bytes."""
    return (len(line) + VALUE * line.count(b",")) * (4 if _WIDE.search(line) else 1)


class Hearing:
    """One process of a model: takes in what it sends, and lets events through that it may send."""

    def __init__(self, spec: ModelSpec, limit: int) -> None:
        self._providers = {provider.name for provider in spec.providers}
        self._limit = limit
        self._buffer = bytearray()
        self.weight = 0
        """Of all that came so far, in bytes."""

    def take(self, chunk: bytes) -> Iterator[Event]:
        """The events that are whole by now; raises GarbageReply and SaidTooMuch."""
        self._buffer += chunk
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self.weight += weigh(line)
            if self.weight > self._limit:
                raise SaidTooMuch
            yield self._checked(line)
        if len(self._buffer) > LONGEST_LINE:
            raise GarbageReply("an endless line")

    def _checked(self, line: bytes) -> Event:
        event = decode(line)
        provider: str | None = getattr(event, "provider", None)
        in_the_file = isinstance(event, OutputDiff) and provider == "graph"
        if provider is not None and provider not in self._providers and not in_the_file:
            raise GarbageReply(f"a report on {provider[:80]!r}, a provider that it was not asked to run on")
        if isinstance(event, Expectation) and len(event.cases) * len(event.outputs) > MOST_COMPARISONS:
            raise GarbageReply(f"an announcement of more than {MOST_COMPARISONS:,} comparisons")
        return event
