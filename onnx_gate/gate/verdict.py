"""Turns findings into verdicts. PASSED is constructed here and nowhere else.

Silence is a failure: what was expected and not compared is an error, whatever the other checks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from onnx_gate.errors import CANCELLED, EXIT_DIVERGED, EXIT_NOT_JUDGED, EXIT_PASSED
from onnx_gate.gate.coverage import state_again, state_coverage
from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.strength.limit import is_believed, judge_strength, warn_of_strength
from onnx_gate.records.asked import ModelSpec, ProviderSpec
from onnx_gate.records.diagnosis.failing import Failing
from onnx_gate.records.diagnosis.plots import Plot
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import ConvertInfo, Expectation, Failure, Fed, OutputDiff, Triage
from onnx_gate.records.limits import counts_rows
from onnx_gate.records.ran import Latency, Noise, Numerics, Placement
from onnx_gate.records.result import Cached, Check, GateResult, ModelResult
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import GIVEN_CASE, Absence, Cause, Status
from onnx_gate.wording.text import shorten
from onnx_gate.wording.verdicts import WORST_FIRST, with_fix

LONGEST_MESSAGE = 10_000
"""The most characters of one check's message; each breach is also kept by itself."""
_FEW = 10
MOST_NOTES = 100
"""The most notes that are kept of one model; the same number applies to warnings and to failures."""


@dataclass
class Findings:
    """All findings about one model, in the order in which they arrived."""

    spec: ModelSpec
    diffs: dict[tuple[str, str, str], OutputDiff] = field(default_factory=dict)
    """By provider, case and output: a second process may report the same comparison again."""
    failures: list[Failure] = field(default_factory=list)
    expectations: dict[str, Expectation] = field(default_factory=dict)
    placement: dict[str, Placement] = field(default_factory=dict)
    numerics: dict[str, Numerics] = field(default_factory=dict)
    latency: dict[tuple[str, str], Latency] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    convert: ConvertInfo | None = None
    fed: Fed | None = None
    weights: tuple[str, ...] = ()
    """Names of the files beside the ONNX file that hold its weights."""
    triage: Triage | None = None
    failing: Failing | None = None
    repro: Repro | None = None
    noise: dict[tuple[str, str], Noise] = field(default_factory=dict)
    """By provider and output."""
    plots: dict[tuple[str, str], Plot] = field(default_factory=dict)
    """By provider and output."""
    strength: Strength | None = None
    """As the worker reports it; believed only if the model passed."""
    no_strength: str = ""
    """Why the process computed no strength, if that is known."""
    seconds: float = 0.0
    cached: Cached | None = None
    """The earlier run that these findings come from."""
    ended: bool = False
    log: str = ""
    reference: str = ""
    weak_reference: bool = False
    result: ModelResult | None = None
    """The verdict, once all events have arrived."""
    spoiled: bool = False
    """No more events are accepted: booking one failed, so it is unknown what is missing."""

    def add_note(self, text: str, *, warns: bool = False) -> None:
        """Add a note or a warning, each once and at most `MOST_NOTES` of each."""
        kept = self.warnings if warns else self.notes
        kept[text if len(kept) < MOST_NOTES else f"there are more than {MOST_NOTES}; the rest is left out"] = None

    def add_failure(self, failure: Failure) -> None:
        """Add a failure. Only the first ones are kept: later failures follow from them."""
        if len(self.failures) < MOST_NOTES:
            self.failures.append(failure)

    def close(self, result: ModelResult) -> None:
        """Set the result once no more events will come; it contains all that is needed of the diffs."""
        self.result = result
        self.diffs.clear()

    def spoil(self, error: Exception) -> None:
        """Discard all that the model's process reported, because one of its events could not be booked."""
        self.spoiled = True
        for kept in (
            self.diffs,
            self.expectations,
            self.placement,
            self.numerics,
            self.latency,
            self.noise,
            self.plots,
        ):
            kept.clear()
        for told in (self.notes, self.warnings):
            told.clear()
        self.convert, self.fed, self.triage, self.strength, self.weights = None, None, None, None, ()
        self.failing = self.repro = None
        message = f"what its process reported can't be booked ({type(error).__name__}: {str(error)[:200]})"
        fix = "if the model's code doesn't write to its worker's channel, this is a bug of onnx-gate: please report it"
        self.failures = [Failure(stage="report", cause=Cause.CRASHED, message=message, fix=fix)]


def judge_model(found: Findings) -> ModelResult:
    """The verdict on one model."""
    others, spec = tuple(_checks(found)), found.spec
    strength = found.strength if _has_strength(found, others) else None
    limit = judge_strength(strength, spec.min_strength, others, weak=found.weak_reference, why=_why_no_strength(found))
    checks = (*limit, *others)
    verdict, first_error = judge_checks(checks)
    also = (*found.warnings, *warn_of_strength(strength, spec.min_strength))
    ignored = {name: expected.ignored for name, expected in found.expectations.items() if expected.ignored}
    return ModelResult(
        id=found.spec.id,
        line=found.spec.line,
        framework=found.spec.framework,
        variant_of=found.spec.base if found.spec.variant else None,
        verdict=verdict,
        cause=_cause(verdict, found, first_error),
        advice=found.triage.advice if found.triage and verdict is Status.DIVERGED else "",
        place=found.triage.place if found.triage and verdict is Status.DIVERGED else None,
        mended=found.triage.mended if found.triage and verdict is Status.DIVERGED else None,
        failing=found.failing if verdict is Status.DIVERGED else None,
        repro=found.repro if verdict in (Status.DIVERGED, Status.ERROR) else None,
        error=with_fix(first_error) if first_error else "",
        allow_failure=found.spec.allow_failure,
        cached=found.cached,
        seconds=found.seconds,
        convert=found.convert,
        checks=checks,
        coverage=state_coverage(others, also=also, ignored=ignored),
        outputs=_outputs(found),
        ignored=ignored,
        placement=found.placement,
        sessions={provider.name: provider.session for provider in found.spec.providers},
        numerics=found.numerics,
        latency=tuple(found.latency.values()),
        strength=strength,
        domains=found.fed,
        noise=tuple(found.noise.values()) or None,
        plots=tuple(found.plots.values()) or None,
        headroom=headroom_of(checks),
        notes=tuple(found.notes),
        log=found.log,
        reference=found.reference,
        weak_reference=found.weak_reference,
    )


def _has_strength(found: Findings, checks: Sequence[Check]) -> bool:
    """Whether the model asks for a strength, and a computed one is believed."""
    variant = found.spec.variant is not None
    return found.spec.strength is not None and is_believed(checks, variant=variant, weak=found.weak_reference)


def _why_no_strength(found: Findings) -> str:
    return found.no_strength or ("the reference that it was compared with holds none" if found.reference else "")


def _outputs(found: Findings) -> tuple[str, ...]:
    expected = found.expectations.values()
    return tuple(dict.fromkeys(name for each in expected for name in (*each.outputs, *each.ignored)))


def judge_checks(checks: Sequence[Check]) -> tuple[Status, Check | None]:
    """The verdict that a model's checks make, and the first error among them."""
    verdict = worst(check.status for check in checks)
    return verdict, next((check for check in checks if check.status is Status.ERROR), None)


def worst(statuses: Iterable[Status]) -> Status:
    """The first of diverged, error, passed, skipped that occurs; no status at all is an error."""
    seen = set(statuses)
    return next((status for status in WORST_FIRST if status in seen), Status.ERROR)


def judge_run(
    models: Sequence[ModelResult], *, empty_shard: bool = False, problems: bool = False
) -> tuple[Status, int]:
    """The verdict on the whole run, and its exit code; a run with problems, such as missing parts, does not pass."""
    if empty_shard:
        return Status.SKIPPED, EXIT_PASSED
    verdict = worst([*(_counted(model) for model in models), *[Status.ERROR] * problems])
    codes = {Status.PASSED: EXIT_PASSED, Status.DIVERGED: EXIT_DIVERGED}
    return verdict, codes.get(verdict, EXIT_NOT_JUDGED)


def judge_again(result: GateResult) -> GateResult:
    """The same result with verdicts, exit code and coverage recomputed from its checks, whatever the result states."""
    asked = {model.id: model.min_strength for model in result.scope.models} if result.scope else {}
    models = tuple(_judged_again(model, asked.get(model.id)) for model in result.models)
    problems = bool(result.problems) or not result.complete
    verdict, code = judge_run(models, empty_shard=is_empty_shard(result) and not problems, problems=problems)
    if not result.complete and result.exit_code in CANCELLED:
        code = result.exit_code
    return replace(result, verdict=verdict, exit_code=code, models=models)


def is_empty_shard(result: GateResult) -> bool:
    """Whether this is one of several shards and the plan gives it no model; other runs without models are errors."""
    if result.models or result.scope is None or result.scope.shards < 2:
        return False
    held = {f"{model.shard}/{result.scope.shards}" for model in result.scope.models if model.shard}
    return bool(held) and result.shard is not None and result.shard not in held


def _judged_again(model: ModelResult, min_strength: float | None) -> ModelResult:
    verdict, first_error = judge_checks(model.checks)
    failed = verdict in (Status.DIVERGED, Status.ERROR)
    return replace(
        model,
        verdict=verdict,
        cause=model.cause if failed else None,
        advice=model.advice if verdict is Status.DIVERGED else "",
        error=with_fix(first_error) if first_error else "",
        coverage=state_again(model, also=warn_of_strength(model.strength, min_strength)),
    )


def _counted(model: ModelResult) -> Status:
    """The status that counts for the run: an allowed divergence was compared, and doesn't fail the job."""
    if model.verdict is Status.DIVERGED and model.allow_failure:
        errors = any(check.status is Status.ERROR for check in model.checks)
        return Status.ERROR if errors else Status.PASSED
    return model.verdict


def _cause(verdict: Status, found: Findings, first_error: Check | None) -> Cause | None:
    if verdict is Status.DIVERGED:
        contract = all(diff.contract for diff in found.diffs.values() if diff.breaches)
        if found.triage:
            return found.triage.cause
        return Cause.CONTRACT if contract else Cause.UNKNOWN if found.ended else Cause.INTERRUPTED
    return first_error.cause if verdict is Status.ERROR and first_error else None


def _checks(found: Findings) -> Iterable[Check]:
    asked = {provider.name for provider in found.spec.providers}
    for failure in found.failures:
        if failure.provider not in asked:
            yield _failed(failure)
    for diff in found.diffs.values():
        # For example a breach in the file itself. A comparison that nobody asked for can't pass.
        if diff.provider not in asked and diff.breaches:
            yield compared(diff)
    for provider in found.spec.providers:
        yield from _provider_checks(found, provider)


def _provider_checks(found: Findings, provider: ProviderSpec) -> Iterable[Check]:
    failures = [failure for failure in found.failures if failure.provider == provider.name]
    diffs = [diff for diff in found.diffs.values() if diff.provider == provider.name]
    expected = found.expectations.get(provider.name)
    for diff in diffs:
        yield compared(diff)
    for failure in failures:
        # A provider that had begun to answer has its device.
        absent = failure.skippable and not provider.required and expected is None and not diffs
        yield _skipped(failure) if absent else _failed(failure)
    if failures or any(failure.provider is None for failure in found.failures):
        return
    if not found.ended:
        message = _interrupted(expected, diffs)
        fix = (
            "run it again; with `--resume`, only what is left is run (in the same output folder, and without a "
            "reference). If a time limit of the job ended it, raise that limit, or split the manifest (`--shard`)."
        )
        yield _not_compared(provider.name, "run", message, Cause.INTERRUPTED, fix)
    elif expected is None:
        yield _not_compared(provider.name, "run", "the process ended before this provider was compared")
    else:
        # A check of the speed says nothing about the answers.
        answers = [diff for diff in diffs if "min_speedup" not in diff.limits]
        if provider.min_speedup is not None and len(answers) == len(diffs):
            yield _not_compared(provider.name, "latency", "min_speedup is set, and no speed-up was measured")
        yield from _missing(found, expected, answers)


def _interrupted(expected: Expectation | None, diffs: Sequence[OutputDiff]) -> str:
    if not diffs or expected is None:
        return "the run was interrupted before this provider was compared, so nothing is known of the model on it."
    wrong = sum(bool(diff.breaches) for diff in diffs)
    told = f"{wrong:,} of them diverged" if wrong else "none of them diverged"
    planned = len(expected.cases) * len(expected.outputs) + len(expected.given)
    return (
        f"the run was interrupted on this provider after {len(diffs):,} of {max(planned, len(diffs)):,} comparisons; "
        f"{told}."
    )


def _missing(found: Findings, expected: Expectation, diffs: list[OutputDiff]) -> Iterable[Check]:
    """Errors for expected comparisons that did not arrive; a comparison without elements does not count as one."""
    done = {(diff.case, diff.output) for diff in diffs if diff.case != GIVEN_CASE or counts_rows(diff.limits)}
    announced = [*product(expected.cases, expected.outputs), *product((GIVEN_CASE,), expected.given)]
    missing = [pair for pair in announced if pair not in done]
    for case, output in missing[:_FEW]:
        yield _not_compared(expected.provider, f"{case} {output}", "this was expected and not compared")
    if more := len(missing) - _FEW if len(missing) > _FEW else 0:
        yield _not_compared(expected.provider, "run", f"{more:,} more comparisons were expected and not made")
    breached = any(diff.breaches for diff in found.diffs.values() if diff.provider in ("graph", expected.provider))
    judged = [diff for diff in diffs if not counts_rows(diff.limits)]
    if not judged and not breached:
        why = "no case was run" if expected.outputs else "every output is ignored"
        yield _not_compared(expected.provider, "run", f"nothing was compared: {why}")
    by_output: dict[str, list[OutputDiff]] = {}
    for diff in judged:
        by_output.setdefault(diff.output, []).append(diff)
    for output in expected.outputs:
        own = by_output.get(output, [])
        if not own or any(diff.breaches for diff in own):
            continue
        if told := _proves_nothing(own, recorded=expected.recorded):
            why, cause = told
            fix = f"feed data for which it isn't, or leave it out with `outputs: {{{output}: ignore}}`"
            message = f"{output} proves nothing: {why}."
            yield _not_compared(expected.provider, f"run {output}", message, cause, fix)


def _proves_nothing(diffs: list[OutputDiff], *, recorded: bool) -> tuple[str, Cause] | None:
    """Why an output without differences was not really compared; None if it was."""
    total, matched = sum(diff.total for diff in diffs), sum(diff.nan_matched for diff in diffs)
    if not total:
        return None if recorded else ("it is empty in every case", Cause.CONTRACT)
    return ("it is NaN everywhere, on both sides", Cause.NAN) if matched == total else None


def compared(diff: OutputDiff) -> Check:
    """A comparison with its verdict."""
    numbers: dict[str, Any] = {field.name: getattr(diff, field.name) for field in fields(OutputDiff)}
    if diff.breaches:
        message = shorten("; ".join(breach.text for breach in diff.breaches), LONGEST_MESSAGE)
        return Check(**numbers, status=Status.DIVERGED, message=message)
    return Check(**numbers, status=Status.PASSED)


def _failed(failure: Failure) -> Check:
    message, fix = f"{_reason(failure).rstrip('.')}.", _sentence(failure.fix)
    return replace(_stopped(failure, Status.ERROR), message=message, fix=fix)


def _skipped(failure: Failure) -> Check:
    return replace(_stopped(failure, Status.SKIPPED), message=_reason(failure))


def _stopped(failure: Failure, status: Status) -> Check:
    """A check for what could not be judged, named after its stage."""
    return Check(
        provider=failure.provider or "",
        case=failure.stage,
        output="",
        status=status,
        cause=failure.cause,
        absence=failure.absence,
    )


def _sentence(fix: str) -> str:
    return fix if not fix or fix.endswith("?") else f"{fix.rstrip('.')}."


def _reason(failure: Failure) -> str:
    """The message of a failure. A missing device comes first: other missing parts matter only to those who have one."""
    absent = failure.skippable and failure.absence is not Absence.NOT_BUILT_IN
    return f"this machine has no such device: {failure.message}" if absent else failure.message


def _not_compared(provider: str, stage: str, message: str, cause: Cause = Cause.UNKNOWN, fix: str = "") -> Check:
    return Check(provider=provider, case=stage, output="", status=Status.ERROR, cause=cause, message=message, fix=fix)
