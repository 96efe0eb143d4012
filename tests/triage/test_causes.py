"""From the numbers of a divergence to its cause."""

from __future__ import annotations

import pytest

from onnx_gate.records import Cause, OutputDiff, Tolerance
from onnx_gate.triage.causes import Evidence, find_cause

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)


def diff(case: str = "batch=2", provider: str = "cpu", *, wrong: bool = True, **keys) -> OutputDiff:
    fields = {"total": 10, "mismatched": 5, "max_abs": 0.3, "snr_db": 20.0, "tolerance": TOLERANCE, **keys}
    breaches = ("it differs",) if wrong else ()
    return OutputDiff(provider=provider, case=case, output="y", breaches=breaches, **fields)


def cause(
    *diffs: OutputDiff, shown=None, optimizer=False, repeats=True, shipped=False, recorded=False, order=None
) -> Cause:
    evidence = Evidence(
        diffs=diffs,
        shown=shown,
        sizes={f"batch={size}": {"batch": size} for size in (1, 2, 7)},
        shipped=shipped,
        recorded=recorded,
        agrees_unoptimized=lambda _: optimizer,
        repeats_itself=lambda _: repeats,
        order=lambda _: order,
    )
    found = find_cause(evidence)
    assert found.advice.endswith(".")
    return found.cause


def test_what_nothing_else_explains_is_the_conversion():
    """The source and the file disagree, with optimisations on or off."""
    assert cause(diff()) is Cause.CONVERSION
    assert cause(diff(), shipped=True) is Cause.CONVERSION
    assert cause(diff(), shipped=True, recorded=True) is Cause.CONVERSION


def test_the_optimiser_is_told_by_turning_it_off():
    """Without it the answers agree."""
    assert cause(diff(), optimizer=True) is Cause.OPTIMIZER


def test_a_source_that_disagrees_with_itself_is_nondeterministic():
    """Before anything else is blamed."""
    assert cause(diff(), repeats=False, optimizer=True) is Cause.NONDETERMINISTIC


def test_a_provider_is_to_blame_where_the_cpu_is_right():
    """And only then."""
    assert cause(diff(wrong=False), diff(provider="cuda")) is Cause.PROVIDER
    assert cause(diff(), diff(provider="cuda")) is Cause.CONVERSION


def test_form_alone_is_a_matter_of_contract():
    """Names, dtypes, shapes."""
    assert cause(diff(contract=True), diff(contract=True, case="batch=1")) is Cause.CONTRACT


@pytest.mark.parametrize("refused", ["batch=1", "batch=7"])
def test_a_feed_that_is_refused_at_some_sizes_is_a_baked_batch(refused):
    """Right at the others."""
    assert cause(diff(refused, contract=True), diff(wrong=False)) is Cause.BATCH_BAKED


def test_wrong_only_at_batch_one_is_a_baked_batch():
    """`if x.shape[0] == 1` in forward()."""
    assert cause(diff("batch=1"), diff(wrong=False), diff("batch=7", wrong=False)) is Cause.BATCH_BAKED


def test_right_at_one_batch_only_is_a_baked_batch():
    """A factor that was computed from the example's own batch."""
    assert cause(diff("batch=1"), diff(wrong=False), diff("batch=7")) is Cause.BATCH_BAKED


def test_wrong_at_a_larger_batch_only_is_not_enough_to_blame_the_batch():
    """More rows find more faults."""
    assert cause(diff("batch=7"), diff(wrong=False)) is Cause.CONVERSION


@pytest.mark.parametrize("shown", [Cause.TRAIN_MODE, Cause.BATCH_BAKED])
def test_what_the_file_shows_needs_no_numbers(shown):
    """A baked-in dimension, nodes in training mode."""
    assert cause(diff(contract=True), shown=shown) is shown


def test_nan_on_one_side_is_named():
    """With where to look."""
    assert cause(diff(nonfinite_mismatched=1, max_abs=float("nan"))) is Cause.NAN


@pytest.mark.parametrize("order", [Cause.LABEL_ORDER, Cause.OUTPUT_ORDER])
def test_right_answers_in_the_wrong_order_are_told_as_that(order):
    """Before the conversion is blamed for them."""
    assert cause(diff(), order=order) is order


def test_noise_far_below_the_signal_is_a_matter_of_tolerance():
    """With a line to paste."""
    noise = diff(snr_db=120.0, max_abs=3.2e-5)
    assert cause(noise) is Cause.TOLERANCE
    evidence = Evidence(
        diffs=(noise,),
        shown=None,
        sizes={},
        shipped=False,
        recorded=False,
        agrees_unoptimized=lambda _: False,
        repeats_itself=lambda _: True,
        order=lambda _: None,
    )
    assert "outputs: {y: {rtol: 0.001, atol: 7e-05}}" in find_cause(evidence).advice
