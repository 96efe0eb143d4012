"""Ctrl-C and SIGTERM, taken where they lose nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onnx_gate.gate.run import Cancelled


class Signals:
    """Ctrl-C and SIGTERM: they stop the models, keep what is known, and disturb nothing after that."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._interruptible = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take signals in, to act on them only where that loses nothing."""
        before = {each: signal.signal(each, self._take) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    @contextmanager
    def interruptible(self) -> Iterator[Callable[[], None]]:
        """Where a signal, also one that came before, ends the block at once.

        Gives a function to call now and then: Python drops what is raised while it frees an object.
        """
        self._interruptible = True
        try:
            self._raise_if_received()
            yield self._raise_if_received
        finally:
            self._interruptible = False

    def _take(self, signum: int, _: object) -> None:
        first, self._received = self._received is None, signum
        if self._interruptible and first:
            self._raise_if_received()

    def _raise_if_received(self) -> None:
        if self._received is not None:
            raise Cancelled(self._received)
