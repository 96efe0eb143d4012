"""What the parent takes from one model's process: whole events, within bounds, about that model only.

No process, no socket: bytes in, events out. A model's code runs beside the worker's and may write to its channel, so
whatever comes is taken for somebody else's until it was checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx_gate.records import Expectation, ModelSpec, OutputDiff
from onnx_gate.records.bounds import MOST_COMPARISONS
from onnx_gate.worker.protocol import LONGEST_LINE, Event, GarbageReply, decode

POOL = 32 * 1024 * 1024
"""Bytes of events that all models of a run may send together: they are kept until the reports are written."""
MOST_SAID = 8 * 1024 * 1024
"""Bytes that one model may send."""
ENOUGH = 256 * 1024
"""Bytes that a model may send in any case: some 400 comparisons."""


class SaidTooMuch(Exception):
    """A model must not fill the memory of the process that all share."""


def fair_share(models: int) -> int:
    """What each of so many models may send, so that none takes another's room."""
    return max(ENOUGH, min(MOST_SAID, POOL // max(1, models)))


class Hearing:
    """One process of a model: takes in what it sends, and lets events through that it may send."""

    def __init__(self, spec: ModelSpec, limit: int) -> None:
        self._providers = {provider.name for provider in spec.providers}
        self._limit = limit
        self._buffer = bytearray()
        self.received = 0
        """Bytes so far."""

    def take(self, chunk: bytes) -> Iterator[Event]:
        """The events that are whole by now; raises GarbageReply and SaidTooMuch."""
        self.received += len(chunk)
        if self.received > self._limit:
            raise SaidTooMuch
        self._buffer += chunk
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
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
