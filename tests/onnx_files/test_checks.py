"""What an ONNX file says of itself, against what the manifest asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.checks import checker_note, random_warnings, structural_breaches
from onnx_gate.worker.onnx_files.files import keep_copy
from onnx_gate.worker.onnx_files.graph import read_graph
from tests import onnx_models

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]


def spec(*inputs: InputSpec, onnx: str | None = None, **convert) -> ModelSpec:
    return ModelSpec(
        id="m", line=1, framework="torch", folder="/", source=Location(), inputs=inputs, onnx=onnx, convert=convert
    )


def messages(asked: ModelSpec, path) -> list[str]:
    return [breach.breaches[0].text for breach, _ in structural_breaches(asked, read_graph(str(path), path.name))]


def test_a_file_is_described_without_its_weights(tmp_path):
    """Names, dtypes, shapes, opset, IR version, nodes, and the size with external data."""
    graph = read_graph(str(onnx_models.external(tmp_path / "m.onnx")), "m.onnx")
    assert [(value.name, value.dtype, value.shape) for value in graph.inputs] == [("x", "float32", ("batch", 3))]
    assert (graph.opsets[""], graph.ir_version, graph.nodes) == (18, 9, 1)
    files = (tmp_path / "m.onnx", tmp_path / "weights.bin")
    assert graph.size_bytes == sum(file.stat().st_size for file in files)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (InputSpec(name="x", dtype="float32", shape=("batch", 3)), None),
        (InputSpec(name="x", dtype="float32", shape=("n", 3)), None),
        (InputSpec(name="x", dtype="float64", shape=("batch", 3)), "its dtype is float32, the manifest says float64"),
        (InputSpec(name="x", dtype="float32", shape=("batch", 4)), "dimension 1 is 3, the manifest says 4"),
        (
            InputSpec(name="x", dtype="float32", shape=("batch", "seq")),
            "dimension 1 (seq) was asked to be dynamic and is fixed at 3",
        ),
        (
            InputSpec(name="x", dtype="float32", shape=("batch", 3, 1)),
            "its shape is [batch, 3], the manifest says [batch, 3, 1]",
        ),
    ],
)
def test_inputs_are_those_of_the_manifest(tmp_path, asked, words):
    """A vanished dynamic dimension is one of the breaches."""
    found = messages(spec(asked), onnx_models.doubler(tmp_path / "m.onnx"))
    assert not found if words is None else words in found[0]


def test_input_names_are_those_of_the_manifest(tmp_path):
    """One that is missing and one too many are two breaches."""
    asked = spec(InputSpec(name="X", dtype="float32", shape=("batch", 3)))
    assert messages(asked, onnx_models.doubler(tmp_path / "m.onnx")) == [
        "the model has no input 'X'; it has: x",
        "the model has an input 'x' that the manifest doesn't name",
    ]


def test_the_opset_is_the_one_asked_for(tmp_path):
    """Converters write another one without a word."""
    x = InputSpec(name="x", dtype="float32", shape=("batch", 3))
    path = onnx_models.doubler(tmp_path / "m.onnx")
    assert not messages(spec(x, opset=18), path)
    assert "asked for opset 13, the converter wrote 18" in messages(spec(x, opset=13), path)[0]
    assert "asked for opset 21, the converter wrote 18" in messages(spec(x, opset=21), path)[0]
    # skl2onnx writes no more than the model needs: what takes 21 takes 18.
    assert messages(replace(spec(x, opset=21), framework="sklearn"), path) == []
    assert "write `convert: {opset: 18}`" in messages(replace(spec(x, opset=13), framework="sklearn"), path)[0]


def test_the_checker_is_a_hint(tmp_path):
    """A sentence for the notes, or none."""
    assert checker_note(str(onnx_models.doubler(tmp_path / "good.onnx"))) is None
    bad = onnx_models.save(tmp_path / "bad.onnx", [], [onnx_models.value("x")], [onnx_models.value("y")])
    assert "onnx.checker" in (checker_note(str(bad)) or "")


def test_a_shipped_model_is_kept_with_its_weights_under_its_own_name(tmp_path):
    """Two models whose weights are both called weights.bin don't overwrite each other."""
    (tmp_path / "kept").mkdir()
    for name in ("a", "b"):
        path = onnx_models.external(tmp_path / name / "m.onnx")
        assert keep_copy(str(path), tmp_path / "kept", name, "m.onnx") == str(tmp_path / "kept" / f"{name}.onnx")
    x = np.ones((1, 3), np.float32)
    for name in ("a", "b"):
        session = ort.InferenceSession(str(tmp_path / "kept" / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        assert session.run(None, {"x": x})[0].tolist() == [[1.0, 2.0, 3.0]]
    assert len(list((tmp_path / "kept").iterdir())) == 4


@pytest.mark.parametrize("training", [True, False])
def test_dropout_in_training_mode_is_a_breach(tmp_path, training):
    """ONNX Runtime's optimiser deletes it, so that an optimised run alone would pass it."""
    path = onnx_models.dropout(tmp_path / "m.onnx", training=training)
    x = InputSpec(name="x", dtype="float32", shape=("batch", 3))
    found = structural_breaches(spec(x), read_graph(str(path), "m.onnx"))
    assert [cause for _, cause in found] == ([Cause.TRAIN_MODE] if training else [])


def test_weights_of_one_name_in_two_folders_stay_two(tmp_path):
    """The copy answers as the file does."""
    node = helper.make_node
    nodes = [node("Add", ["x", "v"], ["a"]), node("Add", ["a", "w"], ["y"])]
    stored = {"v": np.full(3, 1, np.float32), "w": np.full(3, 4, np.float32)}
    path = onnx_models.save(tmp_path / "m.onnx", nodes, [onnx_models.value("x")], [onnx_models.value("y")], stored)
    model = onnx.load(str(path))
    for tensor, folder in zip(model.graph.initializer, ("p", "q"), strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "w.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{folder}/w.bin")
    path.write_bytes(model.SerializeToString())
    (tmp_path / "kept").mkdir()
    copy = keep_copy(str(path), tmp_path / "kept", "m", "m.onnx")
    session = ort.InferenceSession(copy, providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((1, 3), np.float32)})[0].tolist() == [[6.0, 6.0, 6.0]]


def refer_to(path, location):
    """A model whose weights are said to be there."""
    model = onnx.load(str(onnx_models.external(path)), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/etc/hostname", "outside of the model's folder"),
        ("../secret.bin", "outside of the model's folder"),
        ("sub/../../secret.bin", "outside of the model's folder"),
        ("..\\secret.bin", "under a name with a backslash"),
        ("way\\to/config", "under a name with a backslash"),
        ("", "outside of the model's folder"),
        ("nul\0.bin", "outside of the model's folder"),
        (".git/config", "in a folder of Git's own"),
        ("sub/.GIT/config", "in a folder of Git's own"),
        ("link.bin", "behind a link"),
        ("linked/weights.bin", "behind a link"),
        ("sub", "no plain file"),
        ("gone.bin", "'gone.bin', which holds its weights, is missing"),
    ],
)
def test_weights_that_are_not_the_models_own_are_refused(tmp_path, location, words):
    """Before any of them is read: nothing from elsewhere is computed with, or copied into the report."""
    folder = tmp_path / "repository"
    for made in (".git", "sub/.GIT", "elsewhere"):
        (folder / made).mkdir(parents=True)
    for file in (tmp_path / "secret.bin", folder / ".git/config", folder / "sub/.GIT/config"):
        file.write_bytes(b"a secret")
    (folder / "elsewhere/weights.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "linked").symlink_to("elsewhere")
    # What is checked must be what is copied: here a folder in a folder, or a link with a backslash in its name.
    (folder / "way/to").mkdir(parents=True)
    (folder / "way/to/config").write_bytes(bytes(12))
    (folder / "way\\to").symlink_to(".git")
    path = refer_to(folder / "m.onnx", location)
    for use in (lambda: read_graph(path, "m.onnx"), lambda: keep_copy(path, tmp_path, "kept", "m.onnx")):
        with pytest.raises(CannotJudge, match=words):
            use()
    assert not list(tmp_path.glob("kept*"))


def test_nodes_that_draw_random_numbers_are_found_wherever_they_are(tmp_path):
    """In a function too; an operator of somebody else's that is called the same is none."""
    own = helper.make_node("RandomUniformLike", ["a"], ["b"], name="dice")
    function = helper.make_function("mine", "Noise", ["a"], ["b"], [own], [helper.make_opsetid("", 18)])
    nodes = [
        helper.make_node("Noise", ["x"], ["n"], domain="mine"),
        helper.make_node("Bernoulli", ["n"], ["y"], name="theirs", domain="elsewhere"),
    ]
    graph = helper.make_graph(nodes, "g", [onnx_models.value("x")], [onnx_models.value("y")])
    imports = [helper.make_opsetid(domain, 18 if not domain else 1) for domain in ("", "mine", "elsewhere")]
    onnx.save(helper.make_model(graph, opset_imports=imports, functions=[function]), str(tmp_path / "m.onnx"))
    found = read_graph(str(tmp_path / "m.onnx"), "m.onnx")
    assert found.random_nodes == ("RandomUniformLike 'dice'",)
    assert "draws random numbers (RandomUniformLike 'dice')" in random_warnings(found)[0]
    assert random_warnings(read_graph(str(onnx_models.doubler(tmp_path / "d.onnx")), "d.onnx")) == []


@pytest.mark.parametrize("training", [True, False])
def test_training_mode_is_seen_in_functions_and_sub_graphs(tmp_path, training):
    """Exporters write modules as functions, and branches as sub-graphs: what trains in there trains."""
    info = helper.make_tensor_value_info
    x, y = info("x", TensorProto.FLOAT, ["n", 2]), info("y", TensorProto.FLOAT, ["n", 2])
    drop = helper.make_node("Dropout", ["a", "ratio", "mode"], ["b"], "drop")
    block = helper.make_function("local", "Block", ["a", "ratio", "mode"], ["b"], [drop], OPSETS)
    inner = helper.make_node("Dropout", ["h", "ratio", "mode"], ["inner"], "inner_drop")
    other = helper.make_node("Identity", ["h"], ["same"])
    branches = [
        helper.make_graph([node], "branch", [], [info(node.output[0], TensorProto.FLOAT, ["n", 2])])
        for node in (inner, other)
    ]
    nodes = [
        helper.make_node("Block", ["x", "ratio", "mode"], ["h"], "block", domain="local"),
        helper.make_node("If", ["yes"], ["y"], "choose", then_branch=branches[0], else_branch=branches[1]),
    ]
    stored = [
        helper.make_tensor("ratio", TensorProto.FLOAT, [], [0.5]),
        helper.make_tensor("mode", TensorProto.BOOL, [], [training]),
        helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    model = helper.make_model(graph, opset_imports=OPSETS, functions=[block], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    found = read_graph(str(tmp_path / "m.onnx"), "m.onnx").training_nodes
    assert found == (("block/drop", "inner_drop") if training else ())
