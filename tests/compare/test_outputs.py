"""One output: its form, its values, its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.worker.compare.outputs import OutputComparison

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)


def texts(diff: OutputDiff) -> tuple[str, ...]:
    """What a reader gets to know."""
    return tuple(breach.text for breach in diff.breaches)


def compare(reference, actual, rule=None, *, dtype=None, column=False, lenient=False) -> OutputDiff:
    reference, actual = np.asarray(reference), np.asarray(actual)
    comparison = OutputComparison(
        provider="cpu", case="batch=2", output="y", rule=rule or OutputRule(tolerance=TOLERANCE)
    )
    wanted = dtype or ("string" if reference.dtype.kind in "OU" else reference.dtype.name)
    comparison.add(Answer(value=reference, dtype=wanted, column=column), Actual(value=actual), lenient=lenient)
    return comparison.finish()


def floats(*values):
    return np.array(values, np.float32)


def test_equal_arrays_have_no_breach():
    """The plain case."""
    diff = compare(floats(1, 2), floats(1, 2))
    assert (diff.breaches, diff.total, diff.max_abs) == ((), 2, 0.0)


def test_a_breach_says_how_many_how_much_and_where():
    """The sentence names count, share, tolerance, both values and the index."""
    diff = compare(np.ones((2, 2), np.float32), np.array([[1, 1], [1, 1.5]], np.float32))
    assert texts(diff) == (
        "1 of 4 elements (25 %) are out of tolerance (rtol 0.001, atol 1e-5); the worst is 1.5 instead of 1 at [1, 1]",
    )
    assert diff.worst is not None
    assert (diff.worst.index, diff.worst.reference, diff.worst.actual) == ((1, 1), 1.0, 1.5)


@pytest.mark.parametrize(
    ("reference", "actual", "words"),
    [
        (np.zeros((2, 1), np.float32), np.zeros(2, np.float32), "the shape is (2,), expected (2, 1)"),
        (np.zeros((1, 3), np.float32), np.zeros((2, 3), np.float32), "the shape is (2, 3), expected (1, 3)"),
        (np.zeros(2, np.float32), np.zeros(2, np.float64), "the dtype is float64, expected float32"),
        (np.zeros(2, np.int64), np.zeros(2, np.int32), "the dtype is int32, expected int64"),
        (np.zeros(2, np.float32), np.zeros(2, np.int64), "the dtype is int64, expected float32"),
        (np.array(["a", "b"], object), np.zeros(2, np.int64), "the dtype is int64, expected string"),
    ],
)
def test_another_form_is_a_breach_of_contract(reference, actual, words):
    """Shapes don't broadcast and dtypes don't convert."""
    diff = compare(reference, actual)
    assert diff.contract
    assert words in diff.breaches[0].text


def test_a_float_of_another_width_is_let_through_only_where_that_is_allowed():
    """Beside a shipped .onnx the kind of dtype counts; another kind never passes."""
    assert not compare(np.ones(2), floats(1, 1), lenient=True).breaches
    assert compare(np.ones(2), np.ones(2, np.int64), lenient=True).contract


def test_a_single_target_may_be_a_column_or_a_row():
    """Regression answers (N,) where skl2onnx answers (N, 1)."""
    assert not compare(floats(1, 2), floats(1, 2).reshape(2, 1), column=True).breaches
    assert compare(floats(1, 2), floats(1, 2).reshape(1, 2), column=True).contract


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (OutputRule(limits={"max_abs": 0.05}), "max_abs is 0.1, at most 0.05"),
        (OutputRule(limits={"min_cosine": 0.999999}), "cosine is"),
        (OutputRule(limits={"min_snr_db": 60}), "snr_db is"),
        (OutputRule(limits={"min_top1": 1.0}), "top1 is 0.5, at least 1"),
    ],
)
def test_further_limits_add_to_the_tolerance(rule, words):
    """A tolerance that holds doesn't make up for a limit that doesn't."""
    generous = Tolerance(rtol=10.0, atol=10.0)
    reference = np.array([[1.0, 0.95], [0.5, 0.2]], np.float32)
    actual = np.array([[1.0, 1.05], [0.5, 0.2]], np.float32)
    diff = compare(reference, actual, replace(rule, tolerance=generous))
    assert len(diff.breaches) == 1
    assert words in diff.breaches[0].text


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("limit", ["min_cosine", "min_snr_db"])
def test_what_is_not_finite_meets_no_limit_on_the_whole(limit, wrong):
    """Where every element may be out of tolerance, the finite ones don't speak for the others."""
    reference, actual = floats(1, 2, 3, 4), floats(1, wrong, wrong, wrong)
    diff = compare(reference, actual, OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": 1.0, limit: 0.5}))
    assert len(diff.breaches) == 1
    assert limit.removeprefix("min_") in diff.breaches[0].text
    same = floats(1, wrong, 3, 4)
    assert not compare(same, same, OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": 1.0, limit: 0.5})).breaches


def test_a_nan_is_not_the_largest_of_its_row():
    """numpy says so; only where the reference has one too, it counts as the same."""
    rule = OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": 1.0, "min_top1": 1.0})
    sure, lost = floats(3, 1, 2).reshape(1, 3), np.full((1, 3), np.nan, np.float32)
    assert compare(sure, lost, rule).top1 == 0
    assert compare(lost, lost, rule).top1 == 1


def test_a_fraction_of_elements_may_be_out_of_tolerance():
    """max_mismatch: up to the fraction, not beyond."""
    reference = np.ones(10, np.float32)
    actual = reference.copy()
    actual[:2] = 5
    assert not compare(reference, actual, OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": 0.2})).breaches
    assert compare(reference, actual, OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": 0.1})).breaches


@pytest.mark.parametrize("share", [0.07, 0.29, 0.57, 0.58])
def test_a_share_that_is_met_exactly_is_met(share):
    """0.29 × 100 is a little less than 29 in floats."""
    reference = np.zeros(100, np.float32)
    actual = reference.copy()
    actual[: round(100 * share)] = 5
    assert not compare(reference, actual, OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": share})).breaches
    labels = actual.astype(np.int64)
    assert not compare(np.zeros(100, np.int64), labels, OutputRule(limits={"min_agreement": 1 - share})).breaches


def test_the_limits_that_were_set_are_told():
    """So that a report can name them."""
    rule = OutputRule(tolerance=TOLERANCE, limits={"max_mismatch": 0.5, "min_cosine": 0.9, "min_agreement": 0.7})
    assert compare(floats(1, 2), floats(1, 2), rule).limits == {"max_mismatch": 0.5, "min_cosine": 0.9}
    assert compare(np.array([1]), np.array([1]), rule).limits == {"min_agreement": 0.7}


@pytest.mark.parametrize(("keys", "ok"), [(("a", "b"), True), (("b", "a"), False), (("a", "c"), False), (None, True)])
def test_columns_stand_for_the_same_classes(keys, ok):
    """A ZipMap says what its columns are; the source knows what they must be."""
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=OutputRule(tolerance=TOLERANCE))
    matrix = np.ones((2, 2), np.float32)
    comparison.add(Answer(value=matrix, dtype="float32", columns=("a", "b")), Actual(value=matrix, columns=keys))
    assert (not comparison.finish().breaches) is ok


def test_labels_are_exact_whatever_the_tolerance():
    """An integer output isn't forgiven by rtol."""
    diff = compare(np.array([100, 200]), np.array([100, 201]), OutputRule(tolerance=Tolerance(rtol=1.0, atol=9.0)))
    assert texts(diff) == ("1 of 2 labels differ (50 %; all must agree); the first is 201 instead of 200 at [1]",)
    assert diff.tolerance is None


def test_min_agreement_lets_some_labels_differ():
    """And says how many may."""
    reference, actual = np.array([0, 1, 2, 3]), np.array([0, 1, 2, 0])
    assert not compare(reference, actual, OutputRule(limits={"min_agreement": 0.75})).breaches
    assert compare(reference, actual, OutputRule(limits={"min_agreement": 0.8})).breaches


def test_the_confusion_matrix_counts_every_pair():
    """Few classes: the whole matrix, with what agrees."""
    diff = compare(np.array(list("aabbb"), object), np.array(list("abbbc"), object))
    counts = {(pair.reference, pair.actual): pair.count for pair in diff.confusion}
    assert counts == {("a", "a"): 1, ("a", "b"): 1, ("b", "b"): 2, ("b", "c"): 1}


def test_many_classes_keep_the_commonest_confusions_only():
    """A thousand token ids don't make a thousand by thousand table."""
    reference = np.arange(1000)
    diff = compare(reference, reference + 1)
    assert len(diff.confusion) == 20
    assert all(pair.reference != pair.actual for pair in diff.confusion)


def test_agreeing_labels_have_no_confusion():
    """Nothing to tell."""
    assert compare(np.array([1, 2]), np.array([1, 2])).confusion == ()


def test_booleans_and_strings_are_labels():
    """All kinds but floats are compared exactly."""
    assert compare(np.array([True, False]), np.array([True, True])).mismatched == 1
    assert compare(np.array(["é", "b"], object), np.array(["e", "b"], object)).mismatched == 1


def test_complex_numbers_keep_both_of_their_parts():
    """ONNX Runtime has none yet; whole numbers made of them would agree."""
    assert compare(np.array([1 + 2j], np.complex64), np.array([1 + 9j], np.complex64)).breaches


def test_rows_are_numbered_as_in_the_data():
    """The worst index counts from the first row of the data, over all calls."""
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=OutputRule(tolerance=TOLERANCE))
    good = np.ones((4, 2), np.float32)
    bad = good.copy()
    bad[2, 1] = 7
    for first_row, actual in ((0, good), (4, bad)):
        comparison.add(Answer(value=good, dtype="float32"), Actual(value=actual), first_row=first_row, rows=4)
    diff = comparison.finish()
    assert diff.worst is not None
    assert (diff.worst.index, diff.shape, diff.total) == ((6, 1), (8, 2), 16)


def test_an_output_without_rows_keeps_its_own_index():
    """A scalar or a table that doesn't grow with the batch isn't numbered by the data's rows."""
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=OutputRule(tolerance=TOLERANCE))
    for first_row in (0, 4):
        comparison.add(
            Answer(value=floats(1, 2), dtype="float32"), Actual(value=floats(1, 9)), first_row=first_row, rows=4
        )
    diff = comparison.finish()
    assert diff.worst is not None
    assert (diff.worst.index, diff.shape, diff.total) == ((1,), (2,), 4)


def test_what_is_not_finite_is_told_as_text():
    """results.json holds no NaN."""
    diff = compare(floats(1, 2), floats(1, np.nan))
    assert diff.worst is not None
    assert (diff.worst.actual, diff.nonfinite_mismatched) == ("NaN", 1)


def test_nothing_compared_is_a_breach():
    """A comparison that was never fed doesn't come out clean."""
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=OutputRule(tolerance=TOLERANCE))
    assert texts(comparison.finish()) == ("nothing was compared",)
    assert comparison.finish().contract
