"""Why a variant diverged: each advice for what was asked and answered."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_gate.records import Cause, OutputDiff, Triage, VariantSpec
from onnx_gate.triage.variants import VariantEvidence, find_variant_cause


def diff(**given: Any) -> OutputDiff:
    """A comparison that misses its limit."""
    fields: dict[str, Any] = {"total": 100, "snr_db": 9.8, "limits": {"min_snr_db": 15.0}, "breaches": ("too noisy",)}
    return OutputDiff(provider="cpu", case="batch=7", output="y", **(fields | given))


def cause_of(
    kind: str,
    worst: OutputDiff,
    wide: OutputDiff | None = None,
    *,
    vnni: bool = True,
    as_floats: bool = False,
    overflow: str = "",
    **options: Any,
) -> Triage | None:
    """What triage makes of it; in float32 all is well unless said otherwise."""
    evidence = VariantEvidence(
        variant=VariantSpec(kind=kind, options=options),
        diffs=(diff(breaches=()), worst),
        exact_int8=vnni,
        in_float32=lambda _: wide or diff(breaches=(), snr_db=120.0),
        agrees_unoptimized=lambda _: as_floats,
        overflows=lambda _: overflow,
    )
    return find_variant_cause(evidence)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "fp16"}, "`fp16: {exclude_ops: [Softmax, ReduceMean]}`"),
        ({"kind": "int8-dynamic"}, "Try `per_channel: true` or `exclude_nodes: […]`"),
        ({"kind": "int8-dynamic", "per_channel": True}, "Try `exclude_nodes: […]`"),
        ({"kind": "int8-static"}, "calibration `data` like what the model will see, `calibrate: entropy` or"),
        (
            {"kind": "int8-static", "vnni": False},
            "no VNNI, so products saturate. Set `int8-static: {reduce_range: true}`",
        ),
        ({"kind": "int8-static", "vnni": False, "as_floats": True}, "computed with floats it holds them"),
        ({"kind": "int8-static", "vnni": False, "reduce_range": True}, "Try `per_channel: true`"),
    ],
)
def test_advice_names_what_is_left_to_try(given, words):
    """With what was reached, and limits to paste for those whom it is good enough."""
    found = cause_of(worst=diff(), **given)
    assert found.cause is Cause.PRECISION
    assert words in found.advice
    assert "(snr_db 9.8, 15 is asked for)" in found.advice
    assert f"paste `{given['kind']}: {{min_snr_db: 9}}`" in found.advice


def test_an_overflow_names_node_and_operator():
    """Both ways to keep it in float32."""
    found = cause_of("fp16", diff(nonfinite_mismatched=3, snr_db=None), overflow="/net/Exp (Exp)")
    assert "first at /net/Exp (Exp)" in found.advice
    assert "`fp16: {exclude_ops: [Exp]}` or `exclude_nodes: [/net/Exp]`" in found.advice


def test_labels_tell_their_agreement():
    """There is no noise in labels."""
    labels = {"snr_db": None, "limits": {"min_agreement": 0.95}}
    found = cause_of("int8-dynamic", diff(mismatched=20, **labels), diff(breaches=(), **labels))
    assert "0.8 of the labels agree, 0.95" in found.advice


@pytest.mark.parametrize(
    ("worst", "wide"),
    [
        (diff(), diff(snr_db=10.0)),
        (diff(snr_db=None, mismatched=20), diff(snr_db=None, mismatched=19)),
        (diff(contract=True), None),
    ],
)
def test_precision_is_not_blamed_for_what_float32_gets_wrong_too(worst, wide):
    """Nor for names, dtypes and shapes: the other causes are asked."""
    assert cause_of("fp16", worst, wide) is None


def test_a_tight_limit_that_float32_misses_by_far_less_is_precision():
    """Ten times nearer to the source, and still beyond what was asked for."""
    assert "far nearer to the source" in cause_of("fp16", diff(), diff(snr_db=100.0)).advice
