"""Signals end a run where that loses nothing, and none is lost."""

from __future__ import annotations

import os
import signal

import pytest

from onnx_gate.cli.signals import Signals
from onnx_gate.gate.run import Cancelled


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_ends_the_block_at_once():
    """What comes after it in the block is not run."""
    signals = Signals()
    with signals.held(), pytest.raises(Cancelled) as raised, signals.interruptible():
        terminate()
        pytest.fail("the block went on")
    assert raised.value.signum == signal.SIGTERM


def test_a_signal_that_came_before_ends_the_block_too():
    """It was taken in while nothing could be lost by it."""
    signals = Signals()
    with signals.held():
        terminate()
        with pytest.raises(Cancelled), signals.interruptible():
            pytest.fail("the block was begun")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_while_an_object_is_freed_is_not_lost():
    """Python drops what is raised there, so the loop looks again."""

    class Freed:
        def __del__(self):
            terminate()

    signals = Signals()
    with signals.held(), pytest.raises(Cancelled), signals.interruptible() as check:
        Freed()
        check()
        pytest.fail("the signal was lost")


def test_a_second_signal_disturbs_nothing():
    """Impatience must not break what keeps the results."""
    signals = Signals()
    with signals.held():
        with pytest.raises(Cancelled), signals.interruptible():
            terminate()
        terminate()
