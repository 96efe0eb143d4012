"""The manifest of the contract, as far as this version serves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import InputSpec, Location, OutputRule, ProviderSpec, Tolerance
from tests.manifest.conftest import Project, place

EXAMPLE = """\
version: 1
defaults:                      # any model key but id, source, onnx, data
  providers: [cpu, cuda]
  tolerance: {rtol: 1e-3, atol: 1e-5}
models:
  - id: iris-logreg            # unique; letters, digits, . _ -
    source: models/iris.joblib # a file, or a Python factory: path/to/file.py:callable or package.module:callable
    framework: sklearn         # sklearn | torch | onnx; may be left out where source tells
    inputs:                    # the schema; names become the ONNX input names
      X: {dtype: float32, shape: [batch, 4]}
    data: data/iris_test.npz   # .npz .npy .csv, an ONNX test_data_set folder, or file.py:callable
    batches: [1, 7, 128]
    outputs:                   # by ONNX output name; what isn't named gets the model's tolerance
      label: exact
      probabilities: {atol: 1e-6, rtol: 0}
  - id: tagger
    source: models/tagger.py:build
    weights: models/tagger.safetensors    # or a state-dict .pt, loaded with weights_only
    inputs:
      tokens: {dtype: int64, shape: [batch, seq], range: [0, 30521]}
      mask:   {dtype: int64, shape: [batch, seq], values: [0, 1]}
    dims: {seq: [1, 16, 128]}  # values to try for a named dimension other than batch
    edges: true                # zeros, extremes of the range, tiny, huge, repeated rows …
    convert: {opset: 18}       # and the converter's own options
    providers:
      cpu: {}
      cuda: {required: true, options: {use_tf32: 0}, tolerance: {rtol: 1e-2, atol: 1e-4}}
    timeout: 300               # seconds
    memory: 4GiB
  - id: vad
    source: models/vad.jit     # TorchScript, .pt2, .joblib, .pkl, .skops, .onnx
    onnx: models/vad.onnx      # ship this one: validate it instead of converting
"""
SERVED = EXAMPLE.replace("tagger.py:build\n", "tagger.py:build\n    framework: torch\n").replace(
    "models/vad.jit ", "models/vad.joblib "
)
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/onnx-gate.yml"))


@pytest.fixture
def example(project: Project) -> Project:
    """A repository with the files that the example names."""
    for name in ("models", "data"):
        (project.folder / name).mkdir()
    for name in ("iris.joblib", "tagger.py", "tagger.safetensors", "vad.jit", "vad.joblib", "vad.onnx"):
        (project.folder / "models" / name).touch()
    (project.folder / "data" / "iris_test.npz").touch()
    return project


def test_the_example_as_written_lacks_a_framework(example: Project) -> None:
    """A factory doesn't tell what it builds; nothing else is wrong."""
    framework = example.problem(EXAMPLE)
    assert place(framework) == (16, 5, "models[1]")
    assert framework.message.startswith("the key 'framework' is missing: a factory doesn't tell what it builds")


def test_the_example_is_read_in_full(example: Project) -> None:
    """Every key of it arrives in the specs."""
    iris, tagger, vad = example.load(SERVED).models
    folder = example.folder.resolve()

    assert (iris.id, iris.line, iris.framework, iris.folder) == ("iris-logreg", 6, "sklearn", str(folder))
    assert iris.source == Location(file=str(folder / "models/iris.joblib"), shown="models/iris.joblib")
    assert iris.inputs == (InputSpec(name="X", dtype="float32", shape=("batch", 4)),)
    assert iris.data == Location(file=str(folder / "data/iris_test.npz"), shown="data/iris_test.npz")
    assert iris.batches == (1, 7, 128)
    assert iris.outputs == {
        "label": OutputRule(mode="exact"),
        "probabilities": OutputRule(tolerance=Tolerance(rtol=0, atol=1e-6)),
    }
    assert iris.providers == (ProviderSpec(name="cpu"), ProviderSpec(name="cuda"))
    assert iris.tolerance == Tolerance(rtol=1e-3, atol=1e-5)

    assert (tagger.framework, tagger.weights) == ("torch", str(folder / "models/tagger.safetensors"))
    assert tagger.source.callable == "build"
    assert tagger.inputs == (
        InputSpec(name="tokens", dtype="int64", shape=("batch", "seq"), range=(0, 30521)),
        InputSpec(name="mask", dtype="int64", shape=("batch", "seq"), values=(0, 1)),
    )
    assert (tagger.dims, tagger.edges, tagger.convert) == ({"seq": (1, 16, 128)}, "all", {"opset": 18})
    assert tagger.providers == (
        ProviderSpec(name="cpu"),
        ProviderSpec(name="cuda", required=True, options={"use_tf32": "0"}, tolerance=Tolerance(rtol=1e-2, atol=1e-4)),
    )
    assert (tagger.timeout, tagger.memory, tagger.batches) == (300, 4 * 2**30, (1, 2, 7, 32))

    assert (vad.framework, vad.onnx, vad.inputs) == ("sklearn", str(folder / "models/vad.onnx"), None)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_valid(path: Path) -> None:
    """Whatever their models do, their manifests can be read."""
    assert load_manifest(path).models


def test_there_are_examples() -> None:
    """The tests above are about something."""
    assert len(EXAMPLES) >= 2
