"""The measurements of each output → the tolerance that it should have, or why it gets none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.ran import Noise
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.vocabulary import Status

ROOM = 4.0
"""A tolerance is at least this many times the noise."""
SPARE = 2.0
"""A tolerance is also at least this many times the largest error."""
_LIKE = 2.0
"""The manifest's tolerance is kept if it is within this factor of the proposed one."""
_FULL = 0.75
"""The manifest's tolerance is not kept if the largest error uses more than this share of it."""


Verdict = Literal["set", "kept", "refused", "unmeasured"]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """One output of one model on one provider."""

    model: str
    """Its id."""
    provider: str
    """Short name."""
    output: str
    """ONNX output name."""
    verdict: Verdict
    """`kept`: the manifest's tolerance is right. `refused`: the error is not rounding. `unmeasured`: the time ended
    before this was known."""
    tolerance: Tolerance
    """The tolerance to set; if nothing is to be set, the current one."""
    now: Tolerance
    """The current tolerance: from the manifest, or the default."""
    noise: Noise
    """What was measured."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """A model, or a part of one, for which nothing was measured."""

    model: str
    """Its id."""
    why: str
    """The reason, in one line."""
    diverged: bool = False
    """The model differs in more than numbers; otherwise it could not be judged."""


def propose(result: GateResult) -> tuple[list[Proposal], list[Left]]:
    """The proposed tolerances of all models, and what can't have a tolerance."""
    proposals = [found for model in result.models for found in _of_model(model)]
    return proposals, [left for model in result.models for left in _left(model)]


def tolerance_for(noise: Noise) -> Tolerance:
    """A tolerance with room for the noise and for the errors that were seen, rounded up to one digit."""
    scale = max(ROOM, SPARE * noise.times)
    return Tolerance(rtol=round_up(scale * noise.rtol), atol=round_up(scale * noise.atol))


def round_up(value: float) -> float:
    """The value rounded up to one digit, as a person would write a tolerance."""
    if value <= 0:
        return 0.0
    power = math.floor(math.log10(value))
    # Rounded first, so that 3.0000000001 counts as 3.
    return float(f"{math.ceil(round(value / 10.0**power, 6))}e{power}")


def _of_model(model: ModelResult) -> Iterator[Proposal]:
    allowed = _tolerances(model)
    for noise in model.noise or ():
        now = allowed.get((noise.provider, noise.output))
        if now is None:
            continue
        verdict = _judge(noise, now)
        yield Proposal(
            model=model.id,
            provider=noise.provider,
            output=noise.output,
            verdict=verdict,
            tolerance=tolerance_for(noise) if verdict == "set" else now,
            now=now,
            noise=noise,
        )


def _judge(noise: Noise, now: Tolerance) -> Verdict:
    if not noise.complete:
        return "unmeasured"
    if noise.is_divergence:
        return "refused"
    return "kept" if _is_like(now, tolerance_for(noise), noise) else "set"


def _tolerances(model: ModelResult) -> Mapping[tuple[str, str], Tolerance]:
    """The tolerance of each output on each provider."""
    return {(check.provider, check.output): check.tolerance for check in model.checks if check.tolerance}


def _is_like(now: Tolerance, proposed: Tolerance, noise: Noise) -> bool:
    """Whether `now` is close to `proposed`, with room for the largest error: two measurements may round differently."""
    pairs = ((now.rtol, proposed.rtol, noise.rtol), (now.atol, proposed.atol, noise.atol))
    return all(
        wanted <= _LIKE * given and given <= _LIKE * wanted and noise.times * floor <= _FULL * given
        for given, wanted, floor in pairs
    )


def _left(model: ModelResult) -> Iterator[Left]:
    """What prevents a calibration: errors, and differences that no tolerance is for."""
    told: dict[str, Left] = {}
    for check in model.checks:
        if check.status is Status.ERROR:
            told.setdefault(check.message, Left(model=model.id, why=_where(check)))
        elif check.status is Status.DIVERGED and _is_not_of_floats(check):
            told.setdefault(check.message, Left(model=model.id, why=_where(check), diverged=True))
    yield from told.values()
    measured = {(noise.provider, noise.output) for noise in model.noise or ()}
    for provider, output in sorted(_tolerances(model).keys() - measured):
        if not told:
            yield Left(model=model.id, why=f"{provider} {output}: its noise was not measured; the log may say why")


def _is_not_of_floats(check: Check) -> bool:
    return check.contract or check.tolerance is None


def _where(check: Check) -> str:
    place = " ".join(part for part in (check.provider, check.case, check.output) if part)
    return f"{place}: {check.message}" if place else check.message
