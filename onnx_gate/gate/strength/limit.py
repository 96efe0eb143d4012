"""Whether a model has a strength, and whether it is enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx_gate.records.result import Check
from onnx_gate.records.strength import WEAK, Strength, Survivors
from onnx_gate.vocabulary import STRENGTH, Cause, Status
from onnx_gate.wording.strength import caught, held_against, survive
from onnx_gate.wording.text import shorten

_LONGEST_MESSAGE = 10_000
_WEAK_REFERENCE = (
    "strength can't be computed: no outputs are recorded, so a wrong model would be compared with itself as well"
)
_RECORD = "record outputs of the model in `data`, or remove `min_strength` for it"
_FEED = "feed inputs that show what the report lists under strength, or lower `min_strength`"
_LARGER = "raise `timeout` or `memory`, try fewer with `strength: {mutants: …}`, or remove `min_strength`"


def is_believed(checks: Sequence[Check], *, variant: bool, weak: bool) -> bool:
    """Whether a model with these checks has a strength: only a pass raises the question how strong its inputs are."""
    return passes(checks) and not variant and not weak


def passes(checks: Sequence[Check]) -> bool:
    """Whether a model with these checks passes."""
    seen = {check.status for check in checks}
    return Status.PASSED in seen and seen <= {Status.PASSED, Status.SKIPPED}


def is_of_strength(check: Check) -> bool:
    """Whether this is the check that `min_strength` makes; no worker can make one."""
    return (check.provider, check.case, check.cause) == ("", STRENGTH, Cause.WEAK_INPUTS)


def other_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """All checks but the one that `min_strength` makes."""
    return tuple(check for check in checks if not is_of_strength(check))


def judge_strength(
    strength: Strength | None, least: float | None, checks: Sequence[Check], *, weak: bool = False, why: str = ""
) -> tuple[Check, ...]:
    """The error that `min_strength` adds to these checks; empty if the limit is kept or not set.

    A missing strength is a failure: `why` says why there is none, if that is known.
    """
    if least is None or not passes(checks):
        return ()
    if weak:
        return (_too_weak(_WEAK_REFERENCE, _RECORD),)
    if strength is None:
        reason = why or "its warnings and its log may say why"
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
    """The fix of the largest group of survivors that has one."""
    if strength.incomplete:
        return _LARGER
    fix = next((group.fix for group in strength.survivors if group.fix), "")
    return fix or _FEED


def warn_of_strength(strength: Strength | None, least: float | None) -> tuple[str, ...]:
    """A warning if even the upper bound of the share is low and no limit is set; else empty."""
    if strength is None or least is not None or strength.upper is None or strength.upper >= WEAK:
        return ()
    first = next(iter(strength.survivors), None)
    told = [f"strength is low: {caught(strength)}.", *(_with_fix(first) if first else [])]
    return (" ".join(told),)


def _with_fix(group: Survivors) -> list[str]:
    return [survive(group), *([f"Fix: {group.fix}"] if group.fix else [])]
