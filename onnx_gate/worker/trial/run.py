"""One case on one provider: both sides get the same feeds, and are compared output by output."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.records.asked import ModelSpec, OutputRule
from onnx_gate.records.found import Actual, Breach, Failure, OutputDiff
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.worker.compare.columns import Columns
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.compare.plots import Looks, Sample
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.log import log_failure
from onnx_gate.worker.runtime.options import missing_inputs, runtime_words
from onnx_gate.worker.trial.prepare import NAME_INPUTS, other_names, source_failed
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.samples import MOST_SHAPES, shape_of
from onnx_gate.worker.trial.unrounded import GivenComparison
from onnx_gate.worker.trial.veil import veiled
from onnx_gate.worker.user_code import describe

_REFUSED = ("Got invalid dimensions", "cannot be reshaped", "reshape", "broadcast", "Shape mismatch", "axis == 1")
_LOST = Breach(kind=BreachKind.NAMES, text="the source gives no such output on this feed, as it did on others")
_MORE = Breach(
    kind=BreachKind.NAMES, text="the source gives this output on this feed, and the ONNX model doesn't have it"
)


NOTHING_SEEN: Mapping[str, Columns] = MappingProxyType({})


class Answering(Protocol):
    """A session, or an object that can replace one."""

    @property
    def run(self) -> Callable[[dict[str, Any]], dict[str, Actual]]:
        """Feed → answers by output name."""
        ...


def run_case(
    prepared: Prepared,
    session: Answering,
    case: Case,
    provider: str,
    rules: dict[str, OutputRule],
    given: GivenComparison | None = None,
    seen: Mapping[str, Columns] = NOTHING_SEEN,
    looks: Looks | None = None,
) -> list[OutputDiff | Failure]:
    """Run both sides on the same feeds, and compare them output by output; `given` also gets each call.

    `seen` holds the columns of each output from earlier cases; `looks` gets the samples for plots.
    """
    started = time.monotonic()
    comparisons = {
        name: OutputComparison(
            provider=provider,
            case=case.name,
            output=name,
            rule=rule,
            columns=seen.get(name),
            sample=Sample() if looks else None,
            by_row=True,
        )
        for name, rule in rules.items()
    }
    unexpected: set[str] = set()
    samples, shapes = 0, dict[str, None]()
    for number, call in enumerate(case.calls()):
        try:
            reference = prepared.reference(case, number, call)
        except BaseException as error:
            known = isinstance(error, CannotJudge | MemoryError)
            told = error if known else source_failed(prepared.spec, case, call, error)
            return [failure_of(told, f"reference {case.name}", provider=provider)]
        try:
            actual = session.run(prepared.fed(call))
        except Exception as error:
            return _run_failed(error, prepared.spec, (case, call), provider, rules)
        if given:
            given.add(call, reference, actual, case.sizes.get("batch"))
        samples += prepared.samples[provider].add(call.feed, case.sizes.get("batch"))
        shapes[shape_of(call.feed)] = None
        unexpected |= reference.keys() - prepared.names.keys()
        rows = case.sizes.get("batch")
        for name, comparison in comparisons.items():
            if name not in reference:
                comparison.refuse(_LOST)
                continue
            comparison.add(reference[name], actual[name], lenient=prepared.lenient, first_row=call.first_row, rows=rows)
    seconds = (time.monotonic() - started) / max(1, len(comparisons))
    diffs = {
        name: replace(comparison.finish(seconds), samples=samples, fed=tuple(shapes)[:MOST_SHAPES])
        for name, comparison in comparisons.items()
    }
    if looks:
        for name, comparison in comparisons.items():
            comparison.show(diffs[name], looks)
    return [
        *diffs.values(),
        *(OutputDiff(provider=provider, case=case.name, output=name, breaches=(_MORE,)) for name in sorted(unexpected)),
    ]


def run_doubtful(
    prepared: Prepared,
    session: Answering,
    provider: str,
    rules: dict[str, OutputRule],
    begin: Callable[[Case], bool] = lambda case: True,
) -> tuple[list[OutputDiff], list[str]]:
    """Run cases that the manifest doesn't ask for, before they are announced: passed comparisons, else warnings."""
    right: list[OutputDiff] = []
    warnings = []
    for case in prepared.cases:
        if case.held or not begin(case):
            continue
        found = run_case(prepared, session, case, provider, rules)
        diffs = [diff for diff in found if isinstance(diff, OutputDiff) and not diff.breaches]
        if len(diffs) == len(found):
            right += diffs
        else:
            warnings.append(_tell_doubtful(case, provider, found))
    return right, warnings


def _tell_doubtful(case: Case, provider: str, found: list[OutputDiff | Failure]) -> str:
    wrong = next(one for one in found if isinstance(one, Failure) or one.breaches)
    why = wrong.message if isinstance(wrong, Failure) else f"{wrong.output}: {wrong.breaches[0].text}"
    return (
        f"{case.name}: on {provider} the model differs from the source on the same data at another size ({why}). Only "
        "the .onnx says that this dimension varies: name it in `inputs` to have it judged, or fix its size there"
    )


def _run_failed(
    error: Exception, spec: ModelSpec, fed: tuple[Case, Call], provider: str, rules: dict[str, OutputRule]
) -> list[OutputDiff | Failure]:
    """ONNX Runtime fails on a feed that the source answers: a breach if it refuses the feed's form, else an error."""
    if isinstance(error, NotAvailable):
        raise error
    case, call = fed
    text = veiled(runtime_words(error), spec, call, generated=case.generated)
    if isinstance(error, CannotJudge) or "allocate memory" in text:
        return [failure_of(error, f"run {case.name}", provider=provider)]
    if names := missing_inputs(text):
        known = CannotJudge(Cause.CONTRACT, f"no input can be fed: {other_names(names)}", fix=NAME_INPUTS)
        return [failure_of(known, f"run {case.name}", provider=provider)]
    # If the data was cut to another size, the runtime refuses that size, whatever its message says.
    if not case.cut and not refuses_form(text):
        known = CannotJudge(
            Cause.INVALID_MODEL,
            f"ONNX Runtime fails on {case.name}, which the source answers: {text}",
            fix="the runtime can't run this operator on such values: replace it in the model, or feed other data",
        )
        return [failure_of(known, f"run {case.name}", provider=provider)]
    refused = Breach(kind=BreachKind.REFUSED, text=f"the source answers this feed, ONNX Runtime refuses it: {text}")
    return [OutputDiff(provider=provider, case=case.name, output=name, breaches=(refused,)) for name in rules]


def refuses_form(text: str) -> bool:
    """Whether the runtime's message says that it refuses the form of a feed: a divergence, not an error."""
    return any(sign in text for sign in _REFUSED)


def failure_of(error: BaseException, stage: str, provider: str | None = None) -> Failure:
    """The failure for an exception, with its cause; the full exception goes to the log."""
    log_failure(error)
    common: dict[str, Any] = {"stage": stage, "provider": provider}
    text = describe(error)
    if isinstance(error, NotAvailable):
        return Failure(
            **common,
            cause=Cause.PROVIDER_UNAVAILABLE,
            message=str(error),
            fix=error.fix,
            skippable=not error.device_present,
            absence=error.kind,
        )
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "Failed to allocate memory" in text:
        return Failure(
            **common,
            cause=Cause.OUT_OF_MEMORY,
            message=f"memory ran out during {stage!r}: {text}",
            fix="raise `memory`, use smaller `batches`, or a machine with more",
        )
    if isinstance(error, CannotJudge):
        return Failure(**common, cause=error.cause, message=str(error), fix=error.fix)
    return Failure(**common, cause=Cause.UNKNOWN, message=f"during {stage!r}: {text}", fix="see the model's log")
