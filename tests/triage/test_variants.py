"""Why a variant diverged: each advice for what was asked and answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from onnx_gate.records.asked import Tolerance, VariantSpec
from onnx_gate.records.badness import badness
from onnx_gate.records.found import OutputDiff, Overflow, Triage
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.worker.triage.variants import VariantEvidence, find_variant_cause
from tests.golden.records import breaches_of

NOISY: dict[str, Any] = {
    "breaches": breaches_of(BreachKind.LIMIT, "snr_db is 9.8, at least 15 is required"),
}


def diff(**given: Any) -> OutputDiff:
    """A comparison that misses its limit."""
    fields: dict[str, Any] = {"total": 100, "snr_db": 9.8, "limits": {"min_snr_db": 15.0}, **NOISY}
    return OutputDiff(provider="cpu", case="batch=7", output="y", **(fields | given))


def cause_of(
    kind: Literal["fp16", "int8-dynamic", "int8-static"],
    worst: OutputDiff,
    wide: OutputDiff | None = None,
    *,
    vnni: bool = True,
    as_floats: bool = False,
    overflow: Overflow | None = None,
    **options: Any,
) -> Triage | None:
    """What triage makes of it; in float32 all is well unless said otherwise."""
    evidence = VariantEvidence(
        variant=VariantSpec(kind=kind, options=options),
        diffs=(diff(breaches=()), worst),
        exact_int8=vnni,
        in_float32=lambda _: wide or diff(breaches=(), snr_db=120.0),
        unoptimized=lambda _: diff(breaches=()) if as_floats else worst,
        overflows=lambda _: overflow,
    )
    return find_variant_cause(evidence)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "fp16"}, "`exclude_ops: [Softmax, ReduceMean]` in `fp16`"),
        ({"kind": "fp16", "exclude_ops": ("Exp",)}, "`exclude_ops: [Exp, Softmax, ReduceMean]` in `fp16`"),
        ({"kind": "int8-dynamic", "vnni": False}, "so that products may saturate: `reduce_range: true` may help"),
        ({"kind": "int8-dynamic"}, "Try `per_channel: true` or `exclude_nodes: […]`"),
        ({"kind": "int8-dynamic", "per_channel": True}, "Try `exclude_nodes: […]`"),
        ({"kind": "int8-static"}, "calibration `data` like what the model will see, `calibrate: entropy` or"),
        (
            {"kind": "int8-static", "vnni": False},
            "no VNNI, so that products may saturate: `reduce_range: true` may help",
        ),
        (
            {"kind": "int8-static", "vnni": False, "as_floats": True},
            "Computed with floats, the variant is within its limits",
        ),
        ({"kind": "int8-static", "vnni": False, "reduce_range": True}, "Try `per_channel: true`"),
    ],
)
def test_advice_names_what_is_left_to_try(given, words):
    """With what was reached, and limits to paste for those whom it is good enough."""
    found = cause_of(worst=diff(), **given)
    assert found is not None
    assert found.cause is Cause.PRECISION
    assert words in found.advice
    assert "(`y`, batch=7: snr_db is 9.8, at least 15 is required)" in found.advice
    assert "set `min_snr_db: 9` in the variant's options" in found.advice


def test_an_overflow_names_node_and_operator():
    """Both ways to keep it in float32."""
    found = cause_of("fp16", diff(nonfinite_mismatched=3, snr_db=None), overflow=Overflow(node="/net/Exp", op="Exp"))
    assert found is not None
    assert "first at /net/Exp (Exp)" in found.advice
    assert "`exclude_ops: [Exp]` or `exclude_nodes: [/net/Exp]` in `fp16`" in found.advice


def test_labels_tell_their_agreement():
    """There is no noise in labels."""
    labels = {
        "snr_db": None,
        "limits": {"min_agreement": 0.95},
        "breaches": breaches_of(BreachKind.LABELS, "20 of 100"),
    }
    found = cause_of("int8-dynamic", diff(mismatched=20, **labels), diff(**labels | {"breaches": ()}))
    assert found is not None
    assert "20 of 100 labels differ, 0.95 must agree" in found.advice


@pytest.mark.parametrize(
    ("worst", "wide"),
    [
        (diff(), diff(snr_db=10.0)),
        (diff(snr_db=None, mismatched=20), diff(snr_db=None, mismatched=19)),
        (diff(breaches=breaches_of(BreachKind.SHAPE, "the shape is (1,), expected (2,)")), None),
    ],
)
def test_precision_is_not_blamed_for_what_float32_gets_wrong_too(worst, wide):
    """Nor for names, dtypes and shapes: the other causes are asked."""
    assert cause_of("fp16", worst, wide) is None


def test_a_tight_limit_that_float32_misses_by_far_less_is_precision():
    """Ten times nearer to the source, and still beyond what was asked for."""
    found = cause_of("fp16", diff(), diff(snr_db=100.0))
    assert found is not None
    assert "far nearer to the source" in found.advice


def test_only_the_limits_that_are_broken_are_told():
    """A tolerance with how many elements are beyond it; the noise is fine, and lowering its limit would not help."""
    tight = Tolerance(rtol=1e-3, atol=1e-4)
    given = {
        "snr_db": 23.01,
        "mismatched": 12,
        "tolerance": tight,
        "breaches": breaches_of(BreachKind.ELEMENTS, "12 of 100"),
    }
    found = cause_of("int8-dynamic", diff(**given))
    assert found is not None
    assert "(`y`, batch=7: 12 of 100 elements are out of rtol 0.001, atol 0.0001)" in found.advice
    assert "snr_db" not in found.advice


def test_the_worst_case_is_the_one_furthest_below_the_limit():
    """Not the one with the largest difference: the report shows the same one."""
    loud, noisy = diff(snr_db=14.0, max_abs=5.0), diff(snr_db=9.8, max_abs=0.1)
    assert max((loud, noisy), key=badness) is noisy
    assert max((replace(loud, limits={}), replace(noisy, limits={})), key=badness).max_abs == 5.0
