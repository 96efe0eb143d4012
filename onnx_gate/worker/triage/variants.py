"""Finds why a variant diverged: lower precision, unless the model in float32 is wrong as well."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_gate.machine import has_vnni
from onnx_gate.records.asked import VariantSpec
from onnx_gate.records.badness import worst_first
from onnx_gate.records.found import OutputDiff, Overflow, Triage
from onnx_gate.records.limits import LIMITS, Limit
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.triage.causes import Evidence
from onnx_gate.worker.triage.rounding import CPU
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import run_case

_MUCH_DB = 20.0


@dataclass(frozen=True, kw_only=True)
class VariantEvidence:
    """The facts about a variant, and the questions that may be asked."""

    variant: VariantSpec
    """How the variant was made."""
    diffs: tuple[OutputDiff, ...]
    """Every comparison of the variant."""
    exact_int8: bool
    """Whether the CPU multiplies bytes without saturation."""
    in_float32: Callable[[OutputDiff], OutputDiff | None]
    """The same comparison for the model that the variant was made from; None if that fails."""
    unoptimized: Callable[[OutputDiff], OutputDiff | None]
    """The same comparison with int8 values computed as floats; None if that fails."""
    overflows: Callable[[OutputDiff], Overflow | None]
    """The first node that outputs NaN or Inf, if any."""


def find_variant_cause(evidence: VariantEvidence) -> Triage | None:
    """Precision as the cause, with advice; None if something else is wrong with the model."""
    compared = [diff for diff in evidence.diffs if diff.breaches and not diff.contract]
    if not compared or any(diff.breaches and diff.contract for diff in evidence.diffs):
        return None
    # The report shows the same comparison.
    worst = worst_first(compared)[0]
    wide = evidence.in_float32(worst)
    if wide is None or not _nearer(wide, worst):
        return None
    advice = _half_advice(evidence, worst) if evidence.variant.kind == "fp16" else _int8_advice(evidence, worst)
    told = f"In float32 the model {'is within its limits' if not wide.breaches else 'is far nearer to the source'}"
    told += f", in {evidence.variant.kind} it is not" if not wide.breaches else ""
    return Triage(cause=Cause.PRECISION, advice=f"{told}{_reached(worst)}. {advice} {_accept(compared, worst)}".strip())


def _nearer(wide: OutputDiff, lowered: OutputDiff) -> bool:
    """Whether precision makes the difference: the limits hold in float32, or float32 has far less noise."""
    if not wide.breaches:
        return True
    if wide.snr_db is not None and lowered.snr_db is not None:
        return wide.snr_db >= lowered.snr_db + _MUCH_DB
    return wide.mismatched * 2 <= lowered.mismatched and not wide.contract


def _half_advice(evidence: VariantEvidence, worst: OutputDiff) -> str:
    if worst.nonfinite_mismatched:
        found = evidence.overflows(worst)
        if not found:
            return "It answers NaN or Inf: look for numbers beyond 65,504, and keep these operators in float32."
        ops, nodes = _with(evidence, "exclude_ops", found.op), _with(evidence, "exclude_nodes", found.node)
        return (
            f"Its numbers go beyond 65,504, the largest of float16, first at {found.node} ({found.op}): keep that in "
            f"float32, with {ops} or {nodes} in `fp16`."
        )
    return (
        "Keep the operators that add or divide most in float32, with "
        f"{_with(evidence, 'exclude_ops', 'Softmax', 'ReduceMean')} in `fp16`, or scale the inputs: float16 has three "
        "digits."
    )


def _with(evidence: VariantEvidence, option: str, *names: str) -> str:
    """A list option to paste, with the names that it already has."""
    given = evidence.variant.options.get(option) or ()
    return f"`{option}: [{', '.join(dict.fromkeys((*given, *names)))}]`"


def _holds_as_floats(evidence: VariantEvidence, worst: OutputDiff) -> bool:
    plain = evidence.unoptimized(worst)
    return plain is not None and not plain.breaches


def _int8_advice(evidence: VariantEvidence, worst: OutputDiff) -> str:
    options, kind = evidence.variant.options, evidence.variant.kind
    saturates = not evidence.exact_int8 and not options.get("reduce_range")
    if saturates and kind == "int8-static" and worst.provider == "cpu" and _holds_as_floats(evidence, worst):
        return (
            "Computed with floats, the variant is within its limits. This CPU has no VNNI, so its int8 products "
            f"saturate. Add `reduce_range: true` to `{kind}`."
        )
    tries = [] if options.get("per_channel") else ["`per_channel: true`"]
    if kind == "int8-static":
        tries.append("calibration `data` like what the model will see" if not evidence.variant.data else "more `data`")
        tries += [] if options.get("calibrate", "minmax") != "minmax" else ["`calibrate: entropy`"]
    tries.append("`exclude_nodes: […]` for the first and the last layer")
    told = f"Try {', '.join(tries[:-1])} or {tries[-1]}." if len(tries) > 1 else f"Try {tries[0]}."
    if saturates:
        told += " This CPU has no VNNI, so that products may saturate: `reduce_range: true` may help."
    return told


def _reached(worst: OutputDiff) -> str:
    """The limits that don't hold, worded as in the report."""
    told = []
    if len(worst.breaches) > len(worst.limit_breaches):
        count = f"{worst.mismatched} of {worst.total}"
        if worst.tolerance is None:
            told.append(f"{count} labels differ, {worst.limits.get('min_agreement', 1):g} must agree")
        else:
            allowed = f"rtol {number(worst.tolerance.rtol)}, atol {number(worst.tolerance.atol)}"
            share = worst.limits.get("max_mismatch")
            more = f", {share:g} of them may be" if share else ""
            told.append(f"{count} elements are out of {allowed}{more}")
    told += [breach.text for breach in worst.limit_breaches]
    return f" (`{worst.output}`, {worst.case}: {'; '.join(told)})" if told else ""


def _accept(compared: list[OutputDiff], worst: OutputDiff) -> str:
    """A limit to paste, for users who accept the result; empty if that limit would not make the model pass."""
    for limit in (limit for limit in LIMITS.values() if limit.noise):
        got = getattr(worst, limit.metric)
        if all(len(diff.breaches) == 1 and _is_missed(limit, diff) for diff in compared) and got >= 1:
            return f"If that is good enough, set `{limit.name}: {int(got)}` in the variant's options."
    return ""


def _is_missed(limit: Limit, diff: OutputDiff) -> bool:
    got = getattr(diff, limit.metric)
    return got is not None and bool(got < diff.limits.get(limit.name, -math.inf))


# ── Facts about a variant ───────────────────────────────────────────────────────────────────────────────


def without_variant(prepared: Prepared) -> Prepared:
    """The model that a variant was made from; a model that is not a variant is returned unchanged."""
    if prepared.base is None:
        return prepared
    spec = replace(prepared.spec, variant=None)
    return replace(prepared, onnx=prepared.base, base=None, spec=spec, halves=frozenset())


def gather_variant_evidence(
    prepared: Prepared, diffs: list[OutputDiff], evidence: Evidence, read_log: Callable[[], str]
) -> VariantEvidence | None:
    """The facts about a variant; None if the model is not a variant."""
    spec, base = prepared.spec, prepared.base
    if spec.variant is None or base is None:
        return None
    cases = {case.name: case for case in prepared.cases}

    def in_float32(diff: OutputDiff) -> OutputDiff | None:
        provider = next((given for given in spec.providers if given.name == diff.provider), CPU)
        rules = {diff.output: rule_for(spec, provider, diff.output)}
        session = open_session(base, CPU, read_log, custom_ops=spec.ort_custom_ops)
        found = run_case(without_variant(prepared), session, cases[diff.case], "cpu", rules)
        return next((again for again in found if isinstance(again, OutputDiff)), None)

    def overflows(diff: OutputDiff) -> Overflow | None:
        from onnx_gate.worker.variants.half import first_overflow

        call = next(cases[diff.case].calls())
        return first_overflow(Path(base), Path(prepared.onnx), call.feed, prepared.fed(call))

    return VariantEvidence(
        variant=spec.variant,
        diffs=tuple(diffs),
        exact_int8=has_vnni(),
        in_float32=in_float32,
        unoptimized=evidence.ask.unoptimized,
        overflows=overflows,
    )
