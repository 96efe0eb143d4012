"""Keras through the whole gate, on whatever backend is installed: files, factories, and what each backend can't do."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# Not importorskip: importing Keras imports its backend, and that has to be chosen first.
if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

from onnx_gate.frameworks.keras import runs_code
from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = [pytest.mark.keras, pytest.mark.models]

ON_TORCH = importlib.util.find_spec("torch") is not None
BACKEND = "torch" if ON_TORCH else "tensorflow"
on_torch = pytest.mark.skipif(not ON_TORCH, reason="on the torch backend only")
on_tensorflow = pytest.mark.skipif(ON_TORCH, reason="on TensorFlow's backend only")

PAIR = "{left: {dtype: float32, shape: [batch, 4]}, right: {dtype: float32, shape: [batch, 3]}}"
MANIFEST = f"""
version: 1
defaults:
  framework: keras
  inputs: {{x: {{dtype: float32, shape: [batch, 4]}}}}
  batches: [1, 2, 5]
models:
  - {{id: file, source: dense.keras}}
  - {{id: h5, source: dense.h5}}
  - {{id: file-two, source: two.keras, inputs: {PAIR}}}
  - {{id: file-own, source: own.keras, register: 'keras_models.py:register'}}
  - {{id: weights, source: 'keras_models.py:dense', weights: dense.weights.h5}}
  - id: convolutional
    source: keras_models.py:convolutional
    inputs: {{image: {{dtype: float32, shape: [batch, 12, 12, 3]}}}}
  - id: recurrent
    source: keras_models.py:recurrent
    inputs: {{x: {{dtype: float32, shape: [batch, 5, 6]}}}}
  - id: both-ways
    source: keras_models.py:both_ways
    inputs: {{x: {{dtype: float32, shape: [batch, 5, 6]}}}}
  - id: attention
    source: keras_models.py:attention
    inputs: {{x: {{dtype: float32, shape: [batch, seq, 8]}}}}
    dims: {{seq: [2, 9]}}
  - {{id: listed, source: 'keras_models.py:listed', inputs: {PAIR}}}
  - {{id: named, source: 'keras_models.py:listed', inputs: {PAIR}, output_names: [one, other]}}
  - {{id: subclassed, source: 'keras_models.py:subclassed'}}
  - id: embedding
    source: keras_models.py:embedding
    inputs: {{tokens: {{dtype: int32, shape: [batch, seq], range: [1, 19]}}}}
    dims: {{seq: [2, 6]}}
  - {{id: normalized, source: 'keras_models.py:normalized', inputs: {{x: {{dtype: float32, shape: [batch, 2]}}}}}}
  - {{id: gelu, source: 'keras_models.py:gelu'}}
  - {{id: simple, source: 'keras_models.py:simple', inputs: {{x: {{dtype: float32, shape: [batch, 5, 6]}}}}}}
  - id: masked
    source: keras_models.py:masked
    inputs: {{tokens: {{dtype: int32, shape: [batch, 5], range: [0, 19]}}}}
  - id: dynamic
    source: keras_models.py:recurrent
    inputs: {{x: {{dtype: float32, shape: [batch, seq, 6]}}}}
    dims: {{seq: [1, 9]}}
  - {{id: whole-number, source: 'keras_models.py:whole_number'}}
  - id: words
    source: keras_models.py:words
    inputs: {{word: {{dtype: string, shape: [batch, 1], values: [red, green, blue]}}}}
  - {{id: lambda, source: lambda.keras}}
  - {{id: lambda-h5, source: lambda.h5}}
  - {{id: own-unknown, source: own.keras}}
  - {{id: broken, source: broken.keras}}
  - {{id: weights-alone, source: dense.weights.h5}}
  - {{id: misnamed, source: two.keras}}
  - {{id: unbuilt, source: 'keras_models.py:unbuilt', weights: dense.weights.h5}}
  - {{id: not-a-model, source: 'keras_models.py:not_a_model'}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The models' files, made in a process of its own."""
    folder: Path = tmp_path_factory.mktemp("keras")
    shutil.copy(Path(__file__).parent / "keras_models.py", folder)
    code = "import pathlib, keras_models; keras_models.save(pathlib.Path())"
    environ = {**os.environ, "KERAS_BACKEND": BACKEND, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def models(folder) -> Run:
    """All of them in one run, from one warm server."""
    return run_manifest(folder, MANIFEST, strength=True)


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("file", {"y"}),
        ("h5", {"y"}),
        ("file-two", {"joined", "doubled"}),
        ("file-own", {"y"}),
        ("weights", {"y"}),
        ("convolutional", {"y"}),
        ("recurrent", {"y"}),
        ("both-ways", {"y"}),
        ("attention", {"normed"}),
        ("listed", {"p", "q"}),
        ("named", {"one", "other"}),
        ("subclassed", {"hidden", "sum"}),
        ("embedding", {"y"}),
        ("normalized", {"y"}),
        pytest.param("gelu", {"y"}, marks=on_torch),
        pytest.param("simple", {"y"}, marks=on_tensorflow),
        pytest.param("masked", {"y"}, marks=on_tensorflow),
        pytest.param("dynamic", {"y"}, marks=on_tensorflow),
        pytest.param("words", {"y"}, marks=on_tensorflow),
    ],
)
def test_models_pass_with_the_outputs_that_they_have(models, model, outputs):
    """Layers and dicts name the outputs, and each one is compared."""
    assert models[model].verdict is Status.PASSED, models[model].error or models[model].checks
    assert {check.output for check in models[model].checks} == outputs


def test_the_backend_is_named(models):
    """It decides what converts the model."""
    assert f"Keras runs on {BACKEND}" in models["file"].notes


def test_channels_stay_last(models):
    """The file takes what the model takes."""
    import onnxruntime as ort

    path = models.output / "models" / "convolutional.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("image", ["batch", 12, 12, 3])]


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        pytest.param("dynamic", Cause.CONVERSION_FAILED, "KERAS_BACKEND=tensorflow", marks=on_torch),
        pytest.param("simple", Cause.CONVERSION_FAILED, "is exported for one batch only", marks=on_torch),
        pytest.param("masked", Cause.CONVERSION_FAILED, "is exported for one batch only", marks=on_torch),
        pytest.param("whole-number", Cause.CONVERSION_FAILED, "x * 2.0, not x * 2", marks=on_torch),
        pytest.param("words", Cause.LOAD_FAILED, "requires TensorFlow", marks=on_torch),
        pytest.param("gelu", Cause.UNSUPPORTED_OPERATOR, "approximate=True", marks=on_tensorflow),
        ("lambda", Cause.LOAD_FAILED, "doesn't load Lambda layers"),
        ("lambda-h5", Cause.LOAD_FAILED, "doesn't load Lambda layers"),
        ("own-unknown", Cause.LOAD_FAILED, "register_keras_serializable"),
        ("broken", Cause.LOAD_FAILED, "may be damaged"),
        ("weights-alone", Cause.LOAD_FAILED, "name a factory as the source"),
        ("misnamed", Cause.LOAD_FAILED, "the model takes left, right; the manifest has x"),
        ("unbuilt", Cause.LOAD_FAILED, "call the model once in the factory"),
        ("not-a-model", Cause.LOAD_FAILED, "got a dict, expected a Keras model"),
    ],
)
def test_models_that_cannot_be_judged_say_why(models, model, cause, words):
    """The cause, and what to do."""
    assert (models[model].verdict, models[model].cause) == (Status.ERROR, cause), models[model].error
    assert words in models[model].error
    assert len(models[model].error) < 2000


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("dense.keras", ""),
        ("two.keras", ""),
        ("dense.h5", "a .h5 file of Keras, which may hold functions,"),
        ("lambda.keras", "a .keras file with a Lambda layer"),
        ("own.keras", "a .keras file with an object of 'keras_models', which is not Keras's own"),
        ("broken.keras", "a .keras file whose configuration can't be read,"),
    ],
)
def test_files_that_may_run_code_are_found_without_loading_them(folder, name, found):
    """Fails closed: what can't be read counts as code."""
    location = Location(file=str(folder / name), shown=name)
    spec = ModelSpec(id="x", line=1, framework="keras", folder=str(folder), source=location)
    assert runs_code(spec) == found


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("keras.layers", ""),
        ("keras.src.models.functional", ""),
        ("keras.utils", "a .keras file with an object of 'keras.utils', which is not a part of a model"),
        ("keras.src.saving", "a .keras file with an object of 'keras.src.saving', which is not a part of a model"),
        ("kerasx.layers", "a .keras file with an object of 'kerasx.layers', which is not Keras's own"),
        (5, "a .keras file with an object of '5', which is not Keras's own"),
    ],
)
def test_only_parts_of_models_count_as_data(tmp_path, module, found):
    """Keras's own functions can read files and the network too."""
    config = {"class_name": "Sequential", "config": {"layers": [{"class_name": "get_file", "module": module}]}}
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(config))
    location = Location(file=str(tmp_path / "m.keras"), shown="m.keras")
    spec = ModelSpec(id="x", line=1, framework="keras", folder=str(tmp_path), source=location)
    assert runs_code(spec) == found
