"""What the parent takes from one model's process: whole events, within bounds, about that model only.

No process, no socket: bytes in, events out. A model's code runs beside the worker's and may write to its channel, so
whatever comes is taken for somebody else's until it was checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_gate.protocol import LONGEST_LINE, Done, Event, GarbageReply, ProviderDone, Stage, Touched, decode
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.bounds import MOST_COMPARISONS
from onnx_gate.records.found import Expectation, OutputDiff
from onnx_gate.records.ran import Latency
from onnx_gate.vocabulary import STRENGTH

POOL = 200 * 1024 * 1024
"""Bytes of memory that the reports of all models of a run may take together: they are kept until the end."""
MOST_SAID = 80 * 1024 * 1024
"""Bytes that those of one model may take: some 14,000 comparisons."""
ENOUGH = 2 * 1024 * 1024
"""Bytes that those of a model may take in any case: some 350 comparisons."""
MOST_TOUCHED = 8 * 1024 * 1024
"""Bytes of the names of what a model has read."""
RECORD = 4_000
"""Bytes that a comparison or a time takes, as a record and in the reports, beside its texts."""
VALUE = 40
"""The same for any other value: a list of empty ones is short on the channel, and large in memory."""
TEXT = 3
"""How often a text is there: as a record, in results.json and in another report."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")


class SaidTooMuch(Exception):
    """A model must not fill the memory of the process that all share."""


def fair_share(models: int, *, taken: int = 0) -> int:
    """What the next of so many models may take, so that none takes another's room; `taken` is what others have."""
    return max(ENOUGH, min(MOST_SAID, (POOL - taken) // max(1, models)))


def weigh(line: bytes) -> int:
    """About what a report takes in memory; with one character beyond the first 65,536, each takes four bytes."""
    return TEXT * len(line) * (4 if _WIDE.search(line) else 1) + VALUE * line.count(b",")


class Hearing:
    """One process of a model: takes in what it sends, and lets events through that it may send."""

    def __init__(self, spec: ModelSpec, limit: int) -> None:
        self._providers = {provider.name for provider in spec.providers}
        self.limit = limit
        """Bytes that all reports may take."""
        self._buffer = bytearray()
        self._touched = 0
        self.weight = 0
        """Of all that came so far, in bytes."""
        self.at = Stage(name="start")
        """What it says that it does."""
        self.finished: set[str] = set()
        """Providers of which it says that nothing more will come."""
        self.done = False
        """It says that it has come to its end."""
        self.tries_wrong_models = False
        """It has compared the model on all providers, and announced nothing since: what dies now is a wrong model."""

    def take(self, chunk: bytes) -> Iterator[Event]:
        """The events that are whole by now; raises GarbageReply and SaidTooMuch."""
        self._buffer += chunk
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            yield self._followed(line)
        if len(self._buffer) > LONGEST_LINE:
            self.tries_wrong_models = False
            raise GarbageReply("an endless line")

    def _followed(self, line: bytes) -> Event:
        try:
            event = self._weighed(self._checked(line), line)
        except (GarbageReply, SaidTooMuch):
            # No wrong model does this.
            self.tries_wrong_models = False
            raise
        match event:
            case Stage(name=name):
                compared = bool(self._providers) and self._providers <= self.finished
                self.at, self.tries_wrong_models = event, compared and name == STRENGTH
            case Expectation():
                # It goes on to run the model itself, on aimed cases.
                self.tries_wrong_models = False
            case ProviderDone(provider=provider):
                self.finished.add(provider)
            case Done():
                self.done = True
        return event

    def _weighed(self, event: Event, line: bytes) -> Event:
        if isinstance(event, Touched):
            # Kept until its model has ended, and so no part of what all models share.
            self._touched += len(line)
            if self._touched > MOST_TOUCHED:
                raise SaidTooMuch
            return event
        self.weight += weigh(line) + RECORD * isinstance(event, OutputDiff | Latency)
        if self.weight > self.limit:
            raise SaidTooMuch
        return event

    def _checked(self, line: bytes) -> Event:
        event = decode(line)
        provider: str | None = getattr(event, "provider", None)
        in_the_file = isinstance(event, OutputDiff) and provider == "graph"
        if provider is not None and provider not in self._providers and not in_the_file:
            raise GarbageReply(f"a report on {provider[:80]!r}, a provider that it was not asked to run on")
        if isinstance(event, Expectation) and len(event.cases) * len(event.outputs) > MOST_COMPARISONS:
            raise GarbageReply(f"an announcement of more than {MOST_COMPARISONS:,} comparisons")
        return event
