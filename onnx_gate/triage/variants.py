"""Why a variant diverged: lower precision, unless the model in float32 is wrong as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_gate.records import Cause, OutputDiff, Triage, VariantSpec

_MUCH_DB = 20.0
_METRICS = {"min_snr_db": "snr_db", "min_cosine": "cosine", "min_top1": "top1", "max_abs": "max_abs"}


@dataclass(frozen=True, kw_only=True)
class VariantEvidence:
    """What is known of a variant, and the questions that may be asked."""

    variant: VariantSpec
    """How it was made."""
    diffs: tuple[OutputDiff, ...]
    """Every comparison of it."""
    exact_int8: bool
    """The CPU multiplies bytes without saturating."""
    in_float32: Callable[[OutputDiff], OutputDiff | None]
    """The same comparison of the model that it was made of; None where that fails."""
    agrees_unoptimized: Callable[[OutputDiff], bool]
    """Whether it agrees where its bytes are computed with as floats."""
    overflows: Callable[[OutputDiff], str]
    """The first node that answers NaN or Inf; empty where none does."""


def find_variant_cause(evidence: VariantEvidence) -> Triage | None:
    """Precision, with what to do about it; None where something else is wrong with the model."""
    compared = [diff for diff in evidence.diffs if diff.breaches and not diff.contract]
    if not compared or any(diff.breaches and diff.contract for diff in evidence.diffs):
        return None
    worst = min(compared, key=lambda diff: diff.snr_db if diff.snr_db is not None else 0.0)
    wide = evidence.in_float32(worst)
    if wide is None or not _nearer(wide, worst):
        return None
    advice = _half_advice(evidence, worst) if evidence.variant.kind == "fp16" else _int8_advice(evidence, worst)
    told = f"In float32 the model {'holds these limits' if not wide.breaches else 'is far nearer to the source'}"
    told += f", in {evidence.variant.kind} it doesn't" if not wide.breaches else ""
    return Triage(cause=Cause.PRECISION, advice=f"{told}{_reached(worst)}. {advice} {_accept(evidence, worst)}".strip())


def _nearer(wide: OutputDiff, lowered: OutputDiff) -> bool:
    """Whether precision makes the difference: the limits hold in float32, or it has a tenth of the noise."""
    if not wide.breaches:
        return True
    if wide.snr_db is not None and lowered.snr_db is not None:
        return wide.snr_db >= lowered.snr_db + _MUCH_DB
    return wide.mismatched * 2 <= lowered.mismatched and not wide.contract


def _half_advice(evidence: VariantEvidence, worst: OutputDiff) -> str:
    if worst.nonfinite_mismatched:
        where = evidence.overflows(worst)
        if not where:
            return "It answers NaN or Inf: look for numbers beyond 65,504, and keep these operators in float32."
        node, _, op = where.rpartition(" (")
        return (
            f"Its numbers go beyond 65,504, the largest of float16, first at {where}: keep that in float32, "
            f"`fp16: {{exclude_ops: [{op.rstrip(')')}]}}` or `exclude_nodes: [{node}]`."
        )
    return (
        "Keep the operators that add or divide most in float32: `fp16: {exclude_ops: [Softmax, ReduceMean]}`, "
        "or scale the inputs: float16 has three digits."
    )


def _int8_advice(evidence: VariantEvidence, worst: OutputDiff) -> str:
    options, kind = evidence.variant.options, evidence.variant.kind
    if not evidence.exact_int8 and not options.get("reduce_range"):
        saturates = kind == "int8-static" and worst.provider == "cpu" and evidence.agrees_unoptimized(worst)
        sure = "and computed with floats it holds them: the products saturate" if saturates else "so products saturate"
        return f"This CPU has no VNNI, {sure}. Set `{kind}: {{reduce_range: true}}`."
    tries = [] if options.get("per_channel") else ["`per_channel: true`"]
    if kind == "int8-static":
        tries.append("calibration `data` like what the model will see" if not evidence.variant.data else "more `data`")
        tries += [] if options.get("calibrate", "minmax") != "minmax" else ["`calibrate: entropy`"]
    tries.append("`exclude_nodes: […]` for the first and the last layer")
    return f"Try {', '.join(tries[:-1])} or {tries[-1]}." if len(tries) > 1 else f"Try {tries[0]}."


def _reached(worst: OutputDiff) -> str:
    """What came out, for the limits that there are."""
    told = [
        f"{name.partition('_')[2]} {value:.4g}, {limit:g} is asked for"
        for name, limit in worst.limits.items()
        if (value := getattr(worst, _METRICS.get(name, ""), None)) is not None
    ]
    if "min_agreement" in worst.limits and worst.total:
        told.append(f"{1 - worst.mismatched / worst.total:.4g} of the labels agree, {worst.limits['min_agreement']:g}")
    return f" ({'; '.join(told)})" if told else ""


def _accept(evidence: VariantEvidence, worst: OutputDiff) -> str:
    """Limits to paste, for those whom it is good enough."""
    if worst.snr_db is not None and worst.snr_db < worst.limits.get("min_snr_db", -1.0) and worst.snr_db >= 1:
        return f"If that is good enough, paste `{evidence.variant.kind}: {{min_snr_db: {int(worst.snr_db)}}}`."
    return ""
