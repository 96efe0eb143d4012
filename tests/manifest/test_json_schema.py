"""onnx-gate.schema.json: current, valid, and of one mind with what is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from onnx_gate.cli.main import main
from onnx_gate.manifest.json_schema import EXAMPLES_OF_KEYS, json_schema, render
from onnx_gate.manifest.schema import Model
from onnx_gate.manifest.schema.section import keys_of
from onnx_gate.manifest.yaml_tree import read_tree
from tests.manifest.conftest import Project
from tests.manifest.test_example import EXAMPLES, SERVED

FILE = Path(__file__).parents[2] / "onnx-gate.schema.json"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """Of the file as it is checked in."""
    return jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))


def read(path: Path) -> Any:
    """A manifest as an editor that speaks YAML 1.2 reads it."""
    return read_tree(path, str(path)).data


def test_the_file_is_current() -> None:
    """`make schema` writes it anew."""
    assert FILE.read_text(encoding="utf-8") == render()


def test_the_module_prints_the_file() -> None:
    """`python -m onnx_gate.manifest.json_schema > onnx-gate.schema.json` is all there is to it."""
    command = [sys.executable, "-m", "onnx_gate.manifest.json_schema"]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", cwd=FILE.parent)
    assert (done.stdout, done.stderr) == (render(), "")


def test_it_is_a_json_schema() -> None:
    """Of the draft that it names."""
    schema = json_schema()
    assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("key", EXAMPLES_OF_KEYS)
def test_the_examples_of_a_key_are_valid(key: str, validator: jsonschema.Draft202012Validator) -> None:
    """For the schema, and for `check`; each key that models have most often has one."""
    for value in EXAMPLES_OF_KEYS[key]:
        model = {"id": "m", "source": "m.onnx", key: value}
        validator.validate({"version": 1, "models": [model]})
        Model.model_validate(model)
    assert json_schema()["$defs"]["Model"]["properties"][key]["examples"] == EXAMPLES_OF_KEYS[key]


def test_the_main_keys_have_examples() -> None:
    """All that stand in a short manifest."""
    main = {"id", "source", "onnx", "inputs", "data", "batches", "dims", "tolerance", "outputs", "providers"}
    assert main <= set(EXAMPLES_OF_KEYS) <= set(keys_of(Model))


def test_every_key_is_described() -> None:
    """An editor shows these lines."""
    schema = json_schema()
    for section in (schema, *schema["$defs"].values()):
        assert section["description"]
        for name, key in section["properties"].items():
            assert key.get("description"), name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_valid(path: Path, validator: jsonschema.Draft202012Validator) -> None:
    """And name the schema in their first line, for the editor."""
    validator.validate(read(path))
    line = path.read_text(encoding="utf-8").splitlines()[0]
    prefix, _, named = line.partition("$schema=")
    assert prefix == "# yaml-language-server: "
    assert (path.parent / named).resolve() == FILE.resolve()


def test_the_contracts_example_is_valid(project: Project, validator: jsonschema.Draft202012Validator) -> None:
    """All keys of the contract are in the schema."""
    project.manifest.write_text(SERVED)
    validator.validate(read(project.manifest))


GOOD = [
    "memory: 4GiB",
    "memory: 1.5 GiB",
    "memory: 4000000000",
    "providers: [cpu, cuda]",
    "providers: {cpu: , cuda: {required: true}}",
    "providers: {cuda: {required: auto, options: {use_tf32: 0, prefer_nhwc: true, cudnn_conv_algo_search: A}}}",
    "outputs: {y: exact, z: ignore, w: {rtol: 0, atol: 1e-6, min_cosine: 0.9}}",
    "inputs: {X: {dtype: float32, shape: [batch, 4], values: [0, 0.5]}}",
    "inputs: {X: {dtype: string, shape: [], values: [a]}}",
]
BAD = [
    "tolerence: {rtol: 0, atol: 0}",
    "tolerance: {rtol: 1e-3}",
    "tolerance: {rtol: -1, atol: 0}",
    "tolerance: {rtol: '0', atol: 0}",
    "outputs: {y: exat}",
    "outputs: {y: {rtol: 1e-3}}",
    "outputs: {y: {atol: 1e-3}}",
    "outputs: {y: {mode: ignore}}",
    "outputs: {y: {max_abs: }}",
    "outputs: {y: {min_top1: 2}}",
    "providers: [cudda]",
    "providers: []",
    "providers: {}",
    "providers: cpu",
    "providers: {cuda: {required: false}}",
    "providers: {cudda: {}}",
    "batches: []",
    "batches: [0]",
    "timeout: 0",
    "memory: 4gigs",
    "memory: null",
    "data: ''",
    "data: ",
    "framework: mxnet",
    "inputs: {}",
    "inputs: {X: {dtype: float32}}",
    "inputs: {X: {dtype: float, shape: []}}",
    "inputs: {X: {dtype: float32, shape: [batch, 0]}}",
    "inputs: {X: {dtype: float32, shape: [batch, a b]}}",
    "inputs: {X: {dtype: float32, shape: [], range: [1]}}",
    "convert: {opset: 3}",
    "id: bad id",
    f"id: {'x' * 101}",
    "edges: yes",
]


@pytest.mark.parametrize("keys", GOOD)
def test_what_is_accepted_is_valid(project: Project, validator: jsonschema.Draft202012Validator, keys: str) -> None:
    """An editor has no complaint about a manifest that the gate takes."""
    assert project.model(f"id: a, source: m.onnx, {keys}").id == "a"
    validator.validate(read(project.manifest))


@pytest.mark.parametrize("keys", BAD)
def test_what_is_invalid_is_refused(project: Project, validator: jsonschema.Draft202012Validator, keys: str) -> None:
    """An editor underlines what the gate would refuse."""
    base = "source: m.onnx" if keys.startswith("id") else "id: a, source: m.onnx"
    project.model_problem(f"{base}, {keys}")
    assert not validator.is_valid(read(project.manifest))


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"version": 1},
        {"version": 1, "models": []},
        {"version": 2, "models": [{"id": "a", "source": "m.onnx"}]},
        {"version": 1, "models": [{"id": "a"}]},
        {"version": 1, "models": [{"source": "m.onnx"}]},
        {"version": 1, "models": [{"id": "a", "source": "m.onnx"}], "modles": []},
        {"version": 1, "models": [{"id": "a", "source": "m.onnx"}], "defaults": {"id": "b"}},
        {"version": 1, "models": [{"id": "a", "source": "m.onnx"}], "defaults": {"data": "d.npz"}},
    ],
)
def test_documents_that_are_no_manifest_are_invalid(
    validator: jsonschema.Draft202012Validator, document: object
) -> None:
    """The outline is in the schema too."""
    assert not validator.is_valid(document)


def test_its_own_examples_are_valid(validator: jsonschema.Draft202012Validator) -> None:
    """Editors offer them; the address of the schema is that which manifests name."""
    schema = json_schema()
    assert schema["$id"] in (Path(__file__).parents[2] / "docs/manifest.md").read_text(encoding="utf-8")
    for example in schema["examples"]:
        validator.validate(example)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """And that of results.json."""
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == render()
    assert main(["schema", "results"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["$id"].endswith("/onnx-gate-results.schema.json")
