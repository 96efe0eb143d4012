"""Models whose process dies, or lies, while it tries wrong models. Copied beside a manifest; never imported."""

import json
import mmap
import os
import signal
import socket
import stat
import time

import numpy as np
from sklearn.linear_model import LinearRegression

CASES = ("batch=1", "batch=2")
STRENGTH = {"planned": 4, "tried": 4, "counted": 4, "caught": 1, "aimed": 1, "rows": 3, "all_rows": 3}
KIND = {"kind": "negated", "tried": 4, "counted": 4, "caught": 1, "aimed": 1}
TOLD = {**STRENGTH, "kinds": [KIND]}


def good():
    return LinearRegression().fit(np.arange(12.0).reshape(6, 2) ** 1.5, np.arange(6.0))


def channel():
    """The worker's own end, among the files that are open."""
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
    raise RuntimeError("there is no channel")


def say(*events):
    lines = b"".join(json.dumps({"kind": kind, "body": body}).encode() + b"\n" for kind, body in events)
    channel().sendall(lines)


def once_compared(act):
    """The model, which is all right; `act` is called when every provider was compared, in the stage of strength."""
    from onnx_gate.worker import judge

    def in_its_place(*_):
        say(("stage", {"name": "strength"}))
        act()
        return []

    vars(judge)["measure_latency"] = in_its_place
    # What comes after it is said above.
    vars(judge)["judge_strength"] = lambda *_, **__: []
    return good()


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def hang():
    while True:
        time.sleep(60)


def eat():
    # Not counted as data by the kernel: only the watch on the resident set sees it.
    hoard = []
    while True:
        hoard.append(mmap.mmap(-1, 32_000_000))
        hoard[-1].write(b"x" * 32_000_000)


def expect(*more):
    return ("expect", {"provider": "cpu", "cases": [*CASES, *more], "outputs": ["variable"]})


def crashes():
    return once_compared(crash)


def leaves():
    return once_compared(lambda: os._exit(7))


def hangs():
    return once_compared(hang)


def needs_too_much():
    return once_compared(eat)


def floods_the_log():
    return once_compared(lambda: [print("x" * 1000) for _ in iter(int, 1)])


def says_garbage():
    return once_compared(lambda: channel().sendall(b"hello\n"))


def says_too_much():
    note = ("note", {"text": "x" * 9_000})
    return once_compared(lambda: [say(note) for _ in iter(int, 1)])


def crashes_on_an_aimed_case():
    return once_compared(lambda: (say(("strength", TOLD), expect("aimed:leaf 3")), crash()))


def compares_no_aimed_case():
    return once_compared(lambda: say(("strength", TOLD), expect("aimed:leaf 3")))


def announces_less():
    return once_compared(lambda: say(("expect", {"provider": "cpu", "cases": ["batch=1"], "outputs": ["variable"]})))


def announces_other_outputs():
    body = {"provider": "cpu", "cases": list(CASES), "outputs": []}
    return once_compared(lambda: say(("expect", body)))


def has_a_strength():
    return once_compared(lambda: say(("strength", TOLD)))


def crashes_with_a_strength():
    return once_compared(lambda: (say(("strength", TOLD)), crash()))


def has_two():
    return once_compared(lambda: say(("strength", TOLD), ("strength", {**TOLD, "rows": 2})))


def has_one_that_cannot_be():
    return once_compared(lambda: say(("strength", {**TOLD, "caught": 5})))


def judges_itself():
    failure = {"stage": "strength", "cause": "weak-inputs", "message": "no"}
    return once_compared(lambda: say(("failure", failure)))


def leaves_early():
    """Says that it is past all comparisons, and dies before the first."""
    say(("stage", {"name": "strength"}))
    os._exit(1)


def promises_and_leaves():
    """The same, with a forged announcement that nothing follows."""
    say(expect(), ("provider-done", {"provider": "cpu"}), ("stage", {"name": "strength"}))
    os._exit(1)


def is_never_done_with_a_provider():
    """Forged comparisons, and no word that they are all: the end of its process stays an error."""
    say(expect(), ("stage", {"name": "strength"}))
    os._exit(1)
