"""Checks whether rounding alone explains a divergence, from the numbers of several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import OutputDiff, Triage
from onnx_gate.records.ran import Noise
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number, percent
from onnx_gate.worker.triage.placed import advise_unexplained

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
FLOAT32_EPS = float(np.finfo(np.float32).eps)
FLOAT64_EPS = float(np.finfo(np.float64).eps)
REST = 0.01
"""Share of the mismatches that may stay unexplained: a few rows are near another threshold than the one tested."""
AS_NEAR = 4.0
"""ONNX Runtime may be this many times further from the float64 answer than the source itself."""

OFFSET = 0.9
"""Share of the difference that its mean has to reach to count as an offset."""
UNITS = 8
"""Number of rounding steps of the largest answer that may add up in one direction."""
LEAST = 4
"""Fewest elements for a meaningful mean."""
TIE = 1e-5
"""Share of the largest score that sums in float32 may lose."""
SMOOTH = 1e-3
"""A difference above this share of the largest answer is a jump."""


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """The evidence that rounding explains the mismatches of an output."""

    how: Literal["float64", "judge", "ties", "narrowed", "own-noise"]
    """`float64`: the same conversion in float64 agrees. `judge`: both sides are about equally close to the source in
    float64. `ties`: labels whose scores are equal up to rounding. `narrowed`: both sides agree on inputs rounded to
    float32. `own-noise`: the source's answers change as much if its inputs are rounded."""
    mismatched: int
    """Elements that differ in the call that was examined."""
    left: int = 0
    """Elements that rounding doesn't explain."""
    size: float = 0.0
    """For `ties`, the widest margin. For `judge`, the distance of the source from itself in float64."""
    other: float = 0.0
    """For `ties`, the difference of the scores. For `judge`, ONNX Runtime's distance from the source in float64."""


def explains(mismatched: int, left: int) -> bool:
    """Whether nearly all mismatches are gone."""
    return mismatched > 0 and left <= REST * mismatched


def mismatches(reference: Array, actual: Array, tolerance: Tolerance) -> Mask:
    """A mask of the elements that differ; labels have to be equal."""
    if reference.dtype.kind != "f" or actual.dtype.kind != "f":
        return np.asarray(reference != actual, dtype=bool)
    with np.errstate(all="ignore"):
        near = np.isclose(actual.astype(np.float64), reference, tolerance.rtol, tolerance.atol, equal_nan=True)
    return np.asarray(~near, dtype=bool)


def count_gone(how: Literal["float64", "narrowed"], before: Mask, after: Mask) -> Rounding | None:
    """The evidence, if nearly all mismatches are gone and there are not more of them elsewhere; else None."""
    count, left = int(before.sum()), int((before & after).sum())
    if not explains(count, left) or int(after.sum()) > count:
        return None
    return Rounding(how=how, mismatched=count, left=left)


def common_offset(reference: Array, actual: Array) -> float | None:
    """The mean of the difference, if it makes up nearly all of it and is more than rounding; else None."""
    if reference.shape != actual.shape or reference.dtype.kind != "f" or reference.size < LEAST:
        return None
    with np.errstate(all="ignore"):
        apart = actual.astype(np.float64) - reference
    if not np.isfinite(apart).all():
        return None
    mean, size = float(apart.mean()), float(np.abs(apart).mean())
    rounding = UNITS * FLOAT32_EPS * _largest(reference)
    return mean if abs(mean) > max(rounding, OFFSET * size) and float(apart.std()) < abs(mean) / 2 else None


def find_ties(labels: tuple[Array, Array], scores: tuple[Array, Array]) -> Rounding | None:
    """The evidence, if labels differ only where the source's two best scores differ by no more than rounding.

    Labels and scores are pairs of reference and actual.
    """
    flipped = np.asarray(labels[0].ravel() != labels[1].ravel(), dtype=bool)
    ours, theirs = (_as_matrix(side) for side in scores)
    if ours.shape != theirs.shape or len(ours) != len(flipped):
        return None
    margins = _margins(ours, labels[0].ravel())[flipped]
    with np.errstate(all="ignore"):
        apart = np.abs(theirs - ours).max(axis=1)[flipped]
        noise = 2 * apart + 4 * FLOAT32_EPS * np.abs(ours).max(axis=1)[flipped]
        # If the scores differ by more than rounding, a margin of that size is not a tie.
        noise = np.minimum(noise, TIE * np.abs(ours[np.isfinite(ours)]).max(initial=0.0))
    tied = margins <= noise
    left = int(np.count_nonzero(~tied))
    if not explains(len(margins), left):
        return None
    widest, differ = float(margins[tied].max()), float(apart[tied].max())
    return Rounding(how="ties", mismatched=len(margins), left=left, size=widest, other=differ)


def judge_both(judge: Array, reference: Array, actual: Array, tolerance: Tolerance) -> Rounding | None:
    """The evidence, if both sides are about equally close to the source's answer in float64."""
    if judge.shape != reference.shape or reference.dtype.kind != "f" or actual.dtype.kind != "f":
        return None
    wrong = mismatches(reference, actual, tolerance)
    ours, theirs = (np.abs(side.astype(np.float64) - judge) for side in (reference, actual))
    if not wrong.any() or not np.isfinite(theirs[wrong]).all():
        return None
    own, other = float(ours[wrong].max()), float(theirs[wrong].max())
    if not 0 < other <= AS_NEAR * own:
        return None
    return Rounding(how="judge", mismatched=int(wrong.sum()), size=own, other=other)


def compare_noise(
    reference: Array, actual: Array, answers: Sequence[Array], tolerance: Tolerance, *, smooth: bool = False
) -> Rounding | None:
    """The evidence, if the source's own answers to slightly changed inputs differ as much as ONNX Runtime's do.

    With `smooth`, a jump does not count as noise: it may also come from a threshold that was translated wrongly.
    """
    wrong = mismatches(reference, actual, tolerance)
    if any(answer.shape != reference.shape for answer in answers):
        return None
    if smooth and (reference.dtype.kind != "f" or _largest(actual - reference) > SMOOTH * _largest(reference)):
        return None
    if reference.dtype.kind == "f":
        every = np.stack([reference, *answers])
        explained = np.ptp(every, axis=0) >= 0.5 * np.abs(actual.astype(np.float64) - reference)
    else:
        explained = np.any([np.asarray(answer == actual, dtype=bool) for answer in answers], axis=0)
    count, left = int(wrong.sum()), int(np.count_nonzero(wrong & ~explained))
    return Rounding(how="own-noise", mismatched=count, left=left) if explains(count, left) else None


def round_feed(feed: dict[str, Any]) -> dict[str, Any]:
    """The same inputs, rounded to float32."""
    return {name: _rounded(value) for name, value in feed.items()}


def nudge_feed(
    feed: dict[str, Any], number: int, eps: float = FLOAT32_EPS, held: Mapping[str, Mask] = MappingProxyType({})
) -> dict[str, Any]:
    """The inputs, moved by one or two rounding steps of the largest value of their column; `held` elements stay."""
    rng = np.random.default_rng(number)
    nudged = {name: _nudged(value, number, eps, rng) for name, value in feed.items()}
    return {**nudged, **{name: np.where(held[name], feed[name], nudged[name]) for name in held if name in feed}}


def measure(rounding: Rounding) -> str:
    """One sentence with the numbers of the evidence."""
    many = _many(rounding)
    match rounding.how:
        case "ties":
            return (
                f"Of the labels that differ in the batch looked at, {many} are ties: their two best scores are at most "
                f"{number(rounding.size)} apart."
            )
        case "judge":
            return f"The source itself is {number(rounding.size)} away from its own answer in float64."
        case "float64":
            return f"Converted in float64, of the mismatches {many} are gone."
        case "narrowed":
            return f"On inputs rounded to float32, of the mismatches {many} are gone."
    return f"The source's own answers change as much when its inputs change by a rounding (of the mismatches {many})."


def advise(rounding: Rounding, diff: OutputDiff) -> str:
    """Advice that explains the evidence and says what to change."""
    many = _many(rounding)
    if rounding.how == "ties":
        return (
            f"Of the labels that differ in the batch looked at, {many} are ties: the two best scores of the source are "
            f"at most {number(rounding.size)} apart there. The scores of both sides differ by "
            f"{number(rounding.other)}. Rounding to float32 decides them either way. "
            + _change_or_allow("break the ties in the source, such as with an odd number of trees", diff)
        )
    if rounding.how == "judge":
        return (
            f"Rounding explains it: the source itself is {number(rounding.size)} away from its own answer in float64, "
            f"and ONNX Runtime {number(rounding.other)}. Neither is more right. "
            + _change_or_allow("run both in a wider type", diff)
        )
    if rounding.how == "narrowed":
        return (
            "On the same inputs with the digits that float32 holds, both sides agree (of the mismatches, "
            f"{many} are gone). So the ONNX model computes in float32 inside, as trees do, whatever the schema says. "
            "Declare the inputs as float32, and feed the source the same values."
        )
    if rounding.how == "own-noise":
        return (
            "The source's own answers change as much when its inputs change by a rounding (of the mismatches, "
            f"{many}): it moves values across a split, a threshold or a tie{off_by(diff)}. If a step "
            "before trees rounds to float32, such as a scaler, change that step. "
            + _change_or_allow("cast to float64 before it and back after it, or drop it", diff)
        )
    return (
        f"The same conversion in float64 agrees with the source (of the mismatches, {many} are gone): the "
        f"conversion is right, and rounding to float32 is what differs{off_by(diff)}. "
        + _change_or_allow(
            "declare the inputs as float64, or cast to float64 before the step that loses digits and back after it",
            diff,
        )
    )


def _many(rounding: Rounding) -> str:
    if not rounding.left:
        return "all" if rounding.mismatched == 1 else f"all {rounding.mismatched}"
    return f"{rounding.mismatched - rounding.left} of {rounding.mismatched}"


def round_up(value: float) -> float:
    """The value rounded up to one digit, as a person would write a tolerance."""
    if value <= 0:
        return 0.0
    power = math.floor(math.log10(value))
    return float(f"{math.ceil(value / 10**power)}e{power}")


def tolerance_advice(worst: OutputDiff) -> str:
    """Advice for noise that the tolerance does not allow."""
    needed = round_up(2 * (worst.max_abs or 0.0))
    rtol = worst.tolerance.rtol if worst.tolerance else 0.0
    return (
        f"The differences look like rounding ({worst.snr_db:.0f} dB below the signal): the tolerance is tighter than "
        "the arithmetic. If that is good enough, paste: "
        f"`outputs: {{{worst.output}: {{rtol: {rtol:g}, atol: {needed:g}}}}}`."
    )


_REFUTING = 100.0
"""From this many times the noise on, an error is not rounding. Below it, the noise may be measured on too few rows."""


def refute(found: Triage, noises: Sequence[Noise], *, shipped: bool, recorded: bool) -> Triage | None:
    """The cause without `tolerance`, if the measured noise contradicts that; None if it may be right.

    Beside a column of millions, an error of 0.3 % in a small column is far below the signal of the whole output. The
    noise is measured for each column, but only after the cause was searched for.
    """
    # An infinite multiple is a difference where both sides should be 0: how large it is, is not known.
    far = [noise for noise in noises if noise.complete and _REFUTING < noise.times < math.inf]
    if found.cause is not Cause.TOLERANCE or not far:
        return None
    worst = max(far, key=lambda noise: noise.times)
    advice = (
        f"The largest error of `{worst.output}` is {number(worst.times)} times what rounding explains. It is small "
        "beside the largest values of the output, which hide it: a wider tolerance would hide it, too. "
        f"{advise_unexplained(recorded=recorded, shipped=shipped, offset=None)}"
    )
    return replace(found, cause=Cause.CONVERSION, advice=advice)


def off_by(diff: OutputDiff) -> str:
    """The largest difference in words; empty if there is no such number."""
    return f", by up to {number(diff.max_abs)}" if diff.max_abs is not None and diff.tolerance else ""


_MOST_OFFERED = 0.01
"""Largest `atol` that is suggested, as a share of the largest value of an output."""


_MOST_ALLOWED = 0.1
"""Largest share of wrong elements that a suggestion allows: a limit that lets more pass is no check."""


def _change_or_allow(change: str, diff: OutputDiff) -> str:
    """What to change, and a rule to paste instead, unless too much is wrong for any rule."""
    if _share(diff) <= _MOST_ALLOWED or not _needs_share(diff):
        return f"{change[:1].upper()}{change[1:]}. Or {_allow(diff)}."
    wrong = percent(diff.mismatched, diff.total)
    return f"{change[:1].upper()}{change[1:]}. No limit helps: it would have to allow {wrong} of the elements."


def _share(diff: OutputDiff) -> float:
    return diff.mismatched / max(1, diff.total)


def _needs_share(diff: OutputDiff) -> bool:
    """Whether only a share of wrong elements could be allowed: labels, and floats of which a few are far off."""
    if diff.tolerance is None:
        return True
    size = max((abs(end) for end in (diff.lowest, diff.highest) if end is not None), default=math.inf)
    # Such a wide atol would accept anything.
    return bool(diff.mismatched) and 1.5 * _farthest(diff) > _MOST_OFFERED * size


def _farthest(diff: OutputDiff) -> float:
    return diff.max_abs if diff.max_abs is not None and math.isfinite(diff.max_abs) else 0.0


def _allow(diff: OutputDiff) -> str:
    """A suggestion with a rule that the user can paste."""
    if diff.tolerance is None:
        agreed = math.floor(100 * (1 - diff.mismatched / max(1, diff.total))) / 100
        return f"allow it with `outputs: {{{diff.output}: {{min_agreement: {agreed:g}}}}}`"
    if _needs_share(diff):
        share = math.ceil(1000 * _share(diff)) / 1000
        return f"allow the share of elements that differ with `outputs: {{{diff.output}: {{max_mismatch: {share:g}}}}}`"
    rule = f"rtol: {diff.tolerance.rtol:g}, atol: {round_up(1.5 * _farthest(diff)):g}"
    return f"allow it with `outputs: {{{diff.output}: {{{rule}}}}}`, if that is good enough"


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _as_matrix(scores: Array) -> Array:
    """The scores as a matrix, one row per row of the data; a single score becomes two of opposite sign."""
    matrix = scores.astype(np.float64).reshape(len(scores), -1)
    return np.hstack([-matrix, matrix]) if matrix.shape[1] == 1 else matrix


def _margins(scores: Array, labels: Array) -> Array:
    """The difference of the two best scores of each row: the largest ones, or the smallest ones for distances."""
    ordered = np.sort(scores, axis=1)
    if _tells(scores.argmin(axis=1), labels) > _tells(scores.argmax(axis=1), labels):
        return np.asarray(ordered[:, 1] - ordered[:, 0])
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def _tells(places: Array, labels: Array) -> int:
    """The number of rows whose label follows from the position of their best score."""
    codes = np.unique(labels.astype(str), return_inverse=True)[1]
    return sum(int(np.bincount(codes[places == place]).max()) for place in np.unique(places))


def _rounded(value: Any) -> Any:
    return value.astype(np.float32).astype(value.dtype) if value.dtype.kind == "f" else value


def _nudged(value: Any, number: int, eps: float, rng: np.random.Generator) -> Any:
    if value.dtype.kind != "f" or not value.size:
        return value
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    step = eps * (1 + number // 2 % 2) * finite.max(axis=0, keepdims=True)
    # All up, then all down, then each element in a random direction.
    signs = (1, -1)[number] if number < 2 else rng.choice((-1, 1), size=value.shape)
    return value + signs * step
