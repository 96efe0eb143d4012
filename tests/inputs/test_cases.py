"""Which feeds a model gets: data in batches, generated sizes, edges."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import DimLimits, InputSpec, Location, ModelSpec
from onnx_gate.records.found import Graph, GraphValue
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.inputs.cases import plan_cases, schema_from_graph
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import example_sizes

X = InputSpec(name="x", dtype="float32", shape=("batch", 3))
TOKENS = InputSpec(name="tokens", dtype="int64", shape=("batch", "seq"), range=(0, 99))


def spec(*inputs: InputSpec, **keys) -> ModelSpec:
    return ModelSpec(
        id="m", line=1, framework="onnx", folder="/", source=Location(shown="m.onnx"), inputs=inputs, **keys
    )


def rows(case: Case) -> list[int]:
    """Row numbers that a case feeds, for data whose first column counts its rows."""
    return [int(row) for call in case.calls() for row in call.feed["x"][:, 0]]


def dataset(count: int) -> Dataset:
    array = np.repeat(np.arange(count, dtype=np.float32)[:, None], 3, axis=1)
    return Dataset(inputs={"x": array}, batch_axes={"x": 0}, rows=count)


def test_every_row_is_fed_at_the_largest_batch():
    """With the remainder as a case of its own size."""
    cases, _ = plan_cases(spec(X, batches=(1, 7, 32)), dataset(100))
    by_name = {case.name: rows(case) for case in cases}
    assert by_name["batch=32"] + by_name["batch=4"] == list(range(100))


def test_other_batches_see_a_sample_spread_over_the_data():
    """Eight calls each, from the first rows to the last ones."""
    cases, _ = plan_cases(spec(X, batches=(1, 7, 32)), dataset(1000))
    sampled = next(rows(case) for case in cases if case.name == "batch=1")
    assert len(sampled) == 8
    assert (sampled[0], sampled[-1]) == (0, 875)


def test_the_first_row_of_each_call_is_known():
    """So that a worst index can be found in the data."""
    cases, _ = plan_cases(spec(X, batches=(4,)), dataset(8))
    assert [call.first_row for call in cases[0].calls()] == [0, 4]


def test_batches_larger_than_the_data_are_dropped_visibly():
    """A note says which."""
    cases, notes = plan_cases(spec(X, batches=(2, 64, 128)), dataset(5))
    assert [case.name for case in cases] == ["batch=2", "batch=1"]
    assert notes == ["batch 64, 128 was not run: the data has 5 rows"]


def test_data_smaller_than_every_batch_is_still_compared():
    """At its own size."""
    cases, _ = plan_cases(spec(X, batches=(64,)), dataset(3))
    assert [(case.name, rows(case)) for case in cases] == [("batch=3", [0, 1, 2])]


def test_no_two_cases_have_one_name():
    """A remainder of a size that is a batch too."""
    cases, _ = plan_cases(spec(X, batches=(2, 6)), dataset(8))
    names = [case.name for case in cases]
    assert len(names) == len(set(names)) == 3


def test_generated_feeds_are_the_same_in_every_run():
    """Seeded by the model's id, the case and the input's name."""
    first, second = (
        [call.feed["x"] for case in plan_cases(spec(X), None)[0] for call in case.calls()] for _ in range(2)
    )
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    assert not np.array_equal(first[1][0], first[2][0])


def test_every_combination_of_dimensions_is_a_case():
    """Unless they are too many: then every value is."""
    cases, notes = plan_cases(spec(TOKENS, batches=(1, 2), dims={"seq": (1, 5)}), None)
    assert [case.name for case in cases] == ["batch=1,seq=1", "batch=1,seq=5", "batch=2,seq=1", "batch=2,seq=5"]
    assert not notes
    many = InputSpec(name="x", dtype="float32", shape=("batch", "a", "b", "c"))
    sizes = tuple(range(1, 6))
    cases, notes = plan_cases(spec(many, batches=sizes, dims=dict.fromkeys("abc", sizes)), None)
    assert len(cases) == 5
    assert "625 combinations" in notes[0]
    assert {case.sizes["b"] for case in cases} == set(sizes)


def test_an_export_example_has_no_size_that_an_exporter_takes_for_a_constant():
    """Above 1, and each one different."""
    sizes = example_sizes(spec(TOKENS, dims={"seq": (1, 2, 8)}))
    assert sizes == {"batch": 2, "seq": 8}


@pytest.mark.parametrize(
    ("dims", "limits", "expected"),
    [
        ({"seq": (1,)}, None, {"batch": 2, "seq": 3}),
        ({"seq": (2,)}, DimLimits(min=2, max=2), {"batch": 3, "seq": 2}),
        ({"seq": (1, 2)}, DimLimits(max=2), {"batch": 3, "seq": 2}),
        ({"seq": (8, 16)}, DimLimits(min=2, max=512, multiple=8), {"batch": 2, "seq": 8}),
        ({"seq": (1,)}, DimLimits(min=1, max=1), {"batch": 2, "seq": 1}),
    ],
)
def test_an_export_example_keeps_to_the_limits(dims, limits, expected):
    """The batch gives way where a dimension has no choice."""
    assert example_sizes(spec(TOKENS, dims=dims, dim_limits={"seq": limits} if limits else {})) == expected


def test_dimensions_of_an_export_example_give_way_to_those_without_a_choice():
    """Whatever their order."""
    given = InputSpec(name="x", dtype="float32", shape=("batch", "a", "b"))
    dims, limits = {"a": (4, 8), "b": (4,)}, {"b": DimLimits(min=4, max=4)}
    assert example_sizes(spec(given, dims=dims, dim_limits=limits)) == {"batch": 2, "a": 8, "b": 4}


def test_a_batch_that_is_not_the_first_dimension_is_cut_where_it_is():
    """As a recurrent model has it."""
    given = InputSpec(name="x", dtype="float32", shape=(2, "batch"))
    data = Dataset(inputs={"x": np.arange(10, dtype=np.float32).reshape(2, 5)}, batch_axes={"x": 1}, rows=5)
    cases, _ = plan_cases(spec(given, batches=(2,)), data)
    assert [call.feed["x"].tolist() for call in cases[0].calls()] == [[[0, 1], [5, 6]], [[2, 3], [7, 8]]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool", "float16", "bfloat16", "float64", "string"])
def test_every_dtype_can_be_generated(dtype):
    """In its own dtype, not a wider one."""
    cases, _ = plan_cases(spec(InputSpec(name="x", dtype=dtype, shape=("batch", 2))), None)
    array = next(cases[0].calls()).feed["x"]
    assert str(array.dtype) == ("object" if dtype == "string" else dtype)


def test_the_file_tells_the_schema():
    """A dynamic first dimension is the batch, whatever it is called."""
    value = GraphValue(name="x", dtype="float32", shape=("N", None, 4))
    graph = Graph(inputs=(value,), outputs=(), opsets={}, ir_version=9, nodes=1, size_bytes=1)
    assert schema_from_graph(graph, spec())[0].shape == ("batch", "x_dim1", 4)


def test_a_dimension_of_the_file_without_values_is_an_error():
    """With the line to add."""
    with pytest.raises(CannotJudge, match=r"'seq' of the \.onnx has no values") as caught:
        plan_cases(spec(TOKENS), None)
    assert "dims: {seq:" in caught.value.fix


def test_all_dimensions_of_the_file_without_values_come_in_one_line():
    """With those that have some, so that the line can take the place of the one that is there."""
    given = [InputSpec(name=name, dtype="float32", shape=("batch", f"{name}_dim1")) for name in ("a", "b", "c")]
    with pytest.raises(CannotJudge, match=r"'a_dim1' and 'c_dim1' of the \.onnx have no values") as caught:
        plan_cases(spec(*given, dims={"b_dim1": (2, 5)}), None)
    assert "`dims: {b_dim1: [2, 5], a_dim1: [1, 16, 128], c_dim1: [1, 16, 128]}`" in caught.value.fix
