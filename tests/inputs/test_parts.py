"""Data as people have it: of several lengths, under names of its own."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.found import Graph, GraphValue
from onnx_gate.worker.inputs.cases import has_one_batch, outputs_by_row, plan_cases
from onnx_gate.worker.inputs.data import Dataset, load_dataset

TOKENS = InputSpec(name="tokens", dtype="int64", shape=("batch", "seq"))
MASK = InputSpec(name="mask", dtype="float32", shape=("batch", "seq"))
KIND = InputSpec(name="kind", dtype="int64", shape=("batch",))
TABLE = InputSpec(name="table", dtype="float32", shape=(3,))
Y = GraphValue(name="y", dtype="float32", shape=("batch", 2))


def spec(data: Location, *inputs: InputSpec, **keys: Any) -> ModelSpec:
    source = Location(shown="m.onnx")
    keys = {"framework": "onnx", "batches": (1, 2), **keys}
    return ModelSpec(id="m", line=1, folder="/", source=source, inputs=inputs, data=data, **keys)


def returning(folder: Path, code: str) -> Location:
    """A data callable with this body."""
    (folder / "made.py").write_text(
        "import numpy as np\n\ndef data():\n" + textwrap.indent(textwrap.dedent(code), "    ")
    )
    return Location(file=str(folder / "made.py"), callable="data", shown="made.py:data")


def names(model: ModelSpec, dataset: Dataset) -> list[str]:
    return [case.name for case in plan_cases(model, dataset)[0]]


def fed(model: ModelSpec, dataset: Dataset) -> dict[str, list[tuple[int, ...]]]:
    """Shapes of the first input in every call of each case."""
    cases, _ = plan_cases(model, dataset)
    first = (model.inputs or ())[0].name
    return {case.name: [call.feed[first].shape for call in case.calls()] for case in cases}


def test_a_folder_of_files_has_a_case_for_each_of_its_sizes(tmp_path):
    """In the order of their names, those of one size together."""
    for name, rows, length in (("c", 1, 5), ("a", 2, 5), ("b", 1, 9)):
        np.savez(tmp_path / f"{name}.npz", tokens=np.full((rows, length), ord(name)))
    model = spec(Location(file=str(tmp_path), shown="texts"), TOKENS)
    dataset = load_dataset(model, ())
    assert fed(model, dataset) == {
        "batch=1,seq=5": [(1, 5), (1, 5), (1, 5), (1, 5)],
        "batch=2,seq=5": [(2, 5)],
        "batch=1,seq=9": [(1, 9)],
    }
    together = next(part.inputs["tokens"][:, 0] for part in dataset.parts if part.sizes == {"seq": 5})
    assert together.tolist() == [ord("a"), ord("a"), ord("c")]


def test_a_folder_of_plain_arrays_feeds_the_only_input(tmp_path):
    """A file without the batch is a row."""
    np.save(tmp_path / "a.npy", np.arange(4))
    np.save(tmp_path / "b.npy", np.arange(6)[None])
    model = spec(Location(file=str(tmp_path), shown="texts"), TOKENS)
    assert names(model, load_dataset(model, ())) == ["batch=1,seq=4", "batch=1,seq=6"]


def test_a_folder_of_something_else_is_refused(tmp_path):
    """Tables in it would be left out in silence."""
    model = spec(Location(file=str(tmp_path), shown="texts"), TOKENS)
    with pytest.raises(CannotJudge, match=r"texts: the folder holds no input_0\.pb, \.npz or \.npy"):
        load_dataset(model, ())
    np.save(tmp_path / "a.npy", np.arange(4))
    (tmp_path / "b.csv").write_text("tokens\n1\n")
    with pytest.raises(CannotJudge, match=r"texts: b\.csv is a table"):
        load_dataset(model, ())


def test_a_part_that_does_not_fit_is_named(tmp_path):
    """The file, and the place in a list."""
    np.savez(tmp_path / "a.npz", tokens=np.zeros((1, 5), np.int64))
    np.savez(tmp_path / "b.npz", tokens=np.zeros((1, 5, 2), np.int64))
    with pytest.raises(CannotJudge, match=r"texts: b\.npz: tokens: the shape is \[1, 5, 2\]"):
        load_dataset(spec(Location(file=str(tmp_path), shown="texts"), TOKENS), ())
    data = returning(tmp_path, "return [{'tokens': np.zeros((1, 5), int)}, {'token': np.zeros((1, 4), int), 'z': 1}]")
    with pytest.raises(CannotJudge, match=r"made\.py:data: \[1\]: no array for the input 'tokens'"):
        load_dataset(spec(data, TOKENS), ())


@pytest.mark.parametrize(
    "code",
    [
        "return [{'tokens': np.arange(n), 'mask': np.ones(n)} for n in (3, 5, 3)]",
        "return [{'tokens': np.arange(n)[None], 'mask': np.ones((1, n))} for n in (3, 5, 3)]",
        "return {'tokens': [np.arange(n) for n in (3, 5, 3)], 'mask': [np.ones(n) for n in (3, 5, 3)]}",
        "return {'tokens': [list(range(n)) for n in (3, 5, 3)], 'mask': [[1.0] * n for n in (3, 5, 3)]}",
        "make = {'tokens': np.arange, 'mask': np.ones}\n"
        "return {name: np.array([of(n) for n in (3, 5, 3)], object) for name, of in make.items()}",
        "for n in (3, 5, 3):\n    yield {'tokens': np.arange(n), 'mask': np.ones(n)}",
    ],
)
def test_a_callable_may_give_several_lengths(tmp_path, code):
    """A list of dicts, of rows or of batches; lists of arrays; a generator."""
    model = spec(returning(tmp_path, code), TOKENS, MASK)
    dataset = load_dataset(model, ())
    assert names(model, dataset) == ["batch=1,seq=3", "batch=2,seq=3", "batch=1,seq=5"]


def test_what_has_a_value_for_each_row_goes_with_the_lists(tmp_path):
    """And what has no rows goes with each of them."""
    code = "return {'tokens': [np.arange(3), np.arange(5)], 'kind': np.array([7, 8]), 'table': np.ones(3)}"
    dataset = load_dataset(spec(returning(tmp_path, code), TOKENS, KIND, TABLE), ())
    assert [part.inputs["kind"].tolist() for part in dataset.parts] == [[7], [8]]
    assert [part.inputs["table"].shape for part in dataset.parts] == [(3,), (3,)]


def test_lists_of_different_lengths_are_refused(tmp_path):
    """Nobody knows what belongs together."""
    code = "return {'tokens': [np.arange(3), np.arange(5)], 'mask': [np.ones(3), np.ones(5), np.ones(2)]}"
    with pytest.raises(CannotJudge, match="different lengths: 2 for 'tokens', 3 for 'mask'"):
        load_dataset(spec(returning(tmp_path, code), TOKENS, MASK), ())


@pytest.mark.parametrize("code", ["return []", "return [1, 2]", "return iter([])", "return iter([3])", "return {}"])
def test_a_list_of_something_else_is_refused(tmp_path, code):
    """With what was got."""
    with pytest.raises(CannotJudge, match=r"made\.py:data: got .*expected"):
        load_dataset(spec(returning(tmp_path, code), TOKENS), ())


def test_outputs_that_are_recorded_stay_with_their_part(tmp_path):
    """A call of its own each, whatever its size; one without outputs is refused."""
    for name, length in (("a", 3), ("b", 5)):
        np.savez(tmp_path / f"{name}.npz", tokens=np.zeros((2, length), np.int64), y=np.zeros((2, 2), np.float32))
    model = spec(Location(file=str(tmp_path), shown="calls"), TOKENS)
    dataset = load_dataset(model, (Y,), batched=frozenset({"y"}))
    assert [(part.name, part.inputs["tokens"].shape) for part in dataset.recorded] == [
        ("recorded,a.npz", (2, 3)),
        ("recorded,b.npz", (2, 5)),
    ]
    np.savez(tmp_path / "c.npz", tokens=np.zeros((2, 4), np.int64))
    with pytest.raises(CannotJudge, match=r"recorded,c\.npz: no outputs are recorded"):
        load_dataset(model, (Y,), batched=frozenset({"y"}))


def test_more_sizes_than_a_report_can_hold_are_all_fed(tmp_path):
    """Those with the fewest rows in one case."""
    data = returning(tmp_path, "return [{'tokens': np.arange(n)} for n in range(1, 101)]")
    model = spec(data, TOKENS)
    shapes = fed(model, load_dataset(model, ()))
    assert len(shapes) == 65
    assert sum(len(calls) for calls in shapes.values()) == 100
    assert len(shapes["other sizes"]) == 36


def test_a_dimension_that_the_data_varies_is_not_cut(tmp_path):
    """Listed sizes are cut from the largest part, where no part has them."""
    data = returning(tmp_path, "return [{'tokens': np.arange(n)} for n in (3, 5, 5)]")
    model = spec(data, TOKENS, dims={"seq": (3, 8)})
    assert names(model, load_dataset(model, ()))[-1:] == ["batch=2,seq=8"]


def test_one_array_feeds_the_only_input_whatever_its_name(tmp_path):
    """A note says so; in a dict too."""
    np.savez(tmp_path / "d.npz", np.zeros((3, 5), np.int64))
    dataset = load_dataset(spec(Location(file=str(tmp_path / "d.npz"), shown="d.npz"), TOKENS), (Y,))
    assert dataset.inputs["tokens"].shape == (3, 5)
    assert dataset.notes == ("the array 'arr_0' of the data feeds the only input, 'tokens'",)
    for code in ("return {'features': np.zeros((3, 5), int)}", "return np.zeros((3, 5), int)"):
        assert load_dataset(spec(returning(tmp_path, code), TOKENS), ()).rows == 3


def test_one_array_that_may_be_a_recorded_output_feeds_nothing(tmp_path):
    """`logits`, or a slip of it, is the answer and not the question."""
    logits = GraphValue(name="logits", dtype="float32", shape=("batch", 2))
    for name in ("logits", "logit"):
        data = returning(tmp_path, f"return {{{name!r}: np.zeros((3, 2), np.float32)}}")
        with pytest.raises(CannotJudge, match="no array for the input 'tokens'"):
            load_dataset(spec(data, TOKENS), (logits,))


def test_feed_says_which_array_feeds_which_input(tmp_path):
    """Swapped names too, and one array for two inputs."""
    np.savez(tmp_path / "d.npz", ids=np.zeros((3, 5), np.int64), tokens=np.ones((3, 5), np.float32))
    data = Location(file=str(tmp_path / "d.npz"), shown="d.npz")
    dataset = load_dataset(spec(data, TOKENS, MASK, feed={"tokens": "ids", "mask": "tokens"}), ())
    assert (dataset.inputs["tokens"].max(), dataset.inputs["mask"].max()) == (0, 1)
    both = {"tokens": "ids", "mask": "ids"}
    with pytest.raises(
        CannotJudge, match="`feed` takes 'ids' for the input 'tokens', and there is an array 'tokens' too"
    ):
        load_dataset(spec(data, TOKENS, MASK, feed=both), ())
    dataset = load_dataset(spec(data, TOKENS, MASK, feed=both, ignore_data=("tokens",)), ())
    assert dataset.inputs["mask"].max() == 0


def test_feed_takes_columns_of_a_table(tmp_path):
    """What nobody takes has to be ignored, as ever."""
    (tmp_path / "d.csv").write_text("KIND,WORDS\n1,2\n3,4\n")
    other = InputSpec(name="words", dtype="float32", shape=("batch", 1))
    data = Location(file=str(tmp_path / "d.csv"), shown="d.csv")
    dataset = load_dataset(spec(data, KIND, other, feed={"kind": "KIND", "words": "WORDS"}), ())
    assert dataset.inputs["kind"].tolist() == [1, 3]
    assert dataset.inputs["words"].tolist() == [[2], [4]]
    with pytest.raises(CannotJudge, match="'WORDS' is neither an input nor a recorded output"):
        load_dataset(spec(data, KIND, feed={"kind": "KIND"}), ())


def test_names_that_feed_does_not_find_are_guessed(tmp_path):
    """On both sides."""
    np.savez(tmp_path / "d.npz", ids=np.zeros((3, 5), np.int64))
    data = Location(file=str(tmp_path / "d.npz"), shown="d.npz")
    with pytest.raises(CannotJudge, match="`feed` names 'idz' for the input 'tokens': no such array") as told:
        load_dataset(spec(data, TOKENS, feed={"tokens": "idz"}), ())
    assert told.value.fix.startswith("did you mean 'ids'?")
    with pytest.raises(CannotJudge, match="feed: the model has no input 'token'") as told:
        load_dataset(spec(data, TOKENS, feed={"token": "ids"}), ())
    assert told.value.fix.startswith("did you mean 'tokens'?")


def test_feed_works_on_parts(tmp_path):
    """Rows without a batch as well."""
    data = returning(tmp_path, "return [{'ids': np.arange(n), 'm': np.ones(n)} for n in (3, 5)]")
    dataset = load_dataset(spec(data, TOKENS, MASK, feed={"tokens": "ids", "mask": "m"}), ())
    assert [part.inputs["mask"].shape for part in dataset.parts] == [(1, 3), (1, 5)]


def graph(*shapes: tuple[int | str | None, ...], output: tuple[int | str | None, ...] = (None, 2)) -> Graph:
    inputs = tuple(GraphValue(name=f"x{i}", dtype="float32", shape=shape) for i, shape in enumerate(shapes))
    outputs = (GraphValue(name="y", dtype="float32", shape=output),)
    return Graph(
        inputs=inputs, outputs=outputs, opsets={"": 18}, ir_version=9, nodes=1, training_nodes=(), size_bytes=1
    )


def test_two_unnamed_dimensions_are_two_dimensions():
    """Only a name says that they are one."""
    assert outputs_by_row(graph((None, 3))) == frozenset()
    assert outputs_by_row(graph(("n", 3), output=("n", 2))) == {"y"}
    assert [has_one_batch(graph(*shapes)) for shapes in ([(None, 3)], [("n", 3), ("n", 4)], [("n", 3), (4, 4)])] == [
        True,
        True,
        True,
    ]
    assert not has_one_batch(graph((None, 3), (None, 4)))
    assert not has_one_batch(graph(("n", 3), ("m", 4)))


def test_inputs_of_different_row_counts_are_fed_as_they_are(tmp_path):
    """Where no name says that they have to be the same; equal ones are rows of a batch."""
    code = "return {'tokens': np.zeros((3, 5), int), 'mask': np.ones((%d, 5))}"
    model = spec(returning(tmp_path, code % 4), TOKENS, MASK)
    with pytest.raises(CannotJudge, match="the dimension 'batch' is 4, and 3 in another input"):
        load_dataset(model, ())
    dataset = load_dataset(model, (), one_batch=False)
    cases, notes = plan_cases(model, dataset)
    assert cases[0].name == "data"
    assert "different numbers of rows" in notes[0]
    assert load_dataset(spec(returning(tmp_path, code % 3), TOKENS, MASK), (), one_batch=False).rows == 3
