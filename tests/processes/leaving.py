"""Data whose making leaves processes behind. Copied beside a manifest; never imported by a test.

Every process that is left writes its number into the folder `left`, as `<kind>-<number>`.
"""

import os
import signal
import time
from pathlib import Path

import numpy as np

LEFT = Path(__file__).parent / "left"
STOPPED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def feed():
    x = np.ones((2, 3), np.float32)
    return {"x": x, "y": 2 * x}


def stay(kind):
    (LEFT / f"{kind}-{os.getpid()}").touch()
    time.sleep(600)
    os._exit(0)


def wait_for(kind, count=1):
    while len(list(LEFT.glob(f"{kind}-*"))) < count:
        time.sleep(0.005)


def session():
    """A child in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        stay("session")
    wait_for("session")
    return feed()


def orphan():
    """A grandchild without a parent, in the group of the job."""
    if os.fork() == 0:
        if os.fork() == 0:
            stay("orphan")
        os._exit(0)
    wait_for("orphan")
    return feed()


def leave_daemon(kind):
    """In a session of its own, without a parent, and without any file of the gate's open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            stay(kind)
        os._exit(0)
    wait_for(kind)


def daemon():
    leave_daemon("daemon")
    return feed()


def stubborn():
    """One that can't be asked to go."""
    for number in STOPPED:
        signal.signal(number, signal.SIG_IGN)
    leave_daemon("stubborn")
    return feed()


def tree():
    """A daemon with children, each in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                stay("tree")
        stay("tree")
    wait_for("tree", 5)
    return feed()


def chain():
    """One that starts its successor and goes, again and again, each in a session of its own."""
    if os.fork() == 0:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            os.setsid()
            if os.fork():
                os._exit(0)
            (LEFT / f"chain-{os.getpid()}").touch()
        stay("chain")
    wait_for("chain", 3)
    return feed()


def hangs():
    leave_daemon("hangs")
    time.sleep(600)


def dies():
    leave_daemon("dies")
    os.kill(os.getpid(), signal.SIGSEGV)


def kills_server():
    leave_daemon("kills_server")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
