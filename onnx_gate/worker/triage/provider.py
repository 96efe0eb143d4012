"""What a provider itself does to the answers: another one each time, or fewer digits for more speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onnx_gate.records.badness import worst_first
from onnx_gate.records.found import OutputDiff, Triage
from onnx_gate.records.ran import RunToRun
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number

MUCH = 0.5
"""Where two runs differ by this share of the divergence, chance explains it."""
ALL_BUT_GONE = 8
"""One element in so many left: what was done otherwise is the reason."""


@dataclass(frozen=True, kw_only=True)
class Precise:
    """The same comparison on the same provider, in full precision."""

    options: Mapping[str, tuple[str, str]]
    """Option → its value before, and the one that was tried."""
    before: OutputDiff
    after: OutputDiff


def find_chance(run_to_run: Mapping[str, tuple[RunToRun, ...]], wrong: list[OutputDiff]) -> Triage | None:
    """The cause where a provider that does not repeat itself explains the divergence that reports show."""
    shown = [(diff.provider, diff.output) for diff in worst_first(wrong)[:1]]
    for diff in (diff for diff in wrong if (diff.provider, diff.output) in shown):
        for found in run_to_run.get(diff.provider, ()):
            if found.output == diff.output and _explains(found, diff):
                return Triage(
                    cause=Cause.NONDETERMINISTIC,
                    advice=f"{tell_chance(diff.provider, found)} Look for random operators (RandomNormal, Multinomial, "
                    "Dropout in training mode) in the file, make the noise an input, or ask the provider for "
                    "deterministic algorithms.",
                )
    return None


def tell_chance(provider: str, found: RunToRun) -> str:
    """By how much two runs differ, as a sentence."""
    largest = f", by up to {number(found.max_abs)}" if found.max_abs is not None else ""
    return (
        f"On {provider} two runs on the same feed give different answers: `{found.output}` differs in "
        f"{found.differing:,} of {found.total:,} elements{largest}."
    )


def _explains(found: RunToRun, diff: OutputDiff) -> bool:
    if found.max_abs is None or diff.max_abs is None or not math.isfinite(diff.max_abs):
        return True
    return found.max_abs >= MUCH * diff.max_abs


def ask_precise(ask: Callable[[OutputDiff], Precise | None], compared: list[OutputDiff]) -> Precise | None:
    """The worst comparison of each provider repeated in full precision, where it has an option for that."""
    worst: dict[str, OutputDiff] = {}
    for diff in worst_first(compared):
        worst.setdefault(diff.provider, diff)
    asked = (ask(diff) for diff in worst.values())
    return next((precise for precise in asked if precise), None)


def all_but_gone(before: OutputDiff, after: OutputDiff) -> bool:
    """Whether a divergence goes, or all but goes, once something is done otherwise."""
    if after.contract:
        return False
    return not after.breaches or 0 < ALL_BUT_GONE * after.mismatched <= before.mismatched


def tell_precise(precise: Precise) -> str:
    """What full precision changed, in numbers."""
    before, after = precise.before, precise.after
    where = f"`{before.output}` on {before.provider} ({before.case})"
    told = f"Run again with {_settings(precise, 1)} instead of {_settings(precise, 0)}, {where} differs from the source"
    if after.contract:
        return f"{told} in form: {after.breaches[0].text}."
    counts = f"{after.mismatched:,} of {after.total:,} elements (before: {before.mismatched:,})"
    largest = f", by up to {number(after.max_abs)} (before: {number(before.max_abs)})"
    if not all_but_gone(before, after):
        return f"{told} in {counts}{largest}: that option is not the reason."
    options = ", ".join(f"{name}: {_quoted(values[1])}" for name, values in precise.options.items())
    return (
        f"{told} in {counts}{largest}: the option is the reason, the file is right. Set "
        f"`providers: {{{before.provider}: {{options: {{{options}}}}}}}` if the digits matter, or give the provider a "
        "`tolerance` of its own."
    )


def _settings(precise: Precise, which: int) -> str:
    return ", ".join(f"`{name}: {values[which]}`" for name, values in precise.options.items())


def _quoted(value: str) -> str:
    return f"'{value}'" if "{" in value else value
