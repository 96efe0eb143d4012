"""Models whose code does what model code should not. Copied beside a manifest; never imported by a test."""

import ctypes
import mmap
import os
import signal
import socket
import sys
import time

import numpy as np
from sklearn.linear_model import LinearRegression


def good():
    return LinearRegression().fit(np.arange(12.0).reshape(6, 2) ** 1.5, np.arange(6.0))


class Good(LinearRegression):
    """A regression that does something else first, each time it is asked."""

    def predict(self, rows):
        self.before()
        return super().predict(rows)


class TakesNoRows(LinearRegression):
    """Answers zero rows too, which scikit-learn's own refuses."""

    def predict(self, rows):
        return super().predict(rows) if len(rows) else np.zeros((0, 1), np.float32)


def takes_no_rows():
    model = TakesNoRows()
    model.coef_, model.intercept_, model.n_features_in_ = np.ones((1, 2), np.float32), np.zeros(1, np.float32), 2
    return model


class DiesOfNoRows(TakesNoRows):
    """The source itself is native code that dies."""

    def predict(self, rows):
        return super().predict(rows) if len(rows) else os.abort()


def dies_of_no_rows():
    model = DiesOfNoRows()
    model.__dict__.update(takes_no_rows().__dict__)
    return model


def segfault():
    ctypes.string_at(0)


def floating_point_exception():
    os.kill(os.getpid(), signal.SIGFPE)


def abort():
    os.abort()


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def wait():
    time.sleep(600)


def hang():
    wait()


def spin():
    while True:
        pass


def leave():
    sys.exit(0)


def leave_at_once():
    os._exit(0)


def flood():
    while True:
        print("x" * 1000)


def chatter():
    print("converted!\n" * 1000)
    return good()


def eat_memory():
    hoard = []
    while True:
        hoard.append(np.ones(4_000_000))


def eat_shared_memory():
    # Not counted as data by the kernel: only the watch on the resident set sees it.
    hoard = []
    while True:
        hoard.append(mmap.mmap(-1, 32_000_000))
        hoard[-1].write(b"x" * 32_000_000)


def garbage():
    for fd in range(3, 64):
        try:
            os.write(fd, b'{"kind": "done"}\nhello\n')
        except OSError:
            continue
    return good()


def forged():
    """Claims, in proper events, that all is well, and leaves."""
    for fd in range(3, 64):
        try:
            os.write(fd, b'{"kind":"provider-done","body":{"provider":"cpu"}}\n{"kind":"done","body":{}}\n')
        except OSError:
            continue
    os._exit(0)


def talks():
    """Proper events without an end."""
    note = b'{"kind":"note","body":{"text":"%s"}}\n' % (b"x" * 9_000)
    for fd in range(3, 64):
        try:
            channel = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        while True:
            channel.sendall(note)


def endless_line():
    for fd in range(3, 64):
        try:
            os.set_blocking(fd, True)
            for _ in range(200):
                os.write(fd, b"x" * 65536)
        except OSError:
            continue
    return good()


def none():
    return None


def raises():
    raise ValueError("no such luck")


def kill_server():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def stops_server():
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)


def answers_and_stays():
    """Says that all is done, and goes on."""
    for fd in range(3, 64):
        try:
            os.write(fd, b'{"kind":"done","body":{}}\n')
        except OSError:
            continue
    time.sleep(600)


def child_survives():
    """A process that the model started must not outlive the job."""
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
    return good()


def daemon():
    """In a session of its own, without a parent: it must not outlive the job either."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return good()


def threads():
    import threading

    threading.Thread(target=hang, daemon=False).start()
    return good()
