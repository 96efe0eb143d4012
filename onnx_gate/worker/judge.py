"""A whole job, in the worker: prepare, run every provider, find the cause of what diverged."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from onnx_gate.errors import CannotJudge
from onnx_gate.protocol import ANSWERS, MADE, Computed, Done, Event, Job, Made, Note, Placed, ProviderDone, Stage
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.bounds import LONGEST_NAME, MOST_COMPARISONS
from onnx_gate.records.found import Expectation, Failure, OutputDiff, Triage
from onnx_gate.records.limits import FEWEST_ROWS
from onnx_gate.records.ran import Numerics
from onnx_gate.repository.root import find_repository
from onnx_gate.vocabulary import GIVEN_CASE, TRIAGE, Cause, run_on
from onnx_gate.wording.hints import listed
from onnx_gate.worker.compare.columns import Columns
from onnx_gate.worker.compare.plots import MOST_BYTES, Looks
from onnx_gate.worker.compare.rules import is_asked_for, rule_for
from onnx_gate.worker.failing.stage import tell_failing
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.noise.stage import calibrate, tell_noise
from onnx_gate.worker.observed.opened import MOST_FILES, Opened
from onnx_gate.worker.observed.recorder import Recorder
from onnx_gate.worker.observed.weights import watch_factory
from onnx_gate.worker.onnx_files.files import weights_of
from onnx_gate.worker.references import load_reference, save_answers, save_reference
from onnx_gate.worker.repro.crash import leave_crash
from onnx_gate.worker.repro.stage import Failures, leave_repro, leave_unloaded
from onnx_gate.worker.runtime.placement import breaches
from onnx_gate.worker.runtime.precision import fast_options
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.share import Share
from onnx_gate.worker.strength.stage import judge_strength
from onnx_gate.worker.triage.causes import find_cause, first_guess
from onnx_gate.worker.triage.evidence import gather_evidence
from onnx_gate.worker.triage.given import explain_given, guess_given
from onnx_gate.worker.triage.precision import refute
from onnx_gate.worker.triage.variants import find_variant_cause, gather_variant_evidence, without_variant
from onnx_gate.worker.trial.doubts.near import excuse_near
from onnx_gate.worker.trial.doubts.overflow import overflow_warning
from onnx_gate.worker.trial.latency import measure_latency
from onnx_gate.worker.trial.prepare import prepare
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.repeats.randomness import draws
from onnx_gate.worker.trial.repeats.repeatability import Twice, case_to_repeat
from onnx_gate.worker.trial.run import failure_of, run_case, run_doubtful
from onnx_gate.worker.trial.unrounded import GivenComparison, GivenFinding
from onnx_gate.worker.variants.in_place import half_session

Send = Callable[[Event], None]
OF_THE_FILE = (Cause.INVALID_MODEL, Cause.UNSUPPORTED_OPERATOR)
"""Causes of a file that ONNX Runtime can't load."""
NOT_ASKED = (
    "the source is not on this machine, so triage could not check whether the source is deterministic, or whether "
    "rounding alone explains the divergence"
)
NOT_TAKEN = "{} did not take the option {!r}: its session doesn't report it, so the model was judged without it"
NOT_HELD = (
    "`min_column_snr_db` of `{}` was not held against anything: it needs at least {} rows, over all cases, and a "
    "column that varies"
)
TOO_SLOW = (
    "The answers agree with the source's; what is missed is the limit on speed, `min_speedup`. Times are ratios of one "
    "machine at one thread. The table of latencies shows at which batch sizes it is too slow. Look also at the nodes "
    "that run elsewhere than on the provider."
)
READS_MANY = (
    f"its code has read {MOST_FILES:,} files of the repository, and maybe more. A change of those beyond that does not "
    "make the reference stale, so make it again when they change"
)
READS_OUTSIDE = (
    "its code has read {}, which leads out of the repository: a change there does not make the reference stale, so "
    "make it again when it changes"
)
_MOST_NAMED = 5


def judge(job: Job, send: Send, read_log: Callable[[], str]) -> None:
    """Tell the parent everything there is to know about one model."""
    stage, started = "load", time.monotonic()
    said: list[Event] = []
    recorder = _record(job) if job.records else None
    send = recorder.sending(send) if recorder else send
    watch = watch_factory(job)

    def tell(event: Event) -> None:
        nonlocal stage
        stage = event.name if isinstance(event, Stage) else stage
        if watch and stage != "load":
            watch.close()
        said.append(event)
        send(event)

    try:
        opened = Opened(find_repository(Path(job.spec.folder)), apart=Path(job.scratch)) if job.save else None
        prepared = load_reference(job, Path(job.reference), tell) if job.reference else prepare(job, tell)
        send(Made(weights=weights_of(prepared.onnx)))
        if watch and (told := watch.warning(job, prepared.framework, prepared.source)):
            tell(Note(text=told, warns=True))
        if opened:
            tell(Stage(name="save reference"))
            if opened.full:
                tell(Note(text=READS_MANY, warns=True))
            if outside := opened.outside():
                tell(Note(text=READS_OUTSIDE.format(listed(outside, _MOST_NAMED)), warns=True))
            save_reference(prepared, said, Path(job.scratch) / MADE, opened.files())
    except BaseException as error:
        send(failure_of(error, stage))
        if isinstance(error, CannotJudge) and error.cause in OF_THE_FILE:
            leave_unloaded(job.spec, send, scratch=Path(job.scratch))
    else:
        prepared.crashed = frozenset(job.crashed)
        if job.shows:
            leave_crash(prepared, job.shows, send, scratch=Path(job.scratch), hung=job.hung)
        else:
            _judge_prepared(prepared, send, read_log, Path(job.scratch), started, calibrates=job.calibrates)
        if opened and prepared.strength:
            _save_again(prepared, said, Path(job.scratch) / MADE, opened.files(), send)
        if recorder and not (job.shows or job.crashed):
            _leave_answers(prepared, said, Path(job.scratch) / ANSWERS)
    if recorder:
        _tell_touched(recorder, send)
    send(Done())


def _record(job: Job) -> Recorder:
    folder = Path(job.spec.folder)
    return Recorder(apart=Path(job.scratch).parents[1], within=(folder,), repository=find_repository(folder))


def _tell_touched(recorder: Recorder, send: Send) -> None:
    """What can't be reported is not remembered; the model is judged all the same."""
    try:
        for event in recorder.events():
            send(event)
    except Exception as error:
        log_aside(error)


def _leave_answers(prepared: Prepared, said: list[Event], folder: Path) -> None:
    """For the cache. Without these files, the model runs again when its limits change."""
    try:
        save_answers(prepared, said, folder)
    except Exception as error:
        log_aside(error)
        shutil.rmtree(folder, ignore_errors=True)


def _save_again(prepared: Prepared, said: list[Event], folder: Path, read: list[str], send: Send) -> None:
    """With the strength of the inputs, and the cases that were aimed at what they would have missed."""
    send(Stage(name="save reference"))
    try:
        save_reference(prepared, said, folder, read, prepared.strength)
    except BaseException as error:
        send(failure_of(error, "save reference"))


def _judge_prepared(
    prepared: Prepared, send: Send, read_log: Callable[[], str], scratch: Path, started: float, *, calibrates: bool
) -> None:
    failures = Failures()
    diffs = _compare(prepared, failures, send, read_log, scratch, started, calibrates=calibrates)
    if not calibrates:
        leave_repro(prepared, diffs, failures, send, scratch=scratch)


def _compare(
    prepared: Prepared,
    failures: Failures,
    send: Send,
    read_log: Callable[[], str],
    scratch: Path,
    started: float,
    *,
    calibrates: bool,
) -> list[OutputDiff]:
    """Every provider, and why it diverges; gives all comparisons."""
    for breach in prepared.breaches:
        send(breach)
    diffs = list(prepared.breaches)
    rounded: list[GivenFinding] = []
    answered = []
    for provider in prepared.spec.providers:
        send(Stage(name=run_on(provider.name), provider=provider.name))
        try:
            found, findings = _run_provider(prepared, provider, failures, send, read_log, scratch)
            diffs += found
            rounded += findings
            answered.append(provider)
        except BaseException as error:
            if _is_not_loaded(prepared, provider, error):
                failures.loading.append(provider.name)
            send(failure_of(error, run_on(provider.name), provider=provider.name))
        send(ProviderDone(provider=provider.name))
    # What has ended a process would end this one too.
    ended = {name for _, name in prepared.crashed}
    prepared.cases = [case for case in prepared.cases if case.name not in ended] or prepared.cases
    if calibrates:
        calibrate(prepared, answered, send, read_log, started=started)
        return diffs
    too_slow = _judge_speed(prepared, answered, send, read_log)
    # A reference is also made for providers that only another machine has.
    compared = bool(answered) or not prepared.spec.providers
    wrong = rounded or too_slow or prepared.crashed or any(diff.breaches for diff in diffs)
    if compared and not wrong:
        diffs += judge_strength(prepared, answered, send, read_log, scratch=scratch, started=started)
    if rounded and not any(diff.breaches for diff in diffs):
        send(Stage(name=TRIAGE))
        send(guess_given(rounded))
        send(explain_given(prepared, rounded, read_log))
    elif too_slow and not any(diff.breaches for diff in diffs):
        send(Triage(cause=Cause.PROVIDER, advice=TOO_SLOW))
    if any(diff.breaches for diff in diffs):
        send(Stage(name=TRIAGE))
        share = Share(prepared.spec.timeout, started=started)
        if prepared.source is None:
            send(Note(text=NOT_ASKED))
        evidence = gather_evidence(prepared, diffs, read_log, share.ends)
        # Stands if asking crashes the process or outlasts its time.
        send(first_guess(evidence))
        lowered = gather_variant_evidence(prepared, diffs, evidence, read_log)
        if lowered and (cause := find_variant_cause(lowered)):
            send(cause)
            return diffs
        # Where a variant is not to blame, the model that it was made of is.
        if lowered:
            evidence = gather_evidence(without_variant(prepared), diffs, read_log, share.ends)
        send(cause := find_cause(evidence))
        tell_failing(prepared, diffs, send, read_log, share.rest())
        noises = tell_noise(prepared, diffs, send, read_log, share.rest())
        if other := refute(cause, noises, shipped=evidence.shipped, recorded=evidence.recorded):
            send(other)
    return diffs


def _is_not_loaded(prepared: Prepared, provider: ProviderSpec, error: BaseException) -> bool:
    """Whether it is the file that the runtime did not take."""
    return isinstance(error, CannotJudge) and error.cause in OF_THE_FILE and provider.name not in prepared.announced


def _judge_speed(prepared: Prepared, providers: list[ProviderSpec], send: Send, read_log: Callable[[], str]) -> bool:
    """Whether a limit on speed is missed."""
    try:
        return any(diff.breaches for diff in measure_latency(prepared, providers, send, read_log))
    except BaseException as error:
        send(failure_of(error, "latency"))
        return False


def _tell_numerics(prepared: Prepared, session: Session, twice: Twice, send: Send) -> list[OutputDiff]:
    """How a provider computed; what it answers otherwise from run to run than its limits allow is a divergence."""
    numerics = Numerics(
        options=session.options,
        fast=fast_options(twice.provider, session.options),
        run_twice=twice.case,
        run_to_run=tuple(twice.found),
    )
    prepared.numerics[twice.provider] = numerics
    send(Computed(provider=twice.provider, numerics=numerics))
    for diff in twice.diffs:
        send(diff)
    for option in session.not_taken:
        send(Note(text=NOT_TAKEN.format(twice.provider, option), warns=True))
    if note := twice.note():
        send(Note(text=note, warns=not twice.diffs))
    return twice.diffs


def _tell_given(given: GivenComparison, diffs: list[OutputDiff], send: Send) -> list[GivenFinding]:
    """What came of the data as given, beside these comparisons."""
    try:
        found = given.finish()
    except CannotJudge as error:
        send(failure_of(error, GIVEN_CASE, provider=given.provider))
        return []
    for diff in found:
        send(diff)
    findings = given.findings(found)
    note, warns = given.note(judged_differs=any(diff.breaches for diff in diffs))
    if note and not findings:
        send(Note(text=note, warns=warns))
    return findings


def _run_provider(
    prepared: Prepared,
    provider: ProviderSpec,
    failures: Failures,
    send: Send,
    read_log: Callable[[], str],
    scratch: Path,
) -> tuple[list[OutputDiff], list[GivenFinding]]:
    custom_ops = prepared.spec.ort_custom_ops
    session = open_session(prepared.onnx, provider, read_log, custom_ops=custom_ops, profiles=scratch / "profiles")
    rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
    rules = {name: rule for name, rule in rules.items() if rule.mode != "ignore"}
    half, told = half_session(prepared.spec, prepared.onnx, provider, read_log, scratch)
    answers = half or session

    def begin(case: Case) -> bool:
        """Say which case comes, for the message if it ends this process; one that has ended another is left out."""
        if (provider.name, case.name) in prepared.crashed:
            return False
        sizes = ", ".join(f"{dim}={size}" for dim, size in case.sizes.items())
        send(Stage(name=run_on(provider.name), provider=provider.name, case=case.name, sizes=sizes))
        return True

    doubtful, warnings = run_doubtful(prepared, answers, provider.name, rules, begin)
    given = GivenComparison(
        wide=prepared.wide, names=prepared.names, rules=rules, provider=provider.name, spec=prepared.spec.given
    )
    right = {diff.case for diff in doubtful}
    cases = tuple(case.name for case in prepared.cases if case.held or case.name in right)
    prepared.announced[provider.name] = _announced(_expectation(prepared, provider, cases, tuple(rules), given))
    send(prepared.announced[provider.name])
    for warning in warnings:
        send(Note(text=warning, warns=True))
    if told:
        send(Note(text=told, warns=half is None))
    seen = {name: Columns() for name in rules}
    looks = Looks(MOST_BYTES // max(1, len(prepared.spec.providers)), prepared.hides)
    whole = [case for case in prepared.cases if (provider.name, case.name) not in prepared.crashed]
    twice = Twice(answers, provider.name, case_to_repeat(whole or prepared.cases, provider.name), rules)
    for diff in doubtful:
        send(diff)
    diffs = list(doubtful)
    for case in (case for case in prepared.cases if case.held and begin(case)):
        answering = twice if case.name == twice.case else answers
        compared = run_case(prepared, answering, case, provider.name, rules, given, seen, looks)
        compared, warning = excuse_near(prepared, answers, case, provider.name, compared, rules)
        looks.settle(compared)
        if warning:
            send(Note(text=warning, warns=True))
        for found in compared:
            send(found)
            diffs += [found] if isinstance(found, OutputDiff) else []
            if isinstance(found, Failure) and found.cause is Cause.INVALID_MODEL:
                failures.cases.append((provider.name, case.name))
    send(Stage(name=run_on(provider.name), provider=provider.name))
    for plot in looks.plots():
        send(plot)
    _tell_placement(session, provider, send)
    _tell_limits_not_held(prepared, provider, seen, send)
    diffs += _tell_numerics(prepared, session, twice, send)
    if prepared.watched and prepared.drawn:
        _remark(prepared, draws(prepared.drawn), send)
        prepared.watched = False
    differs = any(diff.breaches for diff in diffs)
    if not differs and (warning := overflow_warning(prepared, answers, provider.name, rules)):
        _remark(prepared, warning, send)
    return diffs, _tell_given(given, diffs, send)


def _remark(prepared: Prepared, warning: str, send: Send) -> None:
    """A warning that rests on the source's answers alone, whatever the limits are."""
    prepared.remarks.append(Note(text=warning, warns=True))
    send(prepared.remarks[-1])


def _tell_limits_not_held(prepared: Prepared, provider: ProviderSpec, seen: Mapping[str, Columns], send: Send) -> None:
    """Limits of columns that had nothing to be held against: an error where the manifest names the output."""
    for name, columns in seen.items():
        if not columns.not_held:
            continue
        text = NOT_HELD.format(name, FEWEST_ROWS)
        if is_asked_for(prepared.spec, provider, name, "min_column_snr_db"):
            fix = "feed more rows that differ (`batches`, `data`), or remove the limit"
            cause = Cause.LOAD_FAILED
            send(Failure(stage="limits", cause=cause, provider=provider.name, message=text, fix=fix))
        else:
            send(Note(text=text, warns=True))


def _expectation(
    prepared: Prepared,
    provider: ProviderSpec,
    cases: tuple[str, ...],
    outputs: tuple[str, ...],
    given: GivenComparison,
) -> Expectation:
    modes = {name: rule_for(prepared.spec, provider, name).mode for name in prepared.outputs}
    return Expectation(
        provider=provider.name,
        cases=cases,
        outputs=outputs,
        given=given.outputs if prepared.compares_given else (),
        # What is too long to be reported is compared or, as `_announced` advises, ignored: then nobody needs its name.
        ignored=tuple(name[:LONGEST_NAME] for name, mode in modes.items() if mode == "ignore")[:MOST_COMPARISONS],
        recorded=prepared.recorded,
    )


def _announced(expected: Expectation) -> Expectation:
    """What the parent can keep, or an error that says so."""
    cases, outputs = len(expected.cases), len(expected.outputs)
    if long := next((name for name in (*expected.cases, *expected.outputs) if len(name) > LONGEST_NAME), None):
        raise CannotJudge(
            Cause.CONTRACT,
            f"the name {long[:80]!r}… has {len(long):,} characters, at most {LONGEST_NAME:,} can be reported",
            fix="give the output a shorter name, or leave it out with `outputs: {name: ignore}`",
        )
    if cases * outputs > MOST_COMPARISONS:
        raise CannotJudge(
            Cause.UNKNOWN,
            f"{cases:,} cases of {outputs:,} outputs are {cases * outputs:,} comparisons; "
            f"at most {MOST_COMPARISONS:,} can be made of one model on one provider",
            fix="leave outputs out with `outputs: {name: ignore}`, or use fewer `batches`, `dims` or `edges`",
        )
    return expected


def _tell_placement(session: Session, provider: ProviderSpec, send: Send) -> None:
    """Final after the first run; a limit of the manifest that it breaks keeps the provider from passing."""
    if session.placement:
        send(Placed(provider=provider.name, placement=session.placement))
    broken = breaches(provider, session.placement)
    if broken:
        send(
            Failure(
                stage="placement",
                cause=Cause.PROVIDER,
                provider=provider.name,
                message="; ".join(broken),
                fix=f"replace the operators that {provider.name} can't run, or relax the limit",
            )
        )
