"""Data at other sizes than its own: listed ones, shorter ones, and what is said where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import DimLimits, InputSpec, Location, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.inputs.cases import plan_cases
from onnx_gate.worker.inputs.cuts import one_size_warnings
from onnx_gate.worker.inputs.data import Dataset, Recorded

TOKENS = InputSpec(name="tokens", dtype="int64", shape=("batch", "seq"))
MASK = InputSpec(name="mask", dtype="float32", shape=("batch", "seq", "seq"))
VECTOR = InputSpec(name="tokens", dtype="int64", shape=("seq",))


def spec(*inputs: InputSpec, **keys: Any) -> ModelSpec:
    return ModelSpec(
        id="m", line=1, framework="onnx", folder="/", source=Location(shown="m.onnx"), inputs=inputs, **keys
    )


def tokens(rows: int, length: int) -> Dataset:
    """Each element holds its row and its place: 302 is the third of the row 3."""
    array = 100 * np.arange(rows)[:, None] + np.arange(length)[None, :]
    return Dataset(inputs={"tokens": array}, batch_axes={"tokens": 0}, rows=rows, sizes={"seq": length})


def named(cases: list[Case], name: str) -> Case:
    return next(case for case in cases if case.name == name)


def first(case: Case) -> list[int]:
    return [int(number) for number in next(case.calls()).feed["tokens"].ravel()]


def test_listed_sizes_are_cut_from_the_data_and_repeated_for_longer_ones():
    """At the largest batch; the size that the data has itself is there already."""
    model = spec(TOKENS, batches=(1, 2), dims={"seq": (2, 5, 7)})
    cases, _ = plan_cases(model, tokens(4, 5))
    assert [case.name for case in cases] == ["batch=1", "batch=2", "batch=2,seq=2", "batch=2,seq=7"]
    assert first(named(cases, "batch=2,seq=2")) == [0, 1, 100, 101]
    assert first(named(cases, "batch=2,seq=7"))[:7] == [0, 1, 2, 3, 4, 0, 1]
    assert named(cases, "batch=2,seq=7").sizes == {"batch": 2, "seq": 7}
    assert all(not case.optional and case.held for case in cases)


def test_a_dimension_that_nobody_lists_is_cut_twice():
    """One less, and half of it; the source may refuse these."""
    cases, _ = plan_cases(spec(TOKENS, batches=(3,)), tokens(3, 7))
    cuts = [case for case in cases if case.cut]
    assert [case.name for case in cuts] == ["cut:seq=6", "cut:seq=4"]
    assert all(case.optional and case.held for case in cuts)
    assert first(cuts[1]) == [0, 1, 2, 3, 100, 101, 102, 103, 200, 201, 202, 203]


def test_what_only_the_file_names_is_not_held():
    """The manifest has no `inputs`: nobody has said that the dimension varies."""
    cases, _ = plan_cases(spec(TOKENS), tokens(3, 7), stated=False)
    assert {case.held for case in cases if case.cut} == {False}
    cases, _ = plan_cases(spec(TOKENS, dims={"seq": (3,)}), tokens(3, 7), stated=False)
    assert {case.held for case in cases if case.cut} == {True}


@pytest.mark.parametrize(
    ("length", "limits", "expected"),
    [
        (64, DimLimits(multiple=8), [56, 32]),
        (64, DimLimits(min=40), [63]),
        (64, DimLimits(max=50), [32]),
        (20, DimLimits(multiple=8), [16]),
        (3, DimLimits(), [2]),
        (2, DimLimits(), []),
        (1, DimLimits(), []),
    ],
)
def test_cuts_keep_to_the_limits(length, limits, expected):
    """And have at least two elements."""
    model = spec(TOKENS, dims={"seq": (8, 64)}, drawn_dims=frozenset({"seq"}), dim_limits={"seq": limits})
    cases, _ = plan_cases(model, tokens(2, length))
    assert [case.sizes["seq"] for case in cases if case.cut] == expected


def test_inputs_that_share_a_name_are_cut_together():
    """Along every axis that has it."""
    data = Dataset(
        inputs={"tokens": np.zeros((2, 5), np.int64), "mask": np.ones((2, 5, 5), np.float32)},
        batch_axes={"tokens": 0, "mask": 0},
        rows=2,
        sizes={"seq": 5},
    )
    cases, _ = plan_cases(spec(TOKENS, MASK, batches=(2,), dims={"seq": (3, 9)}), data)
    shapes = [[array.shape for array in next(case.calls()).feed.values()] for case in cases if case.cut]
    assert shapes == [[(2, 3), (2, 3, 3)], [(2, 9), (2, 9, 9)]]


def test_at_most_eight_calls_are_cut():
    """Spread over the data."""
    cases, _ = plan_cases(spec(TOKENS, batches=(2,)), tokens(100, 4))
    starts = [call.first_row for call in named(cases, "cut:seq=3").calls()]
    assert len(starts) == 8
    assert (starts[0], starts[-1]) == (0, 86)


def test_data_without_a_batch_is_cut_too():
    """Named by its sizes alone."""
    data = Dataset(inputs={"tokens": np.arange(6)}, sizes={"seq": 6})
    cases, _ = plan_cases(spec(VECTOR, dims={"seq": (2,)}), data)
    assert [case.name for case in cases] == ["data", "seq=2"]
    assert first(cases[1]) == [0, 1]


def test_recorded_calls_are_not_cut():
    """Nobody has recorded what the answer to a cut is: sizes that the model lists can't be run."""
    data = Dataset(recorded=(Recorded(name="r", inputs={"tokens": np.zeros((2, 5), np.int64)}, outputs={}),))
    assert [case.name for case in plan_cases(spec(TOKENS), data)[0]] == ["r"]
    with pytest.raises(CannotJudge, match=r"dims: the sizes of 'seq' can't be run: the data is made of recorded calls"):
        plan_cases(spec(TOKENS, dims={"seq": (3,)}, own=frozenset({"dims"})), data)
    _, notes = plan_cases(spec(TOKENS, dims={"seq": (3,)}), data)
    assert notes == ["the sizes of seq under `dims` were not run: the data is made of recorded calls"]


def test_nothing_can_be_repeated_where_there_is_nothing():
    """A dimension of size 0 has no values to fill a longer one with."""
    with pytest.raises(CannotJudge, match="nothing along 'seq'") as told:
        plan_cases(spec(TOKENS, dims={"seq": (3,)}), tokens(2, 0))
    assert told.value.cause is Cause.LOAD_FAILED


def test_a_dimension_that_was_run_at_one_size_is_a_warning_with_a_line_to_paste():
    """Listed once, generated or recorded: a name says that it varies."""
    model = spec(TOKENS, dims={"seq": (16,)})
    (warning,) = one_size_warnings(model, plan_cases(model, None)[0])
    assert "'seq' was run at one size only, 16" in warning
    assert "`dims: {seq: [8, 16]}`" in warning
    data = Dataset(recorded=(Recorded(name="r", inputs={"tokens": np.zeros((2, 1), np.int64)}, outputs={}),))
    warning, batch = one_size_warnings(spec(TOKENS), plan_cases(spec(TOKENS), data)[0])
    assert "`dims: {seq: [1, 2]}`" in warning
    assert "the batch was run at one size only, 2" in batch


def test_a_batch_that_was_run_at_one_size_is_a_warning():
    """It is a dimension like others: a batch built into the file would pass."""
    model = spec(TOKENS, dims={"seq": (4, 8)}, batches=(8,))
    (warning,) = one_size_warnings(model, plan_cases(model, None)[0])
    assert "the batch was run at one size only, 8" in warning
    assert "`batches: [1, 8]`" in warning
    model = spec(TOKENS, batches=(1, 8))
    (warning,) = one_size_warnings(model, plan_cases(model, tokens(1, 7))[0])
    assert "the batch was run at one size only, 1" in warning
    assert "Give data of more rows" in warning
    assert one_size_warnings(model, plan_cases(model, tokens(9, 7))[0]) == []


def test_two_sizes_are_no_news():
    """Of cuts, of lists; limits that leave one size say that it doesn't vary."""
    for model, data in (
        (spec(TOKENS), tokens(3, 7)),
        (spec(TOKENS, dims={"seq": (4, 8)}), None),
        (spec(TOKENS, dims={"seq": (8,)}, dim_limits={"seq": DimLimits(min=8, max=8)}), None),
    ):
        assert one_size_warnings(model, plan_cases(model, data)[0]) == []
