"""Sequences and optional values: their structure is part of the contract, their elements are compared as one output."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.worker.compare.outputs import OutputComparison

RULE = OutputRule(tolerance=Tolerance(rtol=1e-3, atol=1e-5))


def floats(*values):
    return np.array(values, np.float32)


def texts(diff: OutputDiff) -> tuple[str, ...]:
    """What a reader gets to know."""
    return tuple(breach.text for breach in diff.breaches)


def compare(reference, *actuals, dtype="float32", column=False, rows=None) -> OutputDiff:
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=RULE)
    for number, actual in enumerate(actuals):
        answer = Answer(value=reference, dtype=dtype, column=column)
        comparison.add(answer, Actual(value=actual), first_row=number * (rows or 0), rows=rows)
    return comparison.finish()


def test_a_sequence_adds_up():
    """One result for all of its elements."""
    diff = compare([floats(1, 2), floats(3)], [floats(1, 2), floats(3)])
    assert (diff.breaches, diff.total, diff.dtype, diff.shape) == ((), 3, "sequence of float32", (2,))


def test_the_worst_index_says_which_element_of_the_sequence():
    """Then where in it."""
    diff = compare([floats(1, 2), floats(3, 4)], [floats(1, 2), floats(3, 9)])
    assert diff.worst is not None
    assert (diff.worst.index, diff.mismatched, diff.shape) == ((1, 1), 1, (2, 2))


def test_rows_of_a_sequence_are_numbered_as_in_the_data():
    """A list of matrices, one a target, over two calls."""
    good = [np.ones((4, 2), np.float32)] * 3
    bad = [*good[:2], np.array([[1, 1], [1, 1], [1, 7], [1, 1]], np.float32)]
    diff = compare(good, good, bad, rows=4)
    assert diff.worst is not None
    assert (diff.worst.index, diff.shape, diff.total) == ((2, 6, 1), (3, 8, 2), 48)


def test_a_list_may_come_as_one_tensor():
    """scikit-learn's list of matrices is (k, N, c) in ONNX."""
    reference = [np.ones((2, 3)), np.zeros((2, 3))]
    assert not compare(reference, np.stack(reference).astype(np.float32)).breaches
    assert texts(compare(reference, np.ones((3, 2, 3), np.float32))) == (
        "the sequence has 3 elements, expected 2 elements",
    )


@pytest.mark.parametrize(
    ("reference", "actual", "words"),
    [
        ([floats(1)], [], "the sequence has 0 elements, expected 1 element"),
        ([floats(1)], None, "it is no value, expected a sequence of 1 element"),
        (None, floats(1), "it is a tensor of float32 (1,), expected no value"),
        (floats(1), None, "it is no value, expected a tensor of float32 (1,)"),
        (floats(1), [floats(1)], "it is a sequence of 1 element, expected a tensor of float32 (1,)"),
        (
            [floats(1), floats(2, 3)],
            [floats(1), floats(2)],
            "element 1 of the sequence: the shape is (1,), expected (2,)",
        ),
        ([floats(1)], [np.ones(1)], "element 0 of the sequence: the dtype is float64, expected float32"),
    ],
)
def test_another_structure_is_a_breach_of_contract(reference, actual, words):
    """Length, presence and kind of value."""
    diff = compare(reference, actual)
    assert diff.contract
    assert words in texts(diff)


@pytest.mark.parametrize(("value", "dtype", "shape"), [([], "sequence", (0,)), (None, "nothing", ())])
def test_nothing_on_both_sides_is_no_breach(value, dtype, shape):
    """An empty sequence, a value that isn't there: no element was compared, and the verdict knows."""
    diff = compare(value, value, dtype="")
    assert (diff.breaches, diff.total, diff.dtype, diff.shape) == ((), 0, dtype, shape)


def test_no_maps_stand_for_no_rows():
    """A ZipMap of an empty batch is an empty list."""
    assert not compare(np.empty((0, 3), np.float32), []).breaches


@pytest.mark.parametrize(
    ("dtype", "shown"),
    [
        (ml_dtypes.bfloat16, "bfloat16"),
        (ml_dtypes.float8_e4m3fn, "float8e4m3fn"),
        (ml_dtypes.float8_e5m2fnuz, "float8e5m2fnuz"),
        (ml_dtypes.float8_e8m0fnu, "float8e8m0"),
        (ml_dtypes.float4_e2m1fn, "float4e2m1"),
        (ml_dtypes.int4, "int4"),
        (ml_dtypes.uint4, "uint4"),
        (ml_dtypes.int2, "int2"),
    ],
)
def test_types_that_numpy_has_not_got_are_compared_as_what_they_are(dtype, shown):
    """Under ONNX's names: small floats have a tolerance, small integers are labels."""
    reference = np.array([1, 1, 0.5 if "float" in shown else 0]).astype(dtype)
    actual = np.array([1, 1, 1]).astype(dtype)
    same, off = (compare(reference, value, dtype=np.dtype(dtype).name) for value in (reference, actual))
    assert (same.breaches, same.total, same.dtype) == ((), 3, shown)
    assert off.worst is not None
    assert (off.mismatched, off.worst.index) == (1, (2,))
    assert ("out of tolerance" if "float" in shown else "labels differ") in off.breaches[0].text
    assert compare(reference, floats(1, 1, 1), dtype=np.dtype(dtype).name).breaches[0].text == (
        f"the dtype is float32, expected {shown}"
    )
