"""Second opinions on a variant that diverged: the model that it was made of, and its own inner values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from onnx_gate.machine import has_vnni
from onnx_gate.records.found import OutputDiff, Overflow
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.triage.causes import Evidence
from onnx_gate.worker.triage.rounding import CPU
from onnx_gate.worker.triage.variants import VariantEvidence
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import run_case


def without_variant(prepared: Prepared) -> Prepared:
    """The model that a variant was made of, in its place; any other as it is."""
    if prepared.base is None:
        return prepared
    spec = replace(prepared.spec, variant=None)
    return replace(prepared, onnx=prepared.base, base=None, spec=spec, halves=frozenset())


def gather_variant_evidence(
    prepared: Prepared, diffs: list[OutputDiff], evidence: Evidence, read_log: Callable[[], str]
) -> VariantEvidence | None:
    """What is known of a variant; None where the model is none."""
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
