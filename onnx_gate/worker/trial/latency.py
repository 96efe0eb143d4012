"""How long the source and each provider take on the same feeds: warmed up, in turns, with one thread.

They run in turns, so that other load on the machine slows all sides equally: a ratio is judged, never a time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

from onnx_gate.errors import CannotJudge
from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.records.asked import FEWEST_REPEATS, LatencySpec, ProviderSpec
from onnx_gate.records.found import Breach, OutputDiff
from onnx_gate.records.ran import Latency, Timing
from onnx_gate.vocabulary import DOMAIN_CASE, BreachKind, Cause
from onnx_gate.wording.numbers import duration, number
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.trial.prepared import Prepared

MOST_SECONDS = 60.0
"""Time for a whole model: after that, no further batch size is started."""
MOST_SIZES = 8
WARM_UP = 2
CASE, OUTPUT = "latency", "speedup"
"""The names of the limit among the checks."""
Send = Callable[[Event], None]
Run = Callable[[], object]


def measure_latency(
    prepared: Prepared, providers: list[ProviderSpec], send: Send, read_log: Callable[[], str]
) -> list[OutputDiff]:
    """Send the times of every side at every batch size; returns the checks of the limits on them."""
    asked = prepared.spec.latency
    if asked is None or not providers:
        return []
    send(Stage(name="latency"))
    custom_ops = prepared.spec.ort_custom_ops
    sessions = {
        provider.name: open_session(prepared.onnx, provider, read_log, custom_ops=custom_ops) for provider in providers
    }
    until = time.monotonic() + min(MOST_SECONDS, prepared.spec.timeout / 4)
    measured: list[Latency] = []
    left_out = []
    for case in cases_to_time(prepared.cases):
        if measured and time.monotonic() > until:
            left_out.append(case.name)
            continue
        measured += time_case(prepared, case, sessions, asked)
    for found in measured:
        send(found)
    if left_out:
        send(Note(text=f"latency {_not_measured(left_out)}"))
    limits = [judge_speed(provider, measured) for provider in providers if provider.min_speedup is not None]
    for limit in limits:
        send(limit)
    require_all_timed(left_out, limits)
    return limits


def require_all_timed(left_out: list[str], limits: list[OutputDiff]) -> None:
    """Raise CannotJudge if a limit was not checked at every batch size, unless a limit is already broken."""
    if left_out and limits and not any(limit.breaches for limit in limits):
        raise CannotJudge(
            Cause.PROVIDER,
            f"min_speedup applies to every batch size, and latency {_not_measured(left_out)}",
            fix="raise `timeout`, or name fewer `batches`",
        )


def _not_measured(cases: list[str]) -> str:
    return f"was not measured at {', '.join(cases)}: the time for it was spent before"


def cases_to_time(cases: list[Case]) -> list[Case]:
    """One case per batch size, the largest in other dimensions; no edge cases, and `domain` only if it is alone."""
    plain = [case for case in cases if not case.edge]
    plain = [case for case in plain if case.name != DOMAIN_CASE] or plain
    by_batch: dict[int | None, Case] = {}
    for case in sorted(plain, key=lambda case: math.prod(case.sizes.values())):
        by_batch[case.sizes.get("batch")] = case
    chosen = list(by_batch.values())
    step = max(1, math.ceil(len(chosen) / MOST_SIZES))
    # Counted from the end, so that the largest is included.
    return chosen[::-1][::step][::-1]


def time_case(prepared: Prepared, case: Case, sessions: dict[str, Session], asked: LatencySpec) -> list[Latency]:
    """The times of each side, run in the order source, provider, provider, source, …"""
    call = next(case.calls())
    fed = prepared.fed(call)
    sides: dict[str, Run] = {name: lambda session=session: session.bare(fed) for name, session in sessions.items()}  # type: ignore[misc]
    if prepared.source is not None:
        framework, source, spec = prepared.framework, prepared.source, prepared.spec
        sides = {"": lambda: framework.predict(source, spec, call.feed), **sides}
    times = take_turns(list(sides.values()), asked)
    timed = {name: _timing(taken) for name, taken in zip(sides, times, strict=True)}
    source_timing = timed.pop("", None)
    return [
        Latency(
            provider=name,
            case=case.name,
            batch=case.sizes.get("batch"),
            source=source_timing,
            actual=actual,
            speedup=source_timing.median / actual.median if source_timing else None,
            repeats=len(times[0]),
        )
        for name, actual in timed.items()
    ]


def take_turns(sides: list[Run], asked: LatencySpec) -> list[list[float]]:
    """The seconds of each run of each side, in rounds with one run per side."""
    for _ in range(WARM_UP):
        for run in sides:
            run()
    times: list[list[float]] = [[] for _ in sides]
    until = time.perf_counter() + asked.seconds * len(sides)
    for repeat in range(asked.repeats):
        if repeat >= FEWEST_REPEATS and time.perf_counter() > until:
            break
        marks = [time.perf_counter()]
        for run in sides:
            run()
            marks.append(time.perf_counter())
        for taken, (start, end) in zip(times, pairwise(marks), strict=True):
            # If the clock did not advance, a time of 0 would give no ratio.
            taken.append(max(end - start, 1e-9))
    return times


def judge_speed(provider: ProviderSpec, measured: list[Latency]) -> OutputDiff:
    """The check of `min_speedup`, which must hold at every batch size."""
    own = [(found, found.speedup) for found in measured if found.provider == provider.name and found.speedup]
    limit = provider.min_speedup or 0.0
    if not own:
        raise CannotJudge(
            Cause.PROVIDER,
            f"min_speedup is {number(limit)}, and the source is not here to be timed",
            fix="judge speed where the source can run, without --reference",
        )
    slow = (
        f"at {found.case} {provider.name} is {number(speedup)} times as fast as the source (median "
        f"{duration(found.actual.median)} against {duration(found.source.median)}), min_speedup is {number(limit)}"
        for found, speedup in own
        if found.source and speedup < limit
    )
    return OutputDiff(
        provider=provider.name,
        case=CASE,
        output=OUTPUT,
        limits={"min_speedup": limit},
        breaches=tuple(Breach(kind=BreachKind.SPEED, text=sentence) for sentence in slow),
    )


def _timing(taken: list[float]) -> Timing:
    rank = math.ceil(0.95 * len(taken)) - 1
    return Timing(median=statistics.median(taken), p95=sorted(taken)[rank])
