"""Ctrl-C and SIGTERM, handled where nothing gets lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from onnx_gate.gate.run import Cancelled


class Signals:
    """Ctrl-C and SIGTERM: they stop the models. What is known is kept, and later signals change nothing.

    Nothing is raised where a signal happens to arrive. A lock may just have been taken, which is then never released,
    or Python may be freeing an object, which drops the exception. So the run asks for signals, many times a second.
    """

    def __init__(self) -> None:
        self._received: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only record signals, so that the run can act on them where nothing gets lost."""
        before = {each: signal.signal(each, self._take) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def raise_if_received(self) -> None:
        """To be called between two steps of a run; raises Cancelled with the first signal that came."""
        if self._received is not None:
            raise Cancelled(self._received)

    def _take(self, signum: int, _: object) -> None:
        if self._received is None:
            self._received = signum
