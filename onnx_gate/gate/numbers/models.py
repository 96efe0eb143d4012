"""Numbers of a model as a whole: times, placement, and its checks taken together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.numbers.checks import SPEED, Contradiction
from onnx_gate.gate.numbers.plots import of_the_plots
from onnx_gate.gate.strength import numbers as strength_numbers
from onnx_gate.records.diagnosis.failing import failing_contradictions
from onnx_gate.records.limits import counts_rows
from onnx_gate.records.ran import Latency, Placement, are_numbers
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.vocabulary import Status
from onnx_gate.wording.repro import folder_of

SCORES = "min_top1"
"""The limit that needs a count of how often the same column is the largest."""
_OF_A_RATIO = 1e-6


def model_contradictions(model: ModelResult) -> Iterator[str]:
    """What is impossible about a model as a whole, one sentence each."""
    for time in model.latency:
        yield from _of_a_time(time)
    for provider, placement in model.placement.items():
        yield from _of_a_placement(provider, placement)
    yield from strength_numbers.model_contradictions(model)
    yield from _of_what_was_fed(model)
    yield from _of_winners_that_nobody_asked_for(model)
    # An error already explains these contradictions.
    if all(check.status is not Status.ERROR for check in model.checks):
        for check in model.checks:
            if check.status is Status.PASSED and SPEED in check.limits:
                yield from _of_the_speed(check, model)
        yield from _of_what_proves_nothing(model)
    yield from _of_the_headroom(model)
    yield from _of_the_noise(model)
    yield from _of_what_fails(model)
    yield from of_the_plots(model)
    if model.cached and model.verdict is not Status.PASSED:
        yield "it is cached, and only models that passed are"


def require_consistent_model(model: ModelResult) -> None:
    """Raise Contradiction with the first thing that is impossible about the model as a whole."""
    for reason in model_contradictions(model):
        raise Contradiction(reason)


def _of_a_time(time: Latency) -> Iterator[str]:
    """What is impossible about a time: the speed-up is the ratio of the medians, and needs a timed source."""
    sides = [side for side in (time.source, time.actual) if side]
    if any(not 0 < side.median <= side.p95 for side in sides):
        yield f"{time.provider} at {time.case}: its times are not in order, or nothing took any"
    elif time.source is None and time.speedup is not None:
        yield f"{time.provider} at {time.case} is {time.speedup:g} times as fast as a source that was not timed"
    elif time.source is not None and not _is_ratio(time.speedup, time.source.median, time.actual.median):
        ratio = time.source.median / time.actual.median
        said = "missing" if time.speedup is None else f"{time.speedup:g}"
        yield f"{time.provider} at {time.case}: its speed-up is {said}, and its medians make it {ratio:g}"


def _is_ratio(speedup: float | None, source: float, actual: float) -> bool:
    return speedup is not None and math.isclose(speedup, source / actual, rel_tol=_OF_A_RATIO)


def _of_a_placement(provider: str, placement: Placement) -> Iterator[str]:
    """What is impossible about a placement; the list of nodes that ran elsewhere may have been cut short."""
    if placement.on_provider + len(placement.elsewhere) > placement.nodes:
        yield f"more nodes ran on {provider} and elsewhere than the {placement.nodes:,} that there are"


def _of_what_was_fed(model: ModelResult) -> Iterator[str]:
    if model.domains and model.domains.reached > model.domains.landmarks:
        yield f"{model.domains.reached:,} landmarks were fed, and there are {model.domains.landmarks:,}"
    for provider, numerics in model.numerics.items():
        for found in numerics.run_to_run:
            if found.differing > found.total:
                yield f"{found.differing:,} elements differ from run to run on {provider}, of {found.total:,}"


def _of_the_headroom(model: ModelResult) -> Iterator[str]:
    """A contradiction if the headroom is not the largest share that a check uses of its tolerance."""
    made = headroom_of(model.checks)
    if model.headroom != made:
        said, counted = ("nothing" if share is None else f"{share:g}" for share in (model.headroom, made))
        yield f"it uses {said} of its tolerance, and its checks {counted}"


def _of_the_noise(model: ModelResult) -> Iterator[str]:
    """What is impossible about the noise: only compared outputs have it, at most once, with measurable numbers."""
    compared = {(check.provider, check.output) for check in model.checks}
    seen: set[tuple[str, str]] = set()
    for noise in model.noise or ():
        where = noise.provider, noise.output
        if where in seen or where not in compared:
            yield f"it has noise of {noise.output} on {noise.provider} {'twice' if where in seen else 'alone'}"
        if not are_numbers(noise):
            yield f"the noise of {noise.output} is rtol {noise.rtol:g}, atol {noise.atol:g}, {noise.times:g} times it"
        seen.add(where)


def _of_what_fails(model: ModelResult) -> Iterator[str]:
    """What is impossible about failing rows: they need a divergence, and the folder must be the model's own."""
    if model.failing:
        compared = {check.provider for check in model.checks if check.status is Status.DIVERGED}
        if model.failing.provider not in compared:
            yield f"it shows rows that fail on {model.failing.provider}, where nothing diverged"
        yield from (f"rows that fail: {reason}" for reason in failing_contradictions(model.failing))
    if model.repro and model.verdict not in (Status.DIVERGED, Status.ERROR):
        yield f"it shows a failure again, and its verdict is {model.verdict}"
    if model.repro and model.repro.folder not in ("", folder_of(model.id)):
        yield f"what shows it again is said to be in {model.repro.folder!r}"


def _of_winners_that_nobody_asked_for(model: ModelResult) -> Iterator[str]:
    """A contradiction for each top1 without a reason: it is only computed for a limit, and in variants."""
    for check in model.checks:
        if check.top1 is not None and SCORES not in check.limits and model.variant_of is None:
            yield f"{check.case} {check.output}: its top1 is {check.top1:g}, and no {SCORES} asks for it"


def _of_the_speed(check: Check, model: ModelResult) -> Iterator[str]:
    measured = [one.speedup for one in model.latency if one.provider == check.provider and one.speedup]
    if not measured:
        yield f"{check.provider} keeps its {SPEED}, and no speed-up was measured"
    elif min(measured) < check.limits[SPEED]:
        yield f"{check.provider} keeps its {SPEED} of {check.limits[SPEED]:g}, and is {min(measured):g} times as fast"


def _of_what_proves_nothing(model: ModelResult) -> Iterator[str]:
    """Passed outputs that are empty, or NaN on both sides, in every case: `run` would have made them errors."""
    # Only an .onnx source has recorded outputs, and those are empty on purpose.
    may_be_empty = model.framework == "onnx" and not model.weak_reference
    by_output: dict[tuple[str, str], list[Check]] = {}
    for check in model.checks:
        if check.status is not Status.SKIPPED and SPEED not in check.limits and not counts_rows(check.limits):
            by_output.setdefault((check.provider, check.output), []).append(check)
    for (provider, output), checks in by_output.items():
        total, matched = sum(check.total for check in checks), sum(check.nan_matched for check in checks)
        if any(check.status is not Status.PASSED for check in checks) or matched < total:
            continue
        if total or not may_be_empty:
            yield f"{output} is {'NaN' if total else 'empty'} in every case on {provider}, and passes"
