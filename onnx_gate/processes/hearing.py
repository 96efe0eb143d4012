"""What the parent accepts from one model's process: whole events, within bounds, about that model only.

There is no process and no socket here: bytes in, events out. A model's code runs beside the worker's code and may write
to its channel, so everything that arrives is untrusted until it was checked here.
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
"""Bytes of memory for the reports of all models of a run together; they are kept until the end."""
MOST_SAID = 80 * 1024 * 1024
"""Bytes that the reports of one model may take: about 14,000 comparisons."""
ENOUGH = 2 * 1024 * 1024
"""Bytes that the reports of a model may take in any case: about 350 comparisons."""
MOST_TOUCHED = 8 * 1024 * 1024
"""Bytes for the names of the files that a model has read."""
RECORD = 4_000
"""Bytes that a comparison or a time takes, as a record and in the reports, besides its texts."""
VALUE = 40
"""Bytes that any other value takes: a list of empty values is short on the channel, but large in memory."""
TEXT = 3
"""The number of copies of a text: as a record, in results.json and in another report."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")


class SaidTooMuch(Exception):
    """A model reported too much: it must not fill the memory of the process that all models share."""


def fair_share(models: int, *, taken: int = 0) -> int:
    """Bytes for the next of the remaining models, so that none takes another's share; `taken` is in use by others."""
    return max(ENOUGH, min(MOST_SAID, (POOL - taken) // max(1, models)))


def weigh(line: bytes) -> int:
    """About the bytes that a report takes in memory; one character above U+FFFF makes every character take four."""
    return TEXT * len(line) * (4 if _WIDE.search(line) else 1) + VALUE * line.count(b",")


class Hearing:
    """Reads what one process of a model sends, and passes on the events that it may send."""

    def __init__(self, spec: ModelSpec, limit: int) -> None:
        self._providers = {provider.name for provider in spec.providers}
        self.limit = limit
        """Bytes that all reports may take."""
        self._buffer = bytearray()
        self._touched = 0
        self.weight = 0
        """Bytes that all reports so far take."""
        self.at = Stage(name="start")
        """The stage that the process reported last."""
        self.finished: set[str] = set()
        """Providers that the process has reported as finished."""
        self.done = False
        """Whether the process has reported that its job is done."""
        self.tries_wrong_models = False
        """All providers are compared and nothing was announced since: a crash now is that of a wrong model."""

    def take(self, chunk: bytes) -> Iterator[Event]:
        """The events that are complete so far; raises GarbageReply and SaidTooMuch."""
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
                # The process continues with the model itself, on aimed cases.
                self.tries_wrong_models = False
            case ProviderDone(provider=provider):
                self.finished.add(provider)
            case Done():
                self.done = True
        return event

    def _weighed(self, event: Event, line: bytes) -> Event:
        if isinstance(event, Touched):
            # These names are kept only until the model has ended, so they don't count towards the shared memory.
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
