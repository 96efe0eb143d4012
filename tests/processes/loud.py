"""Models whose code takes over the channel to the parent. Copied beside a manifest; never imported by a test."""

import itertools
import json
import os
import socket
import stat

import numpy as np
from sklearn.linear_model import LinearRegression

DIFF = {"provider": "cpu", "case": "batch=1", "output": "variable"}
BREACH = {"kind": "elements", "text": "x"}
WRONG = {**DIFF, "total": 10_000, "mismatched": 10_000, "worst": {"index": [0], "reference": 0, "actual": 1}}


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


def say(*events, repeat=1):
    lines = b"".join(json.dumps({"kind": kind, "body": body}).encode() + b"\n" for kind, body in events)
    to_parent = channel()
    for _ in range(repeat):
        to_parent.sendall(lines)


def big_number():
    channel().sendall(b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","total":1%s}}\n' % (b"0" * 400))
    return good()


def bigger_number():
    digits = b"0" * 4_000
    channel().sendall(b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","max_abs":1%s}}\n' % digits)
    return good()


def expects_a_million():
    names = [f"n{number}" for number in range(1_200)]
    say(("expect", {"provider": "cpu", "cases": names, "outputs": names}), ("done", {}))
    os._exit(0)


def runs_elsewhere():
    """Each new process would be told to run the same again."""
    say(("note", {"text": "x" * 9_000}), ("stage", {"name": "run on tensorrt", "provider": "tensorrt"}))
    os._exit(1)


def notes():
    for number in itertools.count():
        say(*[("note", {"text": f"{number}.{line} {'x' * 200}", "warns": True}) for line in range(100)])


def breaches():
    for number in itertools.count():
        say(
            *[
                ("diff", {**WRONG, "case": f"{number}.{line}", "breaches": [BREACH] * 100, "labels": [""] * 100})
                for line in range(100)
            ]
        )


def confusions():
    """As many small records in one event as fit: what costs the parent most for each byte."""
    pairs = [{"reference": 0, "actual": 1, "count": 1}] * 10_000
    for number in itertools.count():
        say(("diff", {**WRONG, "case": str(number), "confusion": pairs, "breaches": [BREACH]}))


def wide_texts():
    """One character beyond the first 65,536 makes Python keep all of a text at four bytes each."""
    wide = {**BREACH, "text": "x" * 9_900 + "\U0001f642"}
    for number in itertools.count():
        say(("diff", {**DIFF, "case": f"{number} \U0001f642", "breaches": [wide] * 20}))


def markup():
    """Each character of a name becomes five in XML, for thousands of checks."""
    for number in itertools.count():
        say(
            *[
                ("diff", {**WRONG, "case": f"{number}.{line}" + "&" * 980, "output": "&" * 990, "breaches": [BREACH]})
                for line in range(20)
            ]
        )


markup_again = markup_once_more = markup


def one_wide_character():
    """In a report that is one text, all others take four bytes for it."""
    smile = "\U0001f642"
    say(("note", {"text": smile}), ("diff", {**WRONG, "case": smile, "breaches": [{**BREACH, "text": smile}]}))
    return good()


def latencies():
    """Small events, each kept as a record of its own with two more in it."""
    timing = {"median": 0.001, "p95": 0.001}
    common = {"provider": "cpu", "batch": 1, "source": timing, "actual": timing, "speedup": 1.0, "repeats": 5}
    for number in itertools.count():
        say(*[("latency", {**common, "case": f"{number}.{line}"}) for line in range(100)])


def contradicts():
    """Numbers that can't all be true, for which `report` and `merge` would refuse the results of all models."""
    say(("diff", {**DIFF, "total": 2, "mismatched": 0, "cosine": 1.7e308, "tolerance": {"rtol": 0, "atol": 0}}))
    return good()


def keeps_a_limit_on_speed():
    """Of which the parent has been told no time."""
    say(("diff", {**DIFF, "case": "latency", "output": "speedup", "limits": {"min_speedup": 2.0}}))
    return good()


def empties():
    """Lines that are parsed at a high cost and then refused."""
    channel().sendall(b'{"kind":"note","body":{"text":[' + b"[]," * 690_000 + b"[]]}}\n")
    return good()
