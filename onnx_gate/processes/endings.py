"""Failures that say why a process ended before it had answered."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from onnx_gate.processes import stacks
from onnx_gate.protocol import Stage
from onnx_gate.records.found import Failure
from onnx_gate.vocabulary import EDGE_CASE, Cause
from onnx_gate.wording.numbers import size

_MEANING: dict[int, str] = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGFPE: "arithmetic fault, such as an integer division by zero or INT_MIN / -1",
    signal.SIGABRT: "abort: native code gave up, see the log",
    signal.SIGILL: "an instruction that this CPU doesn't have",
    signal.SIGKILL: "from outside; mostly by the kernel, when memory runs out",
    signal.SIGBUS: "bus error: a mapped file was cut short, or memory ran out",
}
_RUNTIME = "onnxruntime"


def explain(status: int, at: Stage, log_tail: str, *, oom_killed: bool) -> Failure:
    """The failure for the wait status of a process that ended before its job was done."""
    frames = stacks.of_crash(log_tail)
    own = next((frame for frame in frames if frame.is_users), None)
    during = f"{_during(at)}{f' at {own}' if own else ''}"
    if os.WIFSIGNALED(status):
        in_runtime = bool(frames) and frames[0].package == _RUNTIME
        return _signalled(os.WTERMSIG(status), during, at, oom_killed=oom_killed, in_runtime=in_runtime)
    return _failure(
        at,
        Cause.CRASHED,
        f"the process ended with exit code {os.waitstatus_to_exitcode(status)} {during}, before it had answered",
        "does the model's code call os._exit or sys.exit? The end of its log tells more",
    )


def _signalled(number: int, during: str, at: Stage, *, oom_killed: bool, in_runtime: bool) -> Failure:
    if number == signal.SIGKILL and oom_killed:
        return _failure(
            at,
            Cause.OUT_OF_MEMORY,
            f"the kernel killed the process {during}: the machine ran out of memory",
            "use smaller `batches`, fewer --jobs, or a machine with more memory",
        )
    # Real-time signals have numbers only.
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    meaning = f" ({_MEANING[number]})" if number in _MEANING else ""
    if in_runtime:
        return _failure(
            at,
            Cause.CRASHED,
            f"ONNX Runtime crashed and took the process with it: {name}{meaning} {during}",
            _fix_for_runtime(at),
        )
    return _failure(
        at,
        Cause.CRASHED,
        f"the process was killed by {name}{meaning} {during}",
        "run the model's code on its own to find the line; native code crashed, Python can't catch that",
    )


def _fix_for_runtime(at: Stage) -> str:
    """The fix for a feed that crashes the runtime, which can't be caught where the model is served either."""
    edge = at.case.removeprefix(EDGE_CASE) if at.case.startswith(EDGE_CASE) else ""
    guard = "refuse such a feed before it reaches the model, or change the operator that can't take it"
    return f"{guard}; if nobody will ever send one, remove {edge} from `edges`" if edge else guard


def timed_out(seconds: float, at: Stage, stack: str = "") -> Failure:
    """The failure of a model whose `timeout` ran out; `stack` is what its process wrote when asked for its stack."""
    frames = stacks.of_process(stack)
    own = [frame for frame in frames if frame.is_users]
    where = f". It was at {stacks.told(frames)}" if frames else ""
    look = f"look for an endless loop at {own[0]}" if own else "look for an endless loop"
    return _failure(
        at,
        Cause.TIMEOUT,
        f"not finished after {seconds:g} s (timeout), {_during(at)}{where}",
        f"{look}, use smaller `batches`, or raise `timeout`",
    )


def _during(at: Stage) -> str:
    """The stage in words, with the case that was being run, if there is one."""
    if not at.case:
        return f"during {at.name!r}"
    sizes = f" ({at.sizes})" if at.sizes and at.sizes != at.case else ""
    return f"during {at.name!r}, in the case {at.case}{sizes}"


def too_much_memory(limit: int, used: int, at: Stage) -> Failure:
    """The failure of a model that exceeded its `memory`."""
    return _failure(
        at,
        Cause.OUT_OF_MEMORY,
        f"used {used / 2**20:,.0f} MiB {_during(at)}, {limit / 2**20:,.0f} MiB are allowed (memory)",
        "raise `memory`, or use smaller `batches`",
    )


def printed_too_much(limit: int, at: Stage) -> Failure:
    """The failure of a model whose code floods its log."""
    return _failure(
        at,
        Cause.CRASHED,
        f"printed more than {limit / 2**20:.0f} MiB {_during(at)} and was stopped",
        "remove the prints from the model's code",
    )


def said_too_much(limit: int, at: Stage) -> Failure:
    """The failure of a model whose process floods the channel."""
    return _failure(
        at,
        Cause.CRASHED,
        f"its process reported more than the {size(limit)} that one model may take, and was stopped {_during(at)}",
        "compare fewer cases (`batches`, `dims`, `edges`) or outputs, or split the manifest; a model whose code writes "
        "to its worker's channel can't be judged",
    )


def garbage(text: str, at: Stage) -> Failure:
    """The failure of a process in which other code than the worker's wrote to the channel."""
    return _failure(
        at,
        Cause.CRASHED,
        f"the process sent {text} {_during(at)}, and was stopped",
        "the model's code writes to a file descriptor that isn't its own",
    )


def not_started(error: OSError) -> Failure:
    """The failure of a process that could not start: the system has no process, file or socket left."""
    return _failure(
        Stage(name="start"),
        Cause.CRASHED,
        f"its process could not be started ({error.strerror})",
        "use fewer --jobs, or raise the limits (ulimit -n, ulimit -u)",
    )


def on_a_wrong_model(failure: Failure) -> str:
    """How a process that tried wrong models ended, in words: native code may crash on them, or never end."""
    what = {Cause.TIMEOUT: "ran out of its time", Cause.OUT_OF_MEMORY: "ran out of memory"}
    return f"the process {what.get(failure.cause, 'crashed')} on a wrong model ({failure.message})"


def _failure(at: Stage, cause: Cause, message: str, fix: str) -> Failure:
    # Only the case that was being run fails: the other cases of its provider are still compared.
    stage = f"run {at.case}" if at.case and at.provider else at.name
    return Failure(stage=stage, provider=at.provider, cause=cause, message=message, fix=fix)


def oom_kills() -> int:
    """The number of processes that the kernel has killed so far because memory ran out."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
