"""Metrics of float arrays against plain numpy in float64, and the rules for what isn't finite."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.compare.elements import CHUNK, Elements

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)


def compare(reference: np.ndarray, actual: np.ndarray, tolerance: Tolerance = TOLERANCE) -> Elements:
    elements = Elements(tolerance)
    elements.add(reference, actual)
    return elements


def arrays(dtype: type, size: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    reference: np.ndarray = rng.standard_normal(size).astype(dtype)
    return reference, (reference + noise * rng.standard_normal(size)).astype(dtype)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4, 1e-1])
@pytest.mark.parametrize("size", [1, 10, CHUNK, 2 * CHUNK + 17])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_metrics_are_those_of_numpy_in_float64(dtype, size, noise):
    """Every metric, over one chunk and over several, is what float64 arithmetic gives."""
    reference, actual = arrays(dtype, size, noise)
    r, a = reference.astype(np.float64), actual.astype(np.float64)
    d, nonzero = np.abs(a - r), r != 0
    elements = compare(reference, actual)
    got = elements.metrics()
    assert elements.total == size
    assert elements.mismatched == np.count_nonzero(d > 1e-5 + 1e-3 * np.abs(r))
    assert got["max_abs"] == pytest.approx(d.max(), rel=1e-6)
    assert got["mean_abs"] == pytest.approx(d.mean(), rel=1e-5)
    assert got["max_rel"] == pytest.approx((d[nonzero] / np.abs(r[nonzero])).max(), rel=1e-5)
    assert got["mean_rel"] == pytest.approx((d[nonzero] / np.abs(r[nonzero])).mean(), rel=1e-5)
    assert got["rmse"] == pytest.approx(math.sqrt((d * d).mean()), rel=1e-5)
    assert got["cosine"] == pytest.approx(r @ a / math.sqrt((r @ r) * (a @ a)), abs=1e-6)


@pytest.mark.parametrize("position", [0, 5, CHUNK - 1, CHUNK, 2 * CHUNK + 3])
def test_one_element_that_is_off_is_found_wherever_it_is(position):
    """A single wrong element in the middle of right ones is counted and located."""
    reference = np.ones(2 * CHUNK + 4, np.float32)
    actual = reference.copy()
    actual[position] += 0.01
    elements = compare(reference, actual)
    assert (elements.mismatched, elements.worst) == (1, position)


def test_the_worst_element_is_one_that_is_out_of_tolerance():
    """A larger difference that its own size allows doesn't hide the one that fails."""
    reference = np.array([1e6, 0.0, 1.0], np.float32)
    actual = np.array([1e6 + 500, 0.01, 1.0], np.float32)
    elements = compare(reference, actual)
    assert (elements.mismatched, elements.worst) == (1, 1)
    assert elements.metrics()["max_abs"] == 500


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_limit_itself_passes_and_the_next_number_does_not(dtype):
    """|actual − reference| ≤ atol + rtol·|reference| holds to the last bit, also in float32."""
    tolerance = Tolerance(rtol=0.0, atol=0.25)
    at_limit = np.array([1.25], dtype)
    beyond = np.nextafter(at_limit, dtype(2))
    assert compare(np.ones(1, dtype), at_limit, tolerance).mismatched == 0
    assert compare(np.ones(1, dtype), beyond, tolerance).mismatched == 1


def test_zero_tolerance_means_equal():
    """With rtol and atol 0 any difference counts, and none is no difference."""
    exact = Tolerance(rtol=0.0, atol=0.0)
    reference = np.array([0.0, 1.0, -4.0], np.float32)
    assert compare(reference, reference.copy(), exact).mismatched == 0
    assert compare(reference, reference + np.float32(1e-7), exact).mismatched == 2


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("reference", "actual", "mismatched"),
    [
        (NAN, NAN, 0),
        (INF, INF, 0),
        (-INF, -INF, 0),
        (NAN, 1.0, 1),
        (1.0, NAN, 1),
        (INF, -INF, 1),
        (INF, 1.0, 1),
        (1.0, INF, 1),
        (NAN, INF, 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_meets_nan_and_inf_the_same_inf(dtype, reference, actual, mismatched):
    """What isn't finite must be met by the same, wherever it stands among ordinary numbers."""
    ordinary = np.linspace(-1, 1, 50).astype(dtype)
    left, right = ordinary.copy(), ordinary.copy()
    left[20], right[20] = reference, actual
    elements = compare(left, right)
    assert elements.mismatched == elements.nonfinite_mismatched == mismatched
    assert elements.nan_matched == (math.isnan(reference) and math.isnan(actual))
    if mismatched:
        assert elements.worst == 20
        largest = elements.metrics()["max_abs"]
        assert largest is not None
        assert not math.isfinite(largest)
    else:
        assert elements.metrics()["max_abs"] == 0


def test_nan_never_passes_under_any_tolerance():
    """A tolerance of 1e30 forgives every number and no NaN."""
    generous = Tolerance(rtol=1e30, atol=1e30)
    assert compare(np.ones(4, np.float32), np.array([1, 2, NAN, 4], np.float32), generous).mismatched == 1


@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e-15, 1e15, 1e25, 1e38])
def test_squares_that_overflow_or_vanish_do_not_spoil_the_metrics(scale):
    """Very small and very large float32 values get metrics as good as ordinary ones."""
    reference = np.array([1.0, -2.0, 0.5, 1.5], np.float64) * scale
    actual = reference * (1 + 1e-2)
    elements = compare(reference.astype(np.float32), actual.astype(np.float32), Tolerance(rtol=1e-3, atol=0.0))
    got = elements.metrics()
    assert elements.mismatched == 4
    assert got["cosine"] == pytest.approx(1.0, abs=1e-6)
    assert got["rmse"] == pytest.approx(math.sqrt(((actual - reference) ** 2).mean()), rel=2e-2)


def test_zeros_have_no_relative_error_and_agree_perfectly():
    """All zeros on both sides: cosine 1, no relative error defined."""
    got = compare(np.zeros(5, np.float32), np.zeros(5, np.float32)).metrics()
    assert (got["max_abs"], got["max_rel"], got["cosine"], got["snr_db"]) == (0.0, None, 1.0, math.inf)


def test_empty_arrays_have_no_metrics():
    """Nothing compared, nothing claimed."""
    elements = compare(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    assert elements.total == 0
    assert elements.metrics()["max_abs"] is None


def test_calls_add_up():
    """Two calls give what one call over both gives."""
    reference, actual = arrays(np.float32, 1000, 1e-3)
    once, twice = compare(reference, actual), compare(reference[:300], actual[:300])
    twice.add(reference[300:], actual[300:])
    assert (once.mismatched, once.worst, once.total) == (twice.mismatched, twice.worst, twice.total)
    assert once.metrics() == pytest.approx(twice.metrics())


def test_arrays_that_are_not_contiguous_compare_as_they_read():
    """Transposed and strided arrays are compared element by element."""
    reference = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert compare(reference.T, np.ascontiguousarray(reference.T)).mismatched == 0
    assert compare(reference[:, ::2], reference[:, 1::2]).mismatched == 6


def test_memory_stays_within_a_few_chunks():
    """Comparing large arrays allocates next to nothing beyond them."""
    reference, actual = arrays(np.float32, 4_000_000, 1e-2)
    tracemalloc.start()
    compare(reference, actual)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * 1024 * 1024


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from([np.float32, np.float64]).flatmap(
        lambda dtype: st.tuples(*[hnp.arrays(dtype, 7, elements={"allow_nan": True, "allow_infinity": True})] * 2)
    )
)
def test_any_numbers_are_judged_as_the_definition_says(pair):
    """For any two arrays, the count is that of the contract's sentence taken literally."""
    reference, actual = pair
    wrong = 0
    for r, a in zip(reference.astype(np.float64).tolist(), actual.astype(np.float64).tolist(), strict=True):
        same = r == a or (math.isnan(r) and math.isnan(a))
        both_finite = math.isfinite(r) and math.isfinite(a)
        wrong += not (same or (both_finite and abs(a - r) <= 1e-5 + 1e-3 * abs(r)))
    assert compare(reference, actual).mismatched == wrong


@pytest.mark.parametrize(
    ("reference", "actual", "expected"),
    [
        (1e-200, 1e200, -math.inf),
        (1.0, 1e300, -math.inf),
        (1e-100, 1e100, -4000.0),
        (1e300, 2e300, None),
    ],
)
def test_the_signal_to_noise_ratio_of_float64_of_any_size(
    reference: float, actual: float, expected: float | None
) -> None:
    """Squares that overflow or vanish end no comparison, and make no ratio look good."""
    elements = Elements(Tolerance(rtol=1e-3, atol=1e-5))
    elements.add(np.array([reference]), np.array([actual]))
    assert elements.metrics()["snr_db"] == (pytest.approx(expected) if expected is not None else None)


@pytest.mark.parametrize(("size", "expected"), [(1e-100, 1.0), (1e100, 1.0), (1e200, None)])
def test_the_cosine_of_float64_of_any_size(size: float, expected: float | None) -> None:
    """It is undefined where the squares overflow: never 1 for want of a number."""
    elements = Elements(Tolerance(rtol=1e-3, atol=1e-5))
    elements.add(np.array([size, 2 * size]), np.array([size, 2.001 * size]))
    assert elements.metrics()["cosine"] == (pytest.approx(expected) if expected is not None else None)


def judged_plainly(reference: np.ndarray, actual: np.ndarray, tolerance: Tolerance) -> tuple[np.ndarray, float]:
    """Which elements are wrong, and the largest share of the tolerance, by the definition in float64."""
    r, a = reference.astype(np.float64), actual.astype(np.float64)
    with np.errstate(all="ignore"):
        finite, distance = np.isfinite(r) & np.isfinite(a), np.abs(a - r)
        allowed = tolerance.atol + tolerance.rtol * np.abs(r)
        wrong = np.where(finite, ~(distance <= allowed), ~((r == a) | (np.isnan(r) & np.isnan(a))))
        differing = finite & (distance > 0)
        used = float((distance[differing] / allowed[differing]).max(initial=0.0))
    return wrong, used


@pytest.mark.parametrize("chunk", [64, CHUNK])
@pytest.mark.parametrize("odd", [None, 0.0, math.nan, math.inf], ids=["ordinary", "zeros", "nan", "inf"])
def test_every_count_is_that_of_the_plain_definition(monkeypatch: pytest.MonkeyPatch, chunk: int, odd: float | None):
    """Elements, rows and the use of the tolerance, whatever the sizes, tolerances, rows and chunks."""
    monkeypatch.setattr("onnx_gate.worker.compare.elements.CHUNK", chunk)
    rng = np.random.default_rng(5)
    for number in range(200):
        rows, row = int(rng.integers(1, 40)), int(rng.choice([1, 2, 3, 10, 64, 130]))
        reference = (rng.standard_normal(rows * row) * 10.0 ** rng.integers(-3, 4)).astype(
            (np.float32, np.float64)[number % 2]
        )
        noise = rng.choice([0.0, 1e-7, 1e-5, 1e-3]) * rng.standard_normal(reference.size)
        actual = (reference * (1 + noise) + rng.choice([0.0, 1e-5]) * noise).astype(reference.dtype)
        if odd is not None:
            (reference, actual)[number % 2][rng.random(reference.size) < 0.02] = odd
        tolerance = Tolerance(rtol=float(rng.choice([0.0, 1e-5, 1e-3])), atol=float(rng.choice([0.0, 1e-6, 1e-3])))
        elements = Elements(tolerance)
        wrong_rows = elements.add(reference, actual, row=row)
        wrong, used = judged_plainly(reference, actual, tolerance)
        assert elements.mismatched == np.count_nonzero(wrong)
        assert wrong_rows == np.count_nonzero(wrong.reshape(rows, row).any(axis=1))
        assert elements.used == pytest.approx(used, rel=1e-6)
        assert not wrong.any() or wrong[elements.worst]
