"""Causes in the runtime itself: random answers, lower precision, a wrong optimiser or a wrong kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onnx_gate.records.badness import worst_first
from onnx_gate.records.diagnosis.place import Place
from onnx_gate.records.found import OutputDiff, Triage
from onnx_gate.records.ran import RunToRun
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number
from onnx_gate.worker.place.runtime.find import Optimized
from onnx_gate.worker.triage.placed import describe_fault
from onnx_gate.worker.triage.precision import round_up

MUCH = 0.5
"""If two runs differ by this share of the divergence, chance explains it."""
_SHOWN = 3
ALL_BUT_GONE = 100
"""If at most one in this many wrong elements is still wrong after a change, the changed thing is the cause."""


@dataclass(frozen=True, kw_only=True)
class Precise:
    """The same comparison on the same provider, in full precision."""

    options: Mapping[str, tuple[str, str]]
    """Option → its value before, and the value that was tried."""
    before: OutputDiff
    after: OutputDiff


def find_chance(run_to_run: Mapping[str, tuple[RunToRun, ...]], wrong: list[OutputDiff]) -> Triage | None:
    """The cause, if the provider is not deterministic and that explains the divergence shown in reports; else None."""
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
    """A sentence that says how much two runs differ."""
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
    """The worst comparison of a provider, repeated in full precision, for the first provider with an option for it."""
    worst: dict[str, OutputDiff] = {}
    for diff in worst_first(compared):
        worst.setdefault(diff.provider, diff)
    asked = (ask(diff) for diff in worst.values())
    return next((precise for precise in asked if precise), None)


def all_but_gone(before: OutputDiff, after: OutputDiff) -> bool:
    """Whether a divergence goes away, or nearly so, after a change."""
    if after.contract or (before.column_snr_db is not None and after.column_snr_db is None):
        # A case of few rows that runs alone gives no result for its columns.
        return False
    return not after.breaches or 0 < ALL_BUT_GONE * after.mismatched <= before.mismatched


def tell_precise(precise: Precise) -> str:
    """A text that says what full precision changed, in numbers."""
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


def _as_yaml(value: str) -> str:
    """The value as YAML: names unchanged, everything else in quotes."""
    return value if value.isidentifier() else f"'{value}'"


# ── The place in the graph ──────────────────────────────────────────────────────────────────────────────


def advise_optimizer(worst: OutputDiff, plain: OutputDiff, found: Optimized | None) -> str:
    """Advice that names the optimiser, the nodes that it replaces, and how to turn it off."""
    left = f"{plain.mismatched:,} of {plain.total:,} elements instead of {worst.mismatched:,}"
    start = (
        f"ONNX Runtime {f'differs from the source in {left}' if plain.breaches else 'agrees with the source'} "
        "when its graph optimisations are off: an optimisation changes the answers."
    )
    if found is None:
        return f"{start} Try another version of onnxruntime, or serve with a lower optimisation level."
    return " ".join(text for text in (start, _which(found), _where(found.place), _turn_off(found)) if text)


def advise_amplified(found: Optimized) -> str:
    """Advice for a graph that makes the rounding of an optimiser larger: any other way to round would do the same."""
    names = ", ".join(f"`{name}`" for name in found.blamed.names) or f"the level `{found.blamed.level}`"
    return (
        "The file amplifies rounding. ONNX Runtime agrees with the source when its graph optimisations are off, but "
        f"no node is wrong with them: {names} only rounds differently.{_amplified(found.place)} Other versions of "
        "onnxruntime and other processors round differently, too. Write that part so that it does not subtract large "
        "numbers that are nearly equal, or compute it in float64."
    )


def _amplified(place: Place) -> str:
    if not place.grows or not place.born or place.grows == place.born:
        return f" The error grows most at `{place.grows}`." if place.grows else ""
    return f" The error begins at `{place.born}` and grows most at `{place.grows}`."


def _which(found: Optimized) -> str:
    names = [f"`{name}`" for name in found.blamed.names]
    if not names:
        return f"It is wrong from the level `{found.blamed.level}` on."
    subject = f"the optimiser {names[0]}" if len(names) == 1 else f"the optimisers {', '.join(names)}"
    return f"With {subject} alone off (level `{found.blamed.level}`), the answers agree."


def _turn_off(found: Optimized) -> str:
    off = found.blamed.off
    if not found.blamed.names:
        return (
            f"Set `session: {{optimization: {off.optimization}}}` here and serve at that level, or try another "
            "version of onnxruntime."
        )
    listed = ", ".join(f'"{name}"' for name in found.blamed.names)
    entries = ", ".join(f"{name}: {_as_yaml(value)}" for name, value in off.config.items())
    return (
        f"Set `session: {{config: {{{entries}}}}}` here, and turn it off where you serve, in Python with "
        f"`disabled_optimizers=[{listed}]` of InferenceSession. Or try another version of onnxruntime."
    )


def advise_provider(worst: OutputDiff, place: Place | None) -> str:
    """Advice that names the nodes that a provider computes differently, and what to do about it."""
    start = (
        f"The CPU agrees with the source, {worst.provider} doesn't: the file is right and the provider's arithmetic "
        "differs."
    )
    return " ".join(text for text in (start, _where(place), _accept(worst)) if text)


def _where(place: Place | None) -> str:
    """A description of the wrong parts, each with its numbers."""
    if place is None:
        return ""
    told = [describe_fault(fault) for fault in place.faults[:_SHOWN]]
    more = len(place.faults) - _SHOWN
    if more > 0:
        told.append(f"{more} more {'place is' if more == 1 else 'places are'} wrong.")
    return " ".join(told)


def _accept(worst: OutputDiff) -> str:
    tolerance = worst.tolerance
    if tolerance is None or worst.max_abs is None or worst.nonfinite_mismatched:
        return (
            "Look at its precision options, or set a tolerance for it: "
            f"`providers: {{{worst.provider}: {{tolerance: …}}}}`."
        )
    rule = f"rtol: {tolerance.rtol:g}, atol: {round_up(1.5 * worst.max_abs):g}"
    return (
        "Look at its precision options, or keep that part on the CPU. If an error of up to "
        f"{number(worst.max_abs)} is good enough, set a tolerance for it: "
        f"`providers: {{{worst.provider}: {{tolerance: {{{rule}}}}}}}`."
    )
