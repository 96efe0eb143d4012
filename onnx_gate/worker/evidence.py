"""Second opinions on a divergence: what triage may look at and ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_gate.compare.rules import rule_for
from onnx_gate.providers.session import open_session
from onnx_gate.records import Answer, Cause, OutputDiff, ProviderSpec
from onnx_gate.triage.causes import Evidence
from onnx_gate.triage.order import find_order
from onnx_gate.worker.prepare import Prepared
from onnx_gate.worker.run import run_case

_CPU = ProviderSpec(name="cpu")


def gather_evidence(prepared: Prepared, diffs: list[OutputDiff], read_log: Callable[[], str]) -> Evidence:
    """All that is known of a model that diverged, with the questions that may be asked."""
    ask = _SecondOpinion(prepared, read_log)
    return Evidence(
        diffs=tuple(diffs),
        shown=prepared.cause,
        sizes={case.name: case.sizes for case in prepared.cases},
        shipped=prepared.spec.onnx is not None,
        recorded=any(call.recorded is not None for case in prepared.cases[:1] for call in case.calls()),
        agrees_unoptimized=ask.agrees_unoptimized,
        repeats_itself=ask.repeats_itself,
        order=ask.order,
    )


class _SecondOpinion:
    def __init__(self, prepared: Prepared, read_log: Callable[[], str]) -> None:
        self._prepared = prepared
        self._read_log = read_log
        self._cases = {case.name: case for case in prepared.cases}

    def agrees_unoptimized(self, diff: OutputDiff) -> bool:
        """Whether the CPU without graph optimisations agrees with the source."""
        spec = self._prepared.spec
        session = open_session(self._prepared.onnx, _CPU, self._read_log, optimize=False)
        provider = next((given for given in spec.providers if given.name == diff.provider), _CPU)
        rules = {diff.output: rule_for(spec, provider, diff.output)}
        found = run_case(self._prepared, session, self._cases[diff.case], "cpu", rules)
        return all(isinstance(again, OutputDiff) and not again.breaches for again in found)

    def repeats_itself(self, diff: OutputDiff) -> bool:
        """Whether the source gives the same answer twice."""
        call = next(self._cases[diff.case].calls())
        first, second = (self._prepared.ask_again(call)[diff.output].value for _ in range(2))
        return bool(first.tobytes() == second.tobytes()) if first.dtype != object else True

    def order(self, diff: OutputDiff) -> Cause | None:
        """Whether the answers are right, in the wrong order."""
        call = next(self._cases[diff.case].calls())
        session = open_session(self._prepared.onnx, _CPU, self._read_log)
        actuals = {name: given.value for name, given in session.run(call.feed).items()}
        answers = self._prepared.ask_again(call)
        references = {name: _shaped(answers[name], actuals[name]) for name in answers if name in actuals}
        return find_order(references, actuals, diff.tolerance or self._prepared.spec.tolerance)


def _shaped(answer: Answer, actual: Any) -> Any:
    """A single target may be a row on one side and a column on the other."""
    return answer.value.reshape(actual.shape) if answer.column and answer.value.size == actual.size else answer.value
