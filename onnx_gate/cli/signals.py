"""Ctrl-C and SIGTERM, taken where they lose nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
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
    def interruptible(self) -> Iterator[None]:
        """Where a signal, also one that came before, ends the block at once."""
        self._interruptible = True
        try:
            if self._received is not None:
                raise Cancelled(self._received)
            yield
        finally:
            self._interruptible = False

    def _take(self, signum: int, _: object) -> None:
        self._received = signum
        if self._interruptible:
            self._interruptible = False
            raise Cancelled(signum)
