"""How many wrong models the inputs catch, in a few words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onnx_gate.wording.numbers import number, percent, plural

if TYPE_CHECKING:
    # The console uses this module before there is a result, so that a wrong manifest is reported at once.
    from onnx_gate.records.strength import Strength, Survivors


def in_short(strength: Strength) -> str:
    """`94 %`, `71 % → 100 % with aimed cases`, or why there is no such number."""
    if strength.incomplete:
        return f"incomplete: {strength.aimed:,} of {strength.tried:,} tried, {strength.planned:,} planned"
    if not strength.counted:
        return f"unknown: {_none_differs(strength)}"
    share = percent(strength.caught, strength.counted)
    if strength.aimed == strength.caught:
        return share
    return f"{share} → {percent(strength.aimed, strength.counted)} with aimed cases"


def of_run(found: Sequence[Strength]) -> str:
    """For the headline: `strength 25 % to 100 %, unknown for 1 model`; empty if no model has one."""
    known = sorted(
        (one for one in found if one.counted and not one.incomplete), key=lambda one: one.aimed / one.counted
    )
    ends = list(dict.fromkeys(percent(one.aimed, one.counted) for one in (*known[:1], *known[-1:])))
    unknown = len(found) - len(known)
    told = [f"strength {' to '.join(ends)}"] if ends else []
    told += [f"{'' if ends else 'strength '}unknown for {plural(unknown, 'model')}"] if unknown else []
    return ", ".join(told)


def row_of(strength: Strength) -> str:
    """The strength in short with its name, for the row of a model."""
    told = in_short(strength)
    return f"strength {told}"


def held_against(strength: Strength, least: float) -> str:
    """What the inputs catch, and what `min_strength` asks for."""
    return f"{caught(strength)}, `min_strength` asks for {_share(least)}"


def caught(strength: Strength) -> str:
    """`the inputs catch 62 of 100 wrong models (62 %; at most 70.9 % with 95 % confidence)`."""
    if strength.incomplete and strength.planned:
        told = f"{strength.aimed:,} of {plural(strength.planned, 'planned wrong model')}"
        tried = f"only {strength.tried:,} were tried, since {strength.incomplete}"
        return f"the inputs catch {told} ({percent(strength.aimed, strength.planned)}; {tried})"
    if not strength.counted:
        return f"strength is unknown, since {_none_differs(strength)}"
    share = percent(strength.aimed, strength.counted)
    upper = strength.upper if strength.upper is not None else 1.0
    # Rounded down, so that a value that is too low doesn't look high enough.
    most = f"; at most {_share(math.floor(1000 * upper) / 1000)} with 95 % confidence"
    interval = most if upper > strength.aimed / strength.counted else ""
    aimed = ", aimed cases included," if strength.aimed > strength.caught else ""
    total = plural(strength.counted, "wrong model")
    return f"the inputs{aimed} catch {strength.aimed:,} of {total} ({share}{interval})"


def survive(group: Survivors) -> str:
    """`12 mutants survive: rows 10 to 30,521 of emb.weight are never read.`"""
    verb = "survives" if group.mutants == 1 else "survive"
    return f"{plural(group.mutants, 'mutant')} {verb}: {group.reason.rstrip('.')}."


def tried_on(strength: Strength) -> Iterator[str]:
    """What the strength is based on, one line for each fact."""
    if strength.incomplete:
        tried = f"{strength.tried:,} of {plural(strength.planned, 'planned mutant')} were tried"
        yield f"incomplete: {tried}, since {strength.incomplete.rstrip('.')}"
    if strength.not_shown:
        yield f"not shown to differ: {strength.not_shown:,} (tried on {plural(strength.witnesses, 'row')})"
    if strength.half_tried:
        yield (
            f"half precision, tried apart: {strength.half_caught:,} of {plural(strength.half_tried, 'tensor')} caught "
            "(the default tolerance is meant to allow it)"
        )
    if strength.all_rows:
        yield f"rows used: {strength.rows:,} of {strength.all_rows:,}"


def _none_differs(strength: Strength) -> str:
    if not strength.tried:
        return "no wrong model was tried"
    return f"none of {plural(strength.tried, 'wrong model')} was shown to differ on any input"


def _share(share: float) -> str:
    return f"{number(100 * share)} %"
