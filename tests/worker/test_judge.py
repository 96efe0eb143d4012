"""Exceptions in a worker → failures with their causes."""

from __future__ import annotations

import pytest

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.processes.endings import explain
from onnx_gate.protocol import Stage
from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import failure_of


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (MemoryError(), Cause.OUT_OF_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), Cause.OUT_OF_MEMORY),
        (RuntimeError("[ONNXRuntimeError] Failed to allocate memory for requested buffer"), Cause.OUT_OF_MEMORY),
        (CannotJudge(Cause.CONVERSION_FAILED, "no"), Cause.CONVERSION_FAILED),
        (KeyError("ours"), Cause.UNKNOWN),
    ],
)
def test_an_exception_has_a_cause(error, cause):
    """Memory that ran out is told from other errors, whoever says it."""
    failure = failure_of(error, "load")
    assert failure.cause is cause
    assert failure.message


def test_only_an_absent_device_may_be_skipped():
    """One that is there and can't be used is an error."""
    absent, broken = (failure_of(NotAvailable("why", device_present=there), "run", "cuda") for there in (False, True))
    assert absent.skippable
    assert not broken.skippable
    assert absent.cause is broken.cause is Cause.PROVIDER_UNAVAILABLE


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (11, "SIGSEGV (segmentation fault)"),
        (37, "signal 37"),
        (9, "SIGKILL"),
        (3 << 8, "exit code 3"),
    ],
)
def test_every_ending_has_words(status, words):
    """Real-time signals too, which have no name."""
    failure = explain(status, Stage(name="load"), "", oom_killed=False)
    assert failure.cause is Cause.CRASHED
    assert words in failure.message


def test_a_kill_for_want_of_memory_is_told_from_others():
    """The kernel counts those that it killed."""
    failure = explain(9, Stage(name="run on cuda", provider="cuda"), "", oom_killed=True)
    assert (failure.cause, failure.provider) == (Cause.OUT_OF_MEMORY, "cuda")


def test_an_answer_that_comes_later_takes_nobodys_place():
    """The file calls its output `z`, which is the source's `y`: a `z` that the source gives later is not it."""
    first, later = Answer(value=1, dtype="float32"), Answer(value=2, dtype="float32")
    spec = ModelSpec(id="m", line=1, framework="onnx", folder="/", source=Location(shown="m.onnx"))
    names, answered = {"z": "y"}, frozenset({"y"})
    prepared = Prepared(
        spec=spec, onnx="", framework=get_plugin("onnx"), source=None, cases=[], names=names, answered=answered
    )
    assert prepared._by_onnx_name({"y": first}) == {"z": first}
    assert prepared._by_onnx_name({"y": first, "z": later}) == {"z": first, "z of the source": later}
