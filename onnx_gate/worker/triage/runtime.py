"""Advice where the file is right, and the runtime computes something else: an optimiser, or a provider."""

from __future__ import annotations

from onnx_gate.records.diagnosis.place import Place
from onnx_gate.records.found import OutputDiff
from onnx_gate.wording.numbers import number
from onnx_gate.worker.place.runtime.find import Optimized
from onnx_gate.worker.triage.placed import describe_fault
from onnx_gate.worker.triage.precision import round_up

_MOST = 3


def advise_optimizer(worst: OutputDiff, plain: OutputDiff, found: Optimized | None) -> str:
    """Which optimiser it is, what it replaces, and how to turn it off."""
    left = f"{plain.mismatched:,} of {plain.total:,} elements instead of {worst.mismatched:,}"
    start = (
        f"ONNX Runtime {f'differs from the source in {left}' if plain.breaches else 'agrees with the source'} "
        "when its graph optimisations are off: an optimisation changes the answers."
    )
    if found is None:
        return f"{start} Try another version of onnxruntime, or serve with a lower optimisation level."
    return " ".join(text for text in (start, _which(found), _where(found.place), _turn_off(found)) if text)


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
    entries = ", ".join(f"{name}: {_quoted(value)}" for name, value in off.config.items())
    return (
        f"Set `session: {{config: {{{entries}}}}}` here, and turn it off where you serve, in Python with "
        f"`disabled_optimizers=[{listed}]` of InferenceSession. Or try another version of onnxruntime."
    )


def _quoted(value: str) -> str:
    """As YAML reads it back: names as they are, all else in quotes."""
    return value if value.isidentifier() else f"'{value}'"


def advise_provider(worst: OutputDiff, place: Place | None) -> str:
    """Which nodes of the graph a provider computes otherwise, and what can be done about it."""
    start = (
        f"The CPU agrees with the source, {worst.provider} doesn't: the file is right and the provider's arithmetic "
        "differs."
    )
    return " ".join(text for text in (start, _where(place), _accept(worst)) if text)


def _where(place: Place | None) -> str:
    """The parts that are wrong, each with its numbers."""
    if place is None:
        return ""
    told = [describe_fault(fault) for fault in place.faults[:_MOST]]
    more = len(place.faults) - _MOST
    if more > 0:
        told.append(f"{more} more places are wrong.")
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
