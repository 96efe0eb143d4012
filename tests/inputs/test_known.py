"""Values drawn from what a model knows: inside of it, spread over it, and clear of where rounding decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Cut, Domain, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.known import draw_known, gap_at, generate, joined, landmarks_of

X = InputSpec(name="x", dtype="float32", shape=("batch", 3))
IDS = InputSpec(name="ids", dtype="int64", shape=("batch", "seq"))
WORDS = InputSpec(name="words", dtype="string", shape=("batch", 1))


def known(**facts: Any) -> Values:
    return Values(origins=(Origin.RANGES,), **facts)


def drawn(given: InputSpec, domain: Domain, *shape: int) -> Any:
    return draw_known(given, domain, shape, rng_for("test"))


def test_incomes_are_drawn_around_their_mean():
    """And the columns of which nothing is known stay standard normal."""
    array = drawn(X, Domain(columns={1: known(centre=50_000.0, spread=10_000.0)}), 2000, 3)
    assert array.dtype == np.float32
    np.testing.assert_allclose(array[:, 1].mean(), 50_000, rtol=0.02)
    np.testing.assert_allclose(array[:, 1].std(), 10_000, rtol=0.1)
    assert np.abs(array[:, [0, 2]]).max() < 6


def test_every_interval_between_two_cuts_is_drawn_from():
    """However near the cuts are to each other, and beyond the outermost too."""
    cuts = [1.0, 1.001, 5.0, 90_000.0]
    array = drawn(X, Domain(columns={0: known(cuts=tuple(Cut(at=at) for at in cuts))}), 500, 3)[:, 0]
    counts = np.bincount(np.searchsorted(cuts, array), minlength=5)
    assert counts.min() > 50


@pytest.mark.parametrize("reach", [0.0, 1e6])
def test_no_value_is_so_near_to_a_cut_that_rounding_decides(reach):
    """Rounding is relative to the largest operand on the way, such as the mean of a scaler."""
    cuts = tuple(Cut(at=at, reach=reach) for at in np.linspace(0, 100, 11))
    array = drawn(X, Domain(columns={0: known(cuts=cuts)}), 20_000, 3)[:, 0].astype(np.float64)
    nearest = np.abs(array[:, None] - np.array([cut.at for cut in cuts])).min(axis=1)
    gap = gap_at(X, 100.0, reach) if reach else 0.0
    assert nearest.min() >= max(gap / 2, 0.0)
    assert nearest.min() < 0.5 if not reach else nearest.min() < 10


def test_ids_are_those_of_the_table():
    """All of it, and nothing beyond."""
    array = drawn(IDS, Domain(every=known(low=0, high=30_521)), 64, 512)
    assert array.min() < 10
    assert array.max() > 30_500
    assert array.max() <= 30_521
    assert array.dtype == np.int64


def test_words_are_the_categories():
    """And nothing else."""
    array = drawn(WORDS, Domain(columns={0: known(choices=("oslo", "bergen"))}), 50, 1)
    assert set(array.ravel()) == {"oslo", "bergen"}


def test_a_mask_has_a_one_in_each_row():
    """At its beginning, so that in a model that only looks back every step has something to look at."""
    mask = InputSpec(name="mask", dtype="int64", shape=("batch", "seq"))
    array = drawn(mask, Domain(every=known(choices=(0, 1), never_empty=True)), 500, 3)
    assert (array[:, 0] == 1).all()
    assert (array[:, 1:] == 0).any()
    left_out = drawn(mask, Domain(every=known(choices=(0, 1), never_full=True)), 500, 3)
    assert (left_out[:, 0] == 0).all()
    assert (left_out[:, 1:] == 1).any()


@pytest.mark.parametrize("stated", [{"range": (0.0, 1.0)}, {"values": (0.25, 0.5)}])
def test_what_the_manifest_says_comes_first(stated):
    """A range or values of the manifest are not widened by what the model knows."""
    given = InputSpec(name="x", dtype="float32", shape=("batch", 3), **stated)
    assert drawn(given, Domain(every=known(low=100, high=200)), 100, 3).max() <= 1


def test_both_sides_of_a_cut_are_landmarks():
    """And the categories, the ends and what is marked."""
    sides = [float(value) for value in landmarks_of(X, known(cuts=(Cut(at=10.0),), marks=(-1.0,), low=0.0, high=20.0))]  # type: ignore[arg-type]
    assert sorted(np.round(sides, 3)) == [-1.0, 0.0, 10.0, 10.0, 20.0]
    assert min(each for each in sides if each > 9) < 10 < max(each for each in sides if each < 11)


def test_cuts_that_rounding_can_not_tell_apart_have_no_side_between_them():
    """A row there would go either way."""
    near = float(np.nextafter(np.float32(10), np.float32(11)))
    sides = list(landmarks_of(X, known(cuts=(Cut(at=10.0), Cut(at=near)))))
    assert len(sides) == 2


def test_whole_numbers_around_a_cut():
    """Integers have no fractions."""
    assert list(landmarks_of(IDS, known(cuts=(Cut(at=3.5),)))) == [3, 4]


def test_both_know_something():
    """The first one's values are ordinary, the second one's are landmarks as well."""
    first = Domains(inputs={"words": Domain(columns={0: known(choices=("a", "b"))})}, longest={"seq": 512})
    second = Domains(
        inputs={"words": Domain(columns={0: known(choices=("b", "c"))}), "x": Domain()}, longest={"seq": 77}
    )
    both = joined(first, second)
    values = both.inputs["words"].columns[0]
    assert (values.choices, set(values.marks)) == (("a", "b"), {"b", "c"})
    assert set(both.inputs) == {"words", "x"}
    assert both.longest == {"seq": 77}


def test_a_feed_is_the_same_in_every_run():
    """Seeded by its text alone."""
    domains = Domains(inputs={"x": Domain(columns={0: known(centre=5.0, spread=2.0)})})
    one, other = (generate((X,), {"batch": 4}, seed="s", domains=domains)["x"] for _ in range(2))
    plain = generate((X,), {"batch": 4}, seed="s", domains=NOTHING_KNOWN)["x"]
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one[:, 1:], plain[:, 1:])
