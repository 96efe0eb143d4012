"""Signals end a run where that loses nothing, and none is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from onnx_gate.cli.signals import Signals
from onnx_gate.gate.run import Cancelled


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_ends_the_run_where_it_asks() -> None:
    """Not where it arrives: the step under way is finished."""
    signals, steps = Signals(), []
    with signals.held(), pytest.raises(Cancelled) as raised:
        signals.raise_if_received()
        terminate()
        steps.append("finished")
        signals.raise_if_received()
        pytest.fail("the run went on")
    assert (raised.value.signum, steps) == (signal.SIGTERM, ["finished"])


def test_a_signal_while_an_object_is_freed_is_not_lost() -> None:
    """Python drops what is raised there."""

    class Freed:
        def __del__(self) -> None:
            terminate()

    signals = Signals()
    with signals.held(), pytest.raises(Cancelled):
        Freed()
        signals.raise_if_received()
        pytest.fail("the signal was lost")


class Interrupted:
    """A lock at the very moment that a signal arrives: just taken, and nobody knows it yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        taken = self._lock.acquire(blocking)
        terminate()
        return taken

    def release(self) -> None:
        self._lock.release()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


def test_a_signal_leaves_no_lock_taken() -> None:
    """Whoever waits for a process takes one of subprocess's: were it never given back, a cancelled run would hang."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        process._waitpid_lock = Interrupted()  # type: ignore[attr-defined]
        signals = Signals()
        try:
            with signals.held(), pytest.raises(Cancelled):
                process.poll()
                signals.raise_if_received()
                pytest.fail("the signal was lost")
        finally:
            process._waitpid_lock, held = threading.Lock(), process._waitpid_lock  # type: ignore[attr-defined]
            process.kill()
    assert held._lock.acquire(blocking=False), "the lock was never given back"


def test_the_first_of_two_signals_counts() -> None:
    """Impatience must not break what keeps the results, nor change how the run ends."""
    signals = Signals()
    with signals.held():
        terminate()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Cancelled) as raised:
            signals.raise_if_received()
    assert raised.value.signum == signal.SIGTERM
