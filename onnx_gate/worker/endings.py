"""Why a process ended without having answered, in words."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

from onnx_gate.records import Cause, Failure

_MEANING = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGFPE: "arithmetic fault, such as an integer division by zero or INT_MIN / -1",
    signal.SIGABRT: "abort: native code gave up, see the log",
    signal.SIGILL: "an instruction that this CPU doesn't have",
    signal.SIGKILL: "from outside; mostly by the kernel, when memory runs out",
    signal.SIGBUS: "bus error: a mapped file was cut short, or memory ran out",
}
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)


def explain(status: int, stage: str, provider: str | None, log_tail: str, *, oom_killed: bool) -> Failure:
    """A failure for a wait status that isn't the end of a job that was done."""
    during = f"during {stage!r}{_last_frame(log_tail)}"
    if os.WIFSIGNALED(status):
        return _signalled(signal.Signals(os.WTERMSIG(status)), during, stage, provider, oom_killed=oom_killed)
    code = os.waitstatus_to_exitcode(status)
    return Failure(
        stage=stage,
        provider=provider,
        cause=Cause.CRASHED,
        message=f"the process ended with exit code {code} {during}, before it had answered",
        fix="does the model's code call os._exit or sys.exit? The end of its log tells more",
    )


def _signalled(which: signal.Signals, during: str, stage: str, provider: str | None, *, oom_killed: bool) -> Failure:
    if which == signal.SIGKILL and oom_killed:
        return Failure(
            stage=stage,
            provider=provider,
            cause=Cause.OUT_OF_MEMORY,
            message=f"the kernel killed the process {during}: the machine ran out of memory",
            fix="use smaller `batches`, fewer --jobs, or a machine with more memory",
        )
    meaning = _MEANING.get(which, "")
    return Failure(
        stage=stage,
        provider=provider,
        cause=Cause.CRASHED,
        message=f"the process was killed by {which.name}{f' ({meaning})' if meaning else ''} {during}",
        fix="run the model's code on its own to find the line; native code crashed, Python can't catch that",
    )


def timed_out(seconds: float, stage: str, provider: str | None) -> Failure:
    """The model's `timeout` ran out."""
    return Failure(
        stage=stage,
        provider=provider,
        cause=Cause.TIMEOUT,
        message=f"not finished after {seconds:g} s (timeout), during {stage!r}",
        fix="raise `timeout`, use smaller `batches`, or look for an endless loop",
    )


def too_much_memory(limit: int, used: int, stage: str, provider: str | None) -> Failure:
    """The model's `memory` was exceeded."""
    return Failure(
        stage=stage,
        provider=provider,
        cause=Cause.OUT_OF_MEMORY,
        message=f"used {used / 2**20:,.0f} MiB during {stage!r}, {limit / 2**20:,.0f} MiB are allowed (memory)",
        fix="raise `memory`, or use smaller `batches`",
    )


def printed_too_much(limit: int, stage: str, provider: str | None) -> Failure:
    """The model's code floods its log."""
    return Failure(
        stage=stage,
        provider=provider,
        cause=Cause.CRASHED,
        message=f"printed more than {limit / 2**20:.0f} MiB during {stage!r} and was stopped",
        fix="remove the prints from the model's code",
    )


def garbage(text: str, stage: str, provider: str | None) -> Failure:
    """Something other than a worker of ours wrote to its channel."""
    return Failure(
        stage=stage,
        provider=provider,
        cause=Cause.CRASHED,
        message=f"the process sent {text} during {stage!r}, and was stopped",
        fix="the model's code writes to a file descriptor that isn't its own",
    )


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory, so far."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _last_frame(log_tail: str) -> str:
    """The Python line at which native code crashed, as faulthandler wrote it into the log."""
    _, fatal, dump = log_tail.rpartition("Fatal Python error")
    installed = ("site-packages", sys.base_prefix, str(Path(__file__).parent.parent))
    found = [match for match in _FRAME.finditer(dump) if not any(part in match["file"] for part in installed)]
    if not fatal or not found:
        return ""
    return f" at {Path(found[0]['file']).name}, line {found[0]['line']} in {found[0]['function']}"
