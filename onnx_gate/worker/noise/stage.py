"""The stages that measure noise: for outputs that failed, in triage; and for all outputs, to calibrate tolerances."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.records.asked import OutputRule, ProviderSpec, Tolerance
from onnx_gate.records.badness import worst_first
from onnx_gate.records.found import OutputDiff
from onnx_gate.records.ran import FAR, Noise
from onnx_gate.wording.hints import listed
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.noise.measure import Errors, measure_noise
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.trial.doubts.near import excuse_near
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import failure_of, run_case
from onnx_gate.worker.user_code import describe

SHARE = 0.9
"""Share of `timeout` after which calibration has to end."""
NO_TIME = "how many times the noise the errors are was not measured: triage had no time left"
NOT_MEASURED = "how many times the noise the errors are was not measured: {}"
COVERED = (
    "`{}`: its noise is as large as all answers of its {}, so a tolerance for the whole output hides what is wrong "
    "there. Fix: add `min_column_snr_db: 40` to the limits of `{}`, or give {} an output of {} own"
)
NOISY = (
    "`{}`: rounding is far larger in the edge {} {} than in the other cases, so a tolerance that covers {} hides "
    "errors in those. Fix: list the other edges under `edges`, and calibrate again"
)
Send = Callable[[Event], None]


def tell_noise(
    prepared: Prepared, diffs: Sequence[OutputDiff], send: Send, read_log: Callable[[], str], deadline: float
) -> list[Noise]:
    """Send the errors of a model that diverged, as multiples of the noise; failures here change no verdict.

    A variant has another precision on purpose, so nothing is sent for it.
    """
    found: list[Noise] = []
    failed = [] if prepared.spec.variant else worst_first(diff for diff in diffs if _is_of_values(diff))
    for provider in prepared.spec.providers:
        wrong = {diff.output: diff for diff in reversed(failed) if diff.provider == provider.name}
        if not wrong:
            continue
        if time.monotonic() > deadline:
            send(Note(text=NO_TIME))
            break
        try:
            for noise in _measured(prepared, provider, wrong, read_log, deadline):
                found.append(noise)
                send(noise)
        except Exception as error:
            log_aside(error)
            send(Note(text=NOT_MEASURED.format(describe(error)[:300])))
    return found


def _measured(
    prepared: Prepared,
    provider: ProviderSpec,
    wrong: dict[str, OutputDiff],
    read_log: Callable[[], str],
    deadline: float,
) -> Sequence[Noise]:
    """The noise on the calls that hold the worst elements."""
    calls: dict[str, frozenset[int]] = {}
    for diff in wrong.values():
        calls[diff.case] = calls.get(diff.case, frozenset()) | _worst_call(prepared, diff)
    cases = [(case, calls[case.name]) for case in prepared.cases if case.name in calls]
    return measure_noise(prepared, provider, wrong, cases, read_log, deadline=deadline)[0]


def _is_of_values(diff: OutputDiff) -> bool:
    """Whether elements are out of tolerance, so that they can be compared with the noise."""
    return bool(diff.breaches) and not diff.contract and diff.tolerance is not None and diff.mismatched > 0


def _worst_call(prepared: Prepared, diff: OutputDiff) -> frozenset[int]:
    case = next((case for case in prepared.cases if case.name == diff.case), None)
    row = diff.worst.index[0] if diff.worst and diff.worst.index else 0
    firsts = [call.first_row for call in case.calls()] if case else []
    before = [number for number, first in enumerate(firsts) if first <= row]
    return frozenset(before[-1:] or ([0] if firsts else []))


def calibrate(
    prepared: Prepared, providers: Sequence[ProviderSpec], send: Send, read_log: Callable[[], str], *, started: float
) -> None:
    """Send the noise of every output that has a tolerance, over all cases, on each of these providers."""
    deadline = started + SHARE * prepared.spec.timeout
    for provider in providers:
        send(Stage(name=f"noise on {provider.name}", provider=provider.name))
        try:
            _calibrate(prepared, provider, send, read_log, deadline)
        except BaseException as error:
            send(failure_of(error, f"noise on {provider.name}", provider=provider.name))


def _calibrate(
    prepared: Prepared, provider: ProviderSpec, send: Send, read_log: Callable[[], str], deadline: float
) -> None:
    rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
    rules = {name: rule for name, rule in rules.items() if rule.mode == "compare"}
    cases = [case for case in prepared.cases if case.held]
    found, errors = measure_noise(
        prepared, provider, rules, [(case, None) for case in cases], read_log, deadline=deadline
    )
    generated = [case for case in cases if case.generated]
    for noise in _excused(prepared, provider, rules, generated, found, errors, read_log) if generated else found:
        send(noise)
    for name in errors.found:
        for text in _remarks(name, errors):
            send(Note(text=text, warns=True))


def _remarks(name: str, errors: Errors) -> Iterator[str]:
    """What a tolerance for the whole output would hide."""
    if edges := errors.noisy.get(name):
        yield NOISY.format(
            name, *(("case", listed(edges), "it") if len(edges) == 1 else ("cases", listed(edges), "them"))
        )
    elif columns := errors.covered.get(name):
        yield _covered(name, columns)


def _covered(name: str, columns: Sequence[int]) -> str:
    told, *rest = ("column", "it", "its") if len(columns) == 1 else ("columns", "them", "their")
    return COVERED.format(name, f"{told} {listed([str(column) for column in columns])}", name, *rest)


def _excused(
    prepared: Prepared,
    provider: ProviderSpec,
    rules: dict[str, OutputRule],
    cases: Sequence[Case],
    found: Sequence[Noise],
    errors: Errors,
    read_log: Callable[[], str],
) -> list[Noise]:
    """The noises, without errors far beyond the noise that occur only on generated rows where rounding decides."""
    floors = {noise.output: Tolerance(rtol=noise.rtol, atol=noise.atol) for noise in found}
    doubtful = {
        noise.output: errors.given[noise.output].over(floors[noise.output])
        for noise in found
        if noise.is_divergence and noise.output not in errors.broken
    }
    doubtful = {name: times for name, times in doubtful.items() if times <= FAR}
    if not doubtful:
        return list(found)
    session = open_session(prepared.onnx, provider, read_log, custom_ops=prepared.spec.ort_custom_ops)
    allowed = {name: Tolerance(rtol=FAR * floor.rtol, atol=FAR * floor.atol) for name, floor in floors.items()}
    judged = {
        name: replace(rule, tolerance=allowed[name], limits={}) if name in allowed else rule
        for name, rule in rules.items()
    }
    for case in cases:
        compared = run_case(prepared, session, case, provider.name, judged)
        compared, _ = excuse_near(prepared, session, case, provider.name, compared, judged)
        for diff in compared:
            if isinstance(diff, OutputDiff) and diff.output in doubtful:
                doubtful[diff.output] = max(doubtful[diff.output], FAR * (diff.used or 0.0))
    return [replace(noise, times=doubtful.get(noise.output, noise.times)) for noise in found]
