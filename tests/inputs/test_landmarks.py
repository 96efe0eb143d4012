"""The case `domain`: every landmark of what a model knows of its inputs, once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_gate.records.asked import DimLimits, InputSpec
from onnx_gate.records.domain import Cut, Domain, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.calls import DomainRows
from onnx_gate.worker.inputs.landmarks import MOST_ROWS, plan_domain
from tests.inputs.test_cases import spec

X = InputSpec(name="x", dtype="float32", shape=("batch", 3))
CITY = InputSpec(name="city", dtype="string", shape=("batch", 1))
IDS = InputSpec(name="ids", dtype="int64", shape=("batch", "seq"))
SMALL = 1000


def known(**facts: Any) -> Values:
    return Values(origins=(Origin.RANGES,), **facts)


def fed(rows: DomainRows | None, name: str) -> Any:
    """All that the case feeds to one input."""
    assert rows is not None
    return np.concatenate([call.feed[name] for call in rows.case().calls()])


def test_nothing_known_is_no_case():
    """The size cases are all that there is."""
    assert plan_domain(spec(X), Domains(), file_size=SMALL) is None
    statistics = Domains(inputs={"x": Domain(every=known(centre=5.0, spread=1.0))})
    assert plan_domain(spec(X), statistics, file_size=SMALL) is None


def test_every_category_and_both_sides_of_every_threshold():
    """In rows that are ordinary otherwise."""
    cities = tuple(f"city {i}" for i in range(200))
    cuts = tuple(Cut(at=float(at)) for at in range(1000, 1100))
    domains = Domains(
        inputs={"x": Domain(columns={2: known(cuts=cuts)}), "city": Domain(columns={0: known(choices=cities)})}
    )
    rows = plan_domain(spec(X, CITY), domains, file_size=SMALL)
    assert set(fed(rows, "city").ravel()) == set(cities)
    column = fed(rows, "x")[:, 2]
    for cut in cuts:
        assert (column < cut.at)[np.abs(column - cut.at) < 0.1].any()
        assert (column > cut.at)[np.abs(column - cut.at) < 0.1].any()
    assert rows is not None
    assert (rows.known, rows.fed) == (400, 400)


def test_a_cut_that_no_rounding_decides_is_fed_itself():
    """Ages are whole numbers, and so are the thresholds of a tree that saw them: `<` and `<=` differ there alone."""
    cuts = (Cut(at=31.0, itself=31.0), Cut(at=31.5))
    boxes = tuple({("x", 0): (-np.inf, 31.0), ("x", 1): (float(i), i + 0.5)} for i in range(20))
    domains = Domains(inputs={"x": Domain(columns={0: known(cuts=cuts), 1: known(cuts=(Cut(at=0.0),))})}, boxes=boxes)
    rows = plan_domain(spec(X), domains, file_size=SMALL)
    feed = fed(rows, "x")
    assert rows is not None
    assert rows.known == rows.fed == 7 + 20
    assert not (feed[:, 0] == 31.5).any()
    # Also on the way to each leaf: a landmark among ordinary values may not reach the node that asks for it.
    on_it = feed[feed[:, 0] == 31.0]
    assert all(((on_it[:, 1] > i) & (on_it[:, 1] < i + 0.5)).any() for i in range(20))


def test_a_cut_that_the_dtype_cannot_hold_is_not_fed_itself():
    """float16 has no 4097."""
    half = InputSpec(name="x", dtype="float16", shape=("batch", 3))
    domains = Domains(inputs={"x": Domain(columns={0: known(cuts=(Cut(at=4097.0, itself=4097.0),))})})
    rows = plan_domain(spec(half), domains, file_size=SMALL)
    assert rows is not None
    assert rows.known == 2


def test_a_row_for_each_box():
    """In the interval of each column that it names, and ordinary in the others."""
    boxes = tuple({("x", 0): (float(i), i + 0.5), ("x", 1): (-np.inf, -100.0)} for i in range(50))
    domains = Domains(inputs={"x": Domain(columns={0: known(cuts=(Cut(at=0.0), Cut(at=50.0)))})}, boxes=boxes)
    feed = fed(plan_domain(spec(X), domains, file_size=SMALL), "x")
    for i in range(50):
        assert ((feed[:, 0] > i) & (feed[:, 0] < i + 0.5) & (feed[:, 1] < -100)).any()


def test_a_box_that_is_a_point_is_fed_exactly():
    """A support vector, a class mean."""
    point = {("x", 0): (1.5, 1.5), ("x", 1): (-2.25, -2.25), ("x", 2): (7.0, 7.0)}
    feed = fed(plan_domain(spec(X), Domains(boxes=(point,), origins=(Origin.POINTS,)), file_size=SMALL), "x")
    assert (feed == [1.5, -2.25, 7.0]).all(axis=1).any()


def test_a_missing_value_goes_every_way_that_asks_for_its_column():
    """Each node of a tree sends it in a direction of its own."""
    boxes = tuple({("x", 0): (0.0, 1.0), ("x", 1): (float(i), i + 0.5)} for i in range(100))
    domains = Domains(inputs={"x": Domain(columns={0: known(cuts=(Cut(at=0.0),), missing=True)})}, boxes=boxes)
    feed = fed(plan_domain(spec(X), domains, file_size=SMALL), "x")
    missing = feed[np.isnan(feed[:, 0])]
    for i in range(100):
        assert ((missing[:, 1] > i) & (missing[:, 1] < i + 0.5)).any()


def test_missing_values_take_the_rows_that_nobody_else_needs():
    """A quarter is theirs in any case; two ways that differ in the column alone are one where its value is missing."""
    sides = ((0.0, 1.0), (1.0, 2.0))
    boxes = tuple({("x", 0): side, ("x", 1): (float(i), i + 0.5)} for i in range(300) for side in sides)
    domains = Domains(inputs={"x": Domain(columns={0: known(cuts=(Cut(at=1.0),), missing=True)})}, boxes=boxes)
    rows = plan_domain(spec(X), domains, file_size=SMALL)
    assert rows is not None
    assert rows.fed == rows.known == 2 + 600 + 300
    missing = fed(rows, "x")[np.isnan(fed(rows, "x")[:, 0])]
    assert len(np.unique(np.floor(missing[:, 1]))) == 300


def test_any_two_values_are_missing_at_once_in_some_rows():
    """What a tree does with the second may be told only where the first is missing too."""
    columns = dict.fromkeys(range(3), known(cuts=(Cut(at=5.0),), missing=True))
    feed = fed(plan_domain(spec(X), Domains(inputs={"x": Domain(columns=columns)}), file_size=SMALL), "x")
    missing = np.isnan(feed)
    assert {tuple(row) for row in missing[missing.sum(axis=1) == 2]} == {(1, 1, 0), (1, 0, 1), (0, 1, 1)}
    assert missing.sum(axis=1).max() == 2


def test_missing_and_unknown_values_have_rows_of_their_own():
    """The source may refuse them, and nothing else is lost with such a row."""
    values = known(cuts=(Cut(at=5.0),), missing=True)
    city = known(choices=("a", "b"), unusual=("unknown",))
    domains = Domains(inputs={"x": Domain(columns={0: values, 1: values}), "city": Domain(columns={0: city})})
    rows = plan_domain(spec(X, CITY), domains, file_size=SMALL)
    feed, cities = fed(rows, "x"), fed(rows, "city")
    missing = np.isnan(feed)
    alone = missing[missing.sum(axis=1) == 1]
    assert alone[:, 0].any()
    assert alone[:, 1].any()
    assert not missing[(cities == "unknown").ravel()].any()


def test_ids_fill_whole_sequences():
    """30,000 ids need no 30,000 rows."""
    domains = Domains(inputs={"ids": Domain(every=known(low=0, high=29_999))})
    rows = plan_domain(spec(IDS, dims={"seq": (8, 128)}), domains, file_size=SMALL)
    assert len(np.unique(fed(rows, "ids"))) == 30_000


def test_a_large_model_is_fed_no_more_than_its_size_cases():
    """Each token costs a large model much."""
    domains = Domains(inputs={"ids": Domain(every=known(low=0, high=29_999))})
    rows = plan_domain(spec(IDS, dims={"seq": (8, 128)}), domains, file_size=500_000_000)
    assert rows is not None
    assert rows.count <= 42
    assert rows.fed < rows.known


def test_too_many_landmarks_are_sampled():
    """1,024 rows at most; the rest is counted."""
    domains = Domains(
        inputs={"x": Domain(columns={0: known(cuts=tuple(Cut(at=float(at)) for at in range(10_000)))})},
        boxes=tuple({("x", 1): (float(i), i + 0.5)} for i in range(5000)),
    )
    rows = plan_domain(spec(X), domains, file_size=SMALL)
    assert rows is not None
    assert rows.count <= MOST_ROWS
    assert 512 <= rows.fed < rows.known == 25_000
    again = plan_domain(spec(X), domains, file_size=SMALL)
    assert again is not None
    np.testing.assert_array_equal(rows.rows["x"], again.rows["x"])


def test_every_call_is_a_full_batch():
    """A model may take no other size than those that the manifest lists."""
    domains = Domains(inputs={"x": Domain(columns={0: known(marks=tuple(float(i) for i in range(37)))})})
    rows = plan_domain(spec(X, batches=(8,)), domains, file_size=SMALL)
    assert rows is not None
    assert {len(call.feed["x"]) for call in rows.case().calls()} == {8}


def test_without_a_batch_each_row_is_a_call():
    """The schema fixes every size."""
    fixed = InputSpec(name="x", dtype="float32", shape=(1, 3))
    domains = Domains(inputs={"x": Domain(columns={1: known(marks=(100.0, 200.0))})})
    rows = plan_domain(spec(fixed), domains, file_size=SMALL)
    assert rows is not None
    calls = [call.feed["x"] for call in rows.case().calls()]
    assert {call.shape for call in calls} == {(1, 3)}
    assert {100.0, 200.0} <= {float(call[0, 1]) for call in calls}


def test_a_table_of_positions_is_filled_to_its_end():
    """One call at the longest sequence that it has room for, within the manifest's limits."""
    domains = Domains(longest={"seq": 512})
    rows = plan_domain(spec(IDS, dims={"seq": (8, 16)}), domains, file_size=SMALL)
    assert rows is None or 512 in {call.feed["ids"].shape[1] for call in rows.case().calls()}
    assert rows is not None
    limited = plan_domain(
        spec(IDS, dims={"seq": (8, 16)}, dim_limits={"seq": DimLimits(max=100, multiple=8)}), domains, file_size=SMALL
    )
    assert limited is not None
    assert 96 in {call.feed["ids"].shape[1] for call in limited.case().calls()}


def test_landmarks_keep_to_the_manifests_range():
    """What the manifest says of values is not left."""
    given = InputSpec(name="x", dtype="float32", shape=("batch", 3), range=(0.0, 10.0))
    domains = Domains(inputs={"x": Domain(every=known(cuts=(Cut(at=5.0), Cut(at=50.0)), missing=True))})
    feed = fed(plan_domain(spec(given), domains, file_size=SMALL), "x")
    assert feed.min() >= 0
    assert feed.max() <= 10


def test_refused_rows_are_left_out():
    """The others stay, in full batches."""
    domains = Domains(inputs={"x": Domain(columns={0: known(marks=tuple(float(i) for i in range(20)))})})
    rows = plan_domain(spec(X, batches=(4,)), domains, file_size=SMALL)
    assert rows is not None
    kept = rows.without([0, 5])
    assert kept.count == rows.count - 2
    taken = {row for group in kept.groups() for row in group}
    assert taken == set(range(rows.count)) - {0, 5}


DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool", "string")
SHAPES: tuple[tuple[int | str, ...], ...] = (
    *(("batch", 3), ("batch",), ("batch", 2, 3), ("batch", "seq"), ("seq", "batch")),
    *((1, 3), (4,), (2, "seq"), ()),
)


def anything(rng: np.random.Generator) -> Values:
    """Facts that need not belong together, or to the input."""
    number = lambda: float(rng.choice([0.0, -1.0, 2.5, 300.0, 1e6, -1e-9, 70_000.0, 3e9]))  # noqa: E731
    facts: dict[str, Any] = {
        "centre": number(),
        "spread": abs(number()),
        "low": min(low := number(), 0.0),
        "high": abs(low) + 5,
        "choices": tuple(rng.choice([0, 1, 2, 7, 300], 3).tolist()) if rng.random() < 0.5 else ("a", "b"),
        "cuts": tuple(Cut(at=number(), reach=abs(number())) for _ in range(4)),
        "marks": (number(), 5, "word", None),
        "missing": True,
        "missing_text": "",
        "unusual": (-1, "unknown", 1e30, 300),
        "never_empty": True,
        "never_full": True,
    }
    pairs = [("centre", "spread"), ("low", "high")]
    kept = {name for name in facts if rng.random() < 0.5}
    kept -= {name for pair in pairs if not set(pair) <= kept for name in pair}
    return known(**{name: value for name, value in facts.items() if name in kept})


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 400), marks=pytest.mark.models)])
def test_whatever_a_model_claims_the_feeds_fit_the_schema(seeds):
    """What is known may be wrong or belong elsewhere: it never breaks a feed, and never changes its form."""
    planned = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shape = SHAPES[seed % len(SHAPES)]
        given = InputSpec(name="x", dtype=DTYPES[int(rng.integers(len(DTYPES)))], shape=shape)
        domain = Domain(
            every=anything(rng) if rng.random() < 0.5 else None,
            columns={int(column): anything(rng) for column in rng.choice(5, 2)},
        )
        boxes = tuple({("x", int(rng.integers(3))): (float(i), float(i + rng.integers(3)))} for i in range(5))
        domains = Domains(inputs={"x": domain}, boxes=boxes if rng.random() < 0.5 else (), longest={"seq": 40})
        asked = spec(given, batches=(1, 8), dims={"seq": (2, 5)} if "seq" in shape else {})
        rows = plan_domain(asked, domains, file_size=SMALL)
        for call in rows.case().calls() if rows else ():
            array = call.feed["x"]
            assert array.ndim == len(shape)
            assert all(isinstance(size, str) or size == got for size, got in zip(shape, array.shape, strict=True))
            assert (array.dtype == object) if given.dtype == "string" else (array.dtype == given.dtype)
            planned += 1
    assert planned > len(seeds)
