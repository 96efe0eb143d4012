"""A whole job, in the worker: prepare, run every provider, find the cause of what diverged."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from onnx_gate.compare.outputs import OutputComparison
from onnx_gate.compare.rules import rule_for
from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.inputs.cases import Case
from onnx_gate.providers.session import Session, open_session
from onnx_gate.records import Cause, Expectation, Failure, OutputDiff, OutputRule, ProviderSpec
from onnx_gate.sources import describe
from onnx_gate.triage.causes import Evidence, find_cause
from onnx_gate.worker.prepare import Prepared, prepare, source_failed
from onnx_gate.worker.protocol import Done, Event, Job, Placed, ProviderDone, Stage

Send = Callable[[Event], None]

_REFUSED = (
    "Got invalid dimensions",
    "cannot be reshaped",
    "reshape",
    "broadcast",
    "Shape mismatch",
    "axis == 1",
)


def judge(job: Job, send: Send, read_log: Callable[[], str]) -> None:
    """Tell the parent everything there is to know about one model."""
    stage = "load"

    def tell(event: Event) -> None:
        nonlocal stage
        stage = event.name if isinstance(event, Stage) else stage
        send(event)

    try:
        prepared = prepare(job, tell)
    except BaseException as error:
        send(failure_of(error, stage))
    else:
        _judge_prepared(prepared, send, read_log)
    send(Done())


def _judge_prepared(prepared: Prepared, send: Send, read_log: Callable[[], str]) -> None:
    for breach in prepared.breaches:
        send(breach)
    diffs = list(prepared.breaches)
    for provider in prepared.spec.providers:
        send(Stage(name=f"run on {provider.name}", provider=provider.name))
        try:
            diffs += _run_provider(prepared, provider, send, read_log)
        except BaseException as error:
            send(failure_of(error, f"run on {provider.name}", provider=provider.name))
        send(ProviderDone(provider=provider.name))
    if any(diff.breaches for diff in diffs):
        send(Stage(name="triage"))
        send(find_cause(_evidence(prepared, diffs, read_log)))


def _run_provider(
    prepared: Prepared, provider: ProviderSpec, send: Send, read_log: Callable[[], str]
) -> list[OutputDiff]:
    session = open_session(prepared.onnx, provider, read_log)
    if session.placement:
        send(Placed(provider=provider.name, placement=session.placement))
    rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
    rules = {name: rule for name, rule in rules.items() if rule.mode != "ignore"}
    cases = tuple(case.name for case in prepared.cases)
    send(Expectation(provider=provider.name, cases=cases, outputs=tuple(rules)))
    diffs = []
    for case in prepared.cases:
        for found in run_case(prepared, session, case, provider.name, rules):
            send(found)
            diffs += [found] if isinstance(found, OutputDiff) else []
    return diffs


def run_case(
    prepared: Prepared, session: Session, case: Case, provider: str, rules: dict[str, OutputRule]
) -> list[OutputDiff | Failure]:
    """Both sides on the same feeds, compared output by output."""
    started = time.monotonic()
    comparisons = {
        name: OutputComparison(provider=provider, case=case.name, output=name, rule=rule)
        for name, rule in rules.items()
    }
    unexpected: set[str] = set()
    for number, call in enumerate(case.calls()):
        try:
            reference = prepared.reference(case, number, call)
        except BaseException as error:
            known = isinstance(error, CannotJudge | MemoryError)
            told = error if known else source_failed(prepared.spec, case, error)
            return [failure_of(told, f"reference {case.name}", provider=provider)]
        try:
            actual = session.run(call.feed)
        except Exception as error:
            return _run_failed(error, case, provider, rules)
        unexpected |= reference.keys() - prepared.names.keys()
        rows = case.sizes.get("batch")
        for name, comparison in comparisons.items():
            if name not in reference:
                comparison.refuse("the source gives no such output on this feed, as it did on others")
                continue
            comparison.add(reference[name], actual[name], lenient=prepared.lenient, first_row=call.first_row, rows=rows)
    seconds = (time.monotonic() - started) / max(1, len(comparisons))
    more = "the source gives this output on this feed, and the ONNX model hasn't got it"
    return [
        *(comparison.finish(seconds) for comparison in comparisons.values()),
        *(
            OutputDiff(provider=provider, case=case.name, output=name, breaches=(more,), contract=True)
            for name in sorted(unexpected)
        ),
    ]


def _run_failed(
    error: Exception, case: Case, provider: str, rules: dict[str, OutputRule]
) -> list[OutputDiff | Failure]:
    """The source answers this feed and ONNX Runtime doesn't: a breach if it refuses its form, else an error."""
    text = describe(error)
    if not any(sign in text for sign in _REFUSED):
        known = CannotJudge("invalid-model", f"ONNX Runtime fails on {case.name}, which the source answers: {text}")
        return [failure_of(known if "allocate memory" not in text else error, f"run {case.name}", provider=provider)]
    message = f"the source answers this feed, ONNX Runtime refuses it: {text}"
    return [
        OutputDiff(provider=provider, case=case.name, output=name, breaches=(message,), contract=True) for name in rules
    ]


def failure_of(error: BaseException, stage: str, provider: str | None = None) -> Failure:
    """Any exception as a failure with its cause; all of it goes to the log."""
    traceback.print_exception(error)
    common: dict[str, Any] = {"stage": stage, "provider": provider}
    text = describe(error)
    if isinstance(error, NotAvailable):
        absent = not error.device_present
        return Failure(**common, cause=Cause.PROVIDER_UNAVAILABLE, message=str(error), fix=error.fix, skippable=absent)
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "Failed to allocate memory" in text:
        return Failure(
            **common,
            cause=Cause.OUT_OF_MEMORY,
            message=f"memory ran out during {stage!r}: {text}",
            fix="raise `memory`, use smaller `batches`, or a machine with more",
        )
    if isinstance(error, CannotJudge):
        return Failure(**common, cause=Cause(error.cause), message=str(error), fix=error.fix)
    return Failure(**common, cause=Cause.UNKNOWN, message=f"during {stage!r}: {text}", fix="see the model's log")


def _evidence(prepared: Prepared, diffs: list[OutputDiff], read_log: Callable[[], str]) -> Evidence:
    """What triage may look at, with the two questions that it may ask."""
    cases = {case.name: case for case in prepared.cases}

    def agrees_unoptimized(diff: OutputDiff) -> bool:
        cpu = ProviderSpec(name="cpu")
        session = open_session(prepared.onnx, cpu, read_log, optimize=False)
        provider = next((p for p in prepared.spec.providers if p.name == diff.provider), cpu)
        rules = {diff.output: rule_for(prepared.spec, provider, diff.output)}
        found = run_case(prepared, session, cases[diff.case], "cpu", rules)
        return all(isinstance(again, OutputDiff) and not again.breaches for again in found)

    def repeats_itself(diff: OutputDiff) -> bool:
        call = next(cases[diff.case].calls())
        first, second = (prepared.ask_again(call)[diff.output].value for _ in range(2))
        return bool(first.tobytes() == second.tobytes()) if first.dtype != object else True

    sizes = {case.name: case.sizes for case in prepared.cases}
    return Evidence(
        diffs=tuple(diffs),
        shown=prepared.cause,
        sizes=sizes,
        shipped=prepared.spec.onnx is not None,
        recorded=any(call.recorded is not None for case in prepared.cases[:1] for call in case.calls()),
        agrees_unoptimized=agrees_unoptimized,
        repeats_itself=repeats_itself,
    )
