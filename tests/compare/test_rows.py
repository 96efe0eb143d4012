"""Whether rows differ, and how far the reference spreads."""

from __future__ import annotations

import hashlib
import tracemalloc
from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.vocabulary import BreachKind
from onnx_gate.worker.compare.differing import same_values
from onnx_gate.worker.compare.labels import Rows
from onnx_gate.worker.compare.outputs import OutputComparison
from tests.golden.records import breaches_of


def compared(*arrays: np.ndarray, rows: int | None = None) -> OutputDiff:
    """Calls with an output that agrees."""
    rule = OutputRule(tolerance=Tolerance(rtol=0.0, atol=1e-6))
    comparison = OutputComparison(provider="cpu", case="batch=3", output="y", rule=rule)
    for array in arrays:
        dtype = "string" if array.dtype == object else array.dtype.name
        comparison.add(Answer(value=array, dtype=dtype), Actual(value=array.copy()), rows=rows)
    return comparison.finish()


@pytest.mark.parametrize("array", [np.full((3, 2), 0.5), np.array([["a", "b"]] * 3, object), np.full((3, 2), np.nan)])
def test_rows_that_are_all_the_same_have_one_digest(array):
    """Over all calls, and whatever their number."""
    diff = compared(array, array, rows=3)
    assert diff.same
    assert diff.same == compared(array[:1], rows=1).same
    assert diff.calls == 2


def test_one_row_that_differs_is_enough():
    """The last of many, or the first of the next call."""
    same = np.zeros((9, 2), np.float32)
    other = same.copy()
    other[8, 1] = 1
    assert compared(other, rows=9).same == ""
    assert compared(same, same + 1, rows=9).same == ""
    assert compared(same, rows=9).same != compared(same + 1, rows=9).same


def test_without_a_batch_a_call_is_a_row():
    """A vector of equal numbers is one answer."""
    vector = np.arange(3.0)
    assert compared(vector, vector).same
    assert compared(vector, vector + 1).same == ""
    assert compared(np.array(1.0, np.float32), np.array(1.0, np.float32)).same


def test_rows_of_no_element_say_nothing():
    """An empty batch comes with the edges."""
    rows = Rows()
    rows.add(np.zeros((0, 4)))
    assert rows.digest == ""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_range_of_the_reference_is_known(dtype):
    """In the fast path and in the exact one, over all calls, without what isn't finite."""
    diff = compared(np.array([-2.0, 1.0], dtype), np.array([np.nan, 4.0], dtype))
    assert (diff.lowest, diff.highest, diff.saturated) == (-2.0, 4.0, 0)


def test_saturated_probabilities_are_counted():
    """Within 1e-4 of 0 or 1; not where anything lies outside of 0 to 1."""
    sure = np.array([0.0, 1.0, 5e-5, 0.99995, 0.5], np.float32)
    assert compared(sure).saturated == 4
    assert compared(sure, np.array([1.5], np.float32)).saturated == 0


def test_nan_alone_has_no_range():
    """Nothing is lowest."""
    diff = compared(np.full(3, np.nan))
    assert (diff.lowest, diff.highest) == (None, None)


def test_labels_are_listed_once():
    """Those of the reference, a dozen at most."""
    assert compared(np.array([2, 1, 2])).labels == (1, 2)
    assert len(compared(np.arange(100)).labels) == 12


def test_a_count_of_elements_is_no_breach_of_a_limit():
    """Reports tell the one in a table and the other in words."""
    rule = OutputRule(tolerance=Tolerance(rtol=0.0, atol=1e-6), limits={"max_abs": 0.5})
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=rule)
    comparison.add(Answer(value=np.zeros(2), dtype="float64"), Actual(value=np.ones(2)))
    diff = comparison.finish()
    assert len(diff.breaches) == 2
    assert (
        diff.limit_breaches
        == diff.breaches[1:]
        == breaches_of(BreachKind.LIMIT, "max_abs is 1, at most 0.5 is required")
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int64, "U6", object])
@pytest.mark.parametrize("at", [0, 299_999])
def test_one_value_that_differs_is_seen_wherever_it_is(dtype: Any, at: int) -> None:
    """Slice by slice, as numpy.array_equal sees it."""
    one = np.arange(300_000).astype(dtype) if dtype is not object else np.arange(300_000).astype(str).astype(object)
    other = one.copy()
    assert same_values(one, other)
    other[at] = "x" if dtype in ("U6", object) else -1
    assert not same_values(one, other)
    assert not same_values(one, one[:-1])


def test_nan_is_the_same_as_nan_and_as_nothing_else() -> None:
    """As a runtime gives it twice."""
    one = np.array([1.0, np.nan, np.inf], np.float32)
    assert same_values(one, one.copy())
    assert not same_values(one, np.array([1.0, 2.0, np.inf], np.float32))
    assert not same_values(one, np.array([np.nan, np.nan, np.inf], np.float32))


def test_large_answers_are_held_against_each_other_in_little_memory() -> None:
    """Two answers of 32 MiB, and whether all rows are one."""
    one, other = (np.full((1, 8 * 1024 * 1024), np.nan, np.float32) for _ in range(2))
    tracemalloc.start()
    assert same_values(one, other)
    rows = Rows()
    rows.add(one)
    rows.add(other)
    assert rows.digest == hashlib.sha256(one.tobytes()).hexdigest()[:16]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One row is kept, and hashed for the test.
    assert peak < 80 * 1024 * 1024
