"""Strength of the inputs: whether it can be true, whether it is to be believed, and whether it is enough.

A worker says how many wrong models the inputs would have caught. Its code may be the model's own, so its numbers are
held against each other, and against the model: only of one that passed is there a strength.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from onnx_gate.records.result import Check, ModelResult
from onnx_gate.records.strength import MOST_GROUPS, WEAK, KindStrength, Strength, Survivors
from onnx_gate.vocabulary import STRENGTH, Cause, Status
from onnx_gate.wording.strength import caught, held_against, survive
from onnx_gate.wording.text import shorten

_LONGEST_MESSAGE = 10_000
_ORDER = ("planned", "tried", "counted", "aimed", "caught")
"""Each is a part of the one before it."""
_WEAK_REFERENCE = (
    "strength can't be computed: no outputs are recorded, so a wrong model would be compared with itself as well"
)
_RECORD = "record outputs of the model in `data`, or remove `min_strength` for it"
_FEED = "feed inputs that show what the report lists under strength, or lower `min_strength`"
_LARGER = "raise `timeout` or `memory`, try fewer with `strength: {mutants: …}`, or remove `min_strength`"


# ── Can it be true? ─────────────────────────────────────────────────────────────────────────────────────


def contradictions(strength: Strength) -> Iterator[str]:
    """What can't be of these numbers, one sentence each."""
    yield from _out_of_order(strength, _ORDER, "")
    for kind in strength.kinds:
        yield from _out_of_order(kind, _ORDER[1:], f" of kind {kind.kind!r}")
    yield from _of_the_kinds(strength)
    if strength.half_caught > strength.half_tried:
        yield f"{strength.half_caught:,} tensors in half precision are caught, and {strength.half_tried:,} were tried"
    if strength.rows > strength.all_rows:
        yield f"mutants were run on {strength.rows:,} rows, and there are {strength.all_rows:,}"
    yield from _of_the_survivors(strength)
    if bool(strength.incomplete) != (strength.tried < strength.planned):
        why = "says why it is incomplete" if strength.incomplete else "doesn't say why it is incomplete"
        yield f"it {why}, and {strength.tried:,} of {strength.planned:,} mutants were tried"


def _out_of_order(counts: Strength | KindStrength, names: Sequence[str], what: str) -> Iterator[str]:
    for whole, part in pairwise(names):
        if getattr(counts, part) > getattr(counts, whole):
            yield f"{getattr(counts, part):,} mutants{what} are {part}, and {getattr(counts, whole):,} {whole}"


def _of_the_kinds(strength: Strength) -> Iterator[str]:
    for name in _ORDER[1:]:
        total = sum(getattr(kind, name) for kind in strength.kinds)
        if total != getattr(strength, name):
            yield f"{getattr(strength, name):,} mutants are {name}, and {total:,} by kind"
    if twice := [kind for kind, count in Counter(each.kind for each in strength.kinds).items() if count > 1]:
        yield f"it has the kind {twice[0]!r} twice"


def _of_the_survivors(strength: Strength) -> Iterator[str]:
    if len(strength.survivors) > MOST_GROUPS:
        yield f"it has {len(strength.survivors)} groups of survivors, expected at most {MOST_GROUPS}"
    told, left = sum(group.mutants for group in strength.survivors), strength.counted - strength.caught
    if told > left:
        yield f"its groups of survivors have {told:,} mutants, and {left:,} are left of those that count"


def model_contradictions(model: ModelResult) -> Iterator[str]:
    """What can't be of a model's strength, one sentence each."""
    if model.strength is None:
        return
    if not is_believed(other_checks(model.checks), variant=bool(model.variant_of), weak=model.weak_reference):
        yield "it has a strength, which there is only of a model that passed, is no variant, and has a reference"
    yield from contradictions(model.strength)


# ── Is it to be believed? ───────────────────────────────────────────────────────────────────────────────


def is_believed(checks: Sequence[Check], *, variant: bool, weak: bool) -> bool:
    """Whether a model with these checks has a strength: what failed found something, with whatever inputs."""
    return passes(checks) and not variant and not weak


def passes(checks: Sequence[Check]) -> bool:
    """Whether a model with these checks passes."""
    seen = {check.status for check in checks}
    return Status.PASSED in seen and seen <= {Status.PASSED, Status.SKIPPED}


def is_of_strength(check: Check) -> bool:
    """Whether this is the check that `min_strength` makes; no worker can make one."""
    return (check.provider, check.case, check.cause) == ("", STRENGTH, Cause.WEAK_INPUTS)


def other_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """All but that one."""
    return tuple(check for check in checks if not is_of_strength(check))


# ── Is it enough? ───────────────────────────────────────────────────────────────────────────────────────


def judge_strength(
    strength: Strength | None, least: float | None, checks: Sequence[Check], *, weak: bool = False, why: str = ""
) -> tuple[Check, ...]:
    """The error that `min_strength` makes beside these checks; empty where it is kept, or nobody asks for it.

    No news is a failure: `why` says why there is no strength, where that is known.
    """
    if least is None or not passes(checks):
        return ()
    if weak:
        return (_too_weak(_WEAK_REFERENCE, _RECORD),)
    if strength is None:
        reason = why or "nothing says why"
        return (_too_weak(f"`min_strength` is set, and strength was not computed: {reason}", _LARGER),)
    if strength.held is not None and strength.held >= least:
        return ()
    first = next(iter(strength.survivors), None)
    told = " ".join([f"{held_against(strength, least)}.", *([survive(first)] if first else [])])
    return (_too_weak(told, _fix(strength)),)


def _too_weak(message: str, fix: str) -> Check:
    return Check(
        provider="",
        case=STRENGTH,
        output="",
        status=Status.ERROR,
        cause=Cause.WEAK_INPUTS,
        message=shorten(f"{message.rstrip('.')}.", _LONGEST_MESSAGE),
        fix=shorten(fix, _LONGEST_MESSAGE),
    )


def _fix(strength: Strength) -> str:
    """Of the largest group for which one is known."""
    if strength.incomplete:
        return _LARGER
    fix = next((group.fix for group in strength.survivors if group.fix), "")
    return fix or _FEED


def warn_of_strength(strength: Strength | None, least: float | None) -> tuple[str, ...]:
    """One line where even the most that the share may be is little, and no limit says how much it has to be."""
    if strength is None or least is not None or strength.upper is None or strength.upper >= WEAK:
        return ()
    first = next(iter(strength.survivors), None)
    told = [f"strength is low: {caught(strength)}.", *(_with_fix(first) if first else [])]
    return (" ".join(told),)


def _with_fix(group: Survivors) -> list[str]:
    return [survive(group), *([f"Fix: {group.fix}"] if group.fix else [])]
