"""TensorFlow through the whole gate: SavedModels, factories, and what tf2onnx can't convert."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.tensorflow

FLOATS = "{x: {dtype: float32, shape: [batch, 4]}}"
SEQUENCE = "{x: {dtype: float32, shape: [batch, seq, %s]}}"
WORDS = "{words: {dtype: string, shape: [batch], values: [red, green, blau, schön]}}"
MANIFEST = f"""
version: 1
defaults:
  framework: tensorflow
  inputs: {FLOATS}
  batches: [1, 2, 5]
models:
  - {{id: saved, source: net}}
  - {{id: saved-only, source: embedding}}
  - {{id: saved-other-name, source: embedding, inputs: {{features: {{dtype: float32, shape: [batch, 4]}}}}}}
  - id: saved-pair
    source: net
    inputs: {{a: {{dtype: float32, shape: [batch, 4]}}, b: {{dtype: float32, shape: [batch, 4]}}}}
  - id: saved-table
    source: net
    inputs: {{colour: {{dtype: string, shape: [batch], values: [red, green, blue]}}}}
  - id: saved-keras
    source: keras
    inputs: {{left: {{dtype: float32, shape: [batch, 4]}}, right: {{dtype: float32, shape: [batch, 3]}}}}
  - {{id: saved-fixed, source: fixed, inputs: {{x: {{dtype: float32, shape: [3, 4]}}}}}}
  - {{id: module, source: 'tensorflow_models.py:module'}}
  - id: chosen
    source: tensorflow_models.py:chosen
    inputs: {{b: {{dtype: float32, shape: [batch, 4]}}, a: {{dtype: float32, shape: [batch, 4]}}}}
  - {{id: function, source: 'tensorflow_models.py:function'}}
  - {{id: named, source: 'tensorflow_models.py:function', output_names: [hidden]}}
  - {{id: fixed, source: 'tensorflow_models.py:function', inputs: {{x: {{dtype: float32, shape: [3, 4]}}}}}}
  - {{id: opset, source: 'tensorflow_models.py:function', convert: {{opset: 18}}}}
  - id: by-name
    source: tensorflow_models.py:by_name
    inputs:
      key: {{dtype: float32, shape: [batch, keys, 4]}}
      query: {{dtype: float32, shape: [batch, queries, 4]}}
    dims: {{keys: [1, 3], queries: [2, 4]}}
  - {{id: nested, source: 'tensorflow_models.py:nested'}}
  - id: dictionary
    source: tensorflow_models.py:dictionary
    inputs: {{right: {{dtype: float32, shape: [batch, 4]}}, left: {{dtype: float32, shape: [batch, 4]}}}}
  - {{id: echo, source: 'tensorflow_models.py:echo'}}
  - id: loops
    source: tensorflow_models.py:loops
    inputs: {{x: {{dtype: float32, shape: [batch, seq]}}}}
    dims: {{seq: [1, 6]}}
  - {{id: text, source: 'tensorflow_models.py:text', inputs: {WORDS}}}
  - id: numbers
    source: tensorflow_models.py:numbers
    inputs: {{i: {{dtype: int64, shape: [batch]}}, b: {{dtype: bool, shape: [batch]}}}}
  - {{id: gelu-of-erf, source: 'tensorflow_models.py:gelu_of_erf'}}
  - {{id: translated, source: 'tensorflow_models.py:gelu', register: 'tensorflow_models.py:translate'}}
  - {{id: dense, source: 'tensorflow_models.py:dense'}}
  - id: convolutional
    source: tensorflow_models.py:convolutional
    inputs: {{image: {{dtype: float32, shape: [batch, 12, 12, 3]}}}}
  - {{id: recurrent, source: 'tensorflow_models.py:recurrent', inputs: {SEQUENCE % 6}, dims: {{seq: [1, 9]}}}}
  - {{id: attention, source: 'tensorflow_models.py:attention', inputs: {SEQUENCE % 8}, dims: {{seq: [1, 9]}}}}
  - id: two-inputs
    source: tensorflow_models.py:two_inputs
    inputs: {{right: {{dtype: float32, shape: [batch, 3]}}, left: {{dtype: float32, shape: [batch, 4]}}}}
  - id: masked
    source: tensorflow_models.py:masked
    inputs: {{tokens: {{dtype: int32, shape: [batch, seq], range: [0, 19]}}}}
    dims: {{seq: [1, 6]}}
  - id: words
    source: tensorflow_models.py:words
    inputs: {{word: {{dtype: string, shape: [batch, 1], values: [red, green, blue]}}}}
  - {{id: normalized, source: 'tensorflow_models.py:normalized', inputs: {{x: {{dtype: float32, shape: [batch, 2]}}}}}}
  - {{id: unsigned, source: unsigned}}
  - {{id: alike, source: alike}}
  - {{id: no-such-input, source: net, inputs: {{y: {{dtype: float32, shape: [batch, 4]}},
     z: {{dtype: float32, shape: [batch, 4]}}}}}}
  - {{id: saved-wrong-dtype, source: net, inputs: {{x: {{dtype: float64, shape: [batch, 4]}}}}}}
  - {{id: saved-wrong-shape, source: net, inputs: {{x: {{dtype: float32, shape: [batch, 5]}}}}}}
  - {{id: saved-not-dynamic, source: fixed}}
  - {{id: method, source: 'tensorflow_models.py:method'}}
  - {{id: dropped, source: 'tensorflow_models.py:dropped'}}
  - {{id: two-functions, source: 'tensorflow_models.py:two_functions'}}
  - {{id: gelu, source: 'tensorflow_models.py:gelu'}}
  - {{id: keras-gelu, source: 'tensorflow_models.py:keras_gelu'}}
  - {{id: new-opset, source: 'tensorflow_models.py:function', convert: {{opset: 21}}}}
  - {{id: python, source: 'tensorflow_models.py:python'}}
  - {{id: hashed, source: 'tensorflow_models.py:hashed', inputs: {WORDS}}}
  - {{id: random, source: 'tensorflow_models.py:random'}}
  - {{id: dropout, source: 'tensorflow_models.py:dropout'}}
  - {{id: counter, source: 'tensorflow_models.py:counter'}}
  - {{id: ragged, source: 'tensorflow_models.py:ragged'}}
  - {{id: spectrum, source: 'tensorflow_models.py:spectrum'}}
  - {{id: plain, source: 'tensorflow_models.py:plain'}}
  - {{id: not-a-model, source: 'tensorflow_models.py:not_a_model'}}
  - {{id: older, source: 'tensorflow_models.py:older'}}
  - {{id: floored, source: 'tensorflow_models.py:floored',
     inputs: {{i: {{dtype: int32, shape: [batch], range: [-9, 9]}}}}}}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run, from one warm server."""
    folder = tmp_path_factory.mktemp("tensorflow")
    shutil.copy(Path(__file__).parent / "tensorflow_models.py", folder)
    # In a process of its own: this one is not to hold TensorFlow's threads.
    code = "import pathlib, tensorflow_models; tensorflow_models.save(pathlib.Path())"
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, check=True, capture_output=True)
    return run_manifest(folder, MANIFEST, strength=True)


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("saved", {"logits", "best"}),
        ("saved-only", {"output_0"}),
        ("saved-other-name", {"output_0"}),
        ("saved-pair", {"output_0", "output_1"}),
        ("saved-table", {"output_0"}),
        ("saved-keras", {"joined", "doubled"}),
        ("saved-fixed", {"output_0"}),
        ("module", {"logits", "best"}),
        ("chosen", {"output_0", "output_1"}),
        ("function", {"output"}),
        ("named", {"hidden"}),
        ("fixed", {"output"}),
        ("opset", {"output"}),
        ("by-name", {"output"}),
        ("nested", {"logits", "aux.0", "aux.1.mean"}),
        ("dictionary", {"output"}),
        ("echo", {"output_0", "output_1", "output_2"}),
        ("loops", {"output"}),
        ("text", {"output"}),
        ("numbers", {"output_0", "output_1"}),
        ("gelu-of-erf", {"output"}),
        ("translated", {"output"}),
        ("dense", {"y"}),
        ("convolutional", {"dense"}),
        ("recurrent", {"bidirectional"}),
        ("attention", {"normed"}),
        ("two-inputs", {"joined", "doubled"}),
        ("masked", {"last"}),
        ("words", {"index"}),
        ("normalized", {"normalization"}),
    ],
)
def test_models_pass_with_the_outputs_that_they_have(models, model, outputs):
    """Signatures, functions and layers name the outputs, and each one is compared."""
    assert models[model].verdict is Status.PASSED, models[model].error or models[model].checks
    assert {check.output for check in models[model].checks} == outputs


def test_every_batch_and_every_length_is_run(models):
    """All combinations of batch and dims are cases of a recurrent model."""
    cases = {check.case for check in models["recurrent"].checks}
    assert cases == {f"batch={batch},seq={length}" for batch in (1, 2, 5) for length in (1, 9)}


def test_the_file_has_the_names_and_the_layout_of_the_manifest(models):
    """Channels stay last, dynamic dimensions have the manifest's names, and nothing is called `x:0`."""
    import onnxruntime as ort

    path = models.output / "models" / "convolutional.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("image", ["batch", 12, 12, 3])]
    assert [value.name for value in session.get_outputs()] == ["dense"]


def test_the_opset_asked_for_is_the_opset_written(models):
    """And tf2onnx's own is 15."""
    assert (models["opset"].convert.opset, models["function"].convert.opset) == (18, 15)


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("unsigned", Cause.LOAD_FAILED, "the SavedModel has no signature"),
        ("alike", Cause.LOAD_FAILED, "several signatures take these inputs: "),
        ("no-such-input", Cause.LOAD_FAILED, "no signature takes the inputs y, z: "),
        ("saved-wrong-dtype", Cause.LOAD_FAILED, "takes float32 [?, 4] as 'x', the manifest says float64"),
        ("saved-wrong-shape", Cause.LOAD_FAILED, "takes float32 [?, 4] as 'x', the manifest says shape [batch, 5]"),
        ("saved-not-dynamic", Cause.LOAD_FAILED, "save it with None for each dynamic dimension"),
        ("method", Cause.LOAD_FAILED, "return the module instead of its method"),
        ("dropped", Cause.CONVERSION_FAILED, "keep the function's model in a global variable"),
        ("two-functions", Cause.LOAD_FAILED, "its tf.functions are: one, other; expected exactly one"),
        ("gelu", Cause.UNSUPPORTED_OPERATOR, "tf2onnx has no translation for Erfc"),
        ("gelu", Cause.UNSUPPORTED_OPERATOR, "approximate=True"),
        ("keras-gelu", Cause.UNSUPPORTED_OPERATOR, "0.5 * x * (1 + tf.math.erf(x / 2 ** 0.5))"),
        ("new-opset", Cause.CONVERSION_FAILED, "tf2onnx writes opsets up to 18"),
        ("python", Cause.UNSUPPORTED_OPERATOR, "Python code can't be converted"),
        ("hashed", Cause.UNSUPPORTED_OPERATOR, "do this to the text before the model"),
        ("random", Cause.NONDETERMINISTIC, "draws random numbers"),
        ("dropout", Cause.TRAIN_MODE, "a dropout is active"),
        ("counter", Cause.NONDETERMINISTIC, "changes its variables in each call"),
        ("ragged", Cause.LOAD_FAILED, "returns a RaggedTensor as 'output', expected dense tensors"),
        ("spectrum", Cause.LOAD_FAILED, "returns complex64 as 'output'"),
        ("plain", Cause.LOAD_FAILED, "decorate it with @tf.function"),
        ("not-a-model", Cause.LOAD_FAILED, "got a dict, expected a tf.function, a tf.Module"),
    ],
)
def test_models_that_cannot_be_judged_say_why(models, model, cause, words):
    """The cause, and what to do."""
    assert (models[model].verdict, models[model].cause) == (Status.ERROR, cause), models[model].error
    assert words in models[model].error
    assert len(models[model].error) < 2000


def test_floor_division_of_negative_integers_is_known_to_go_wrong(models):
    """tf2onnx 1.17 rounds towards zero; the advice says so."""
    assert (models["floored"].verdict, models["floored"].cause) == (Status.DIVERGED, Cause.CONVERSION)
    assert "rounds towards zero" in models["floored"].advice


def test_other_weights_in_the_graph_are_named(models):
    """The converter keeps them as constants; only the layer holds the right ones."""
    assert (models["older"].verdict, models["older"].cause) == (Status.DIVERGED, Cause.WEIGHTS)
    assert "`hidden`" in models["older"].advice


def test_learnt_values_are_those_of_every_kind_of_source(tmp_path):
    """Of a Keras model also the settings; variables that share a name are all there."""
    code = """
import numpy as np, pathlib
import onnx_gate.frameworks.tensorflow.plugin as plugin
from onnx_gate.frameworks.tensorflow.load import source_of
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from tests.frameworks import tensorflow_models
import tensorflow as tf

given = InputSpec(name="x", dtype="float32", shape=("batch", 4))
spec = ModelSpec(
    id="m", line=1, framework="tensorflow", folder="/", source=Location(shown="m"), inputs=(given,)
)
net = tensorflow_models.module()
embed = net.embed.get_concrete_function()
tf.saved_model.save(net, "net", signatures={"serving_default": embed})
shapes = {
    "module": (net, [(4, 8), (8, 3)]),
    "concrete": (embed, [(4, 8)]),
    "saved": (tf.saved_model.load("net"), [(4, 8)]),
    "keras": (tensorflow_models.dense(), [(3,), (4, 8), (8,), (8, 3)]),
    "function": (tensorflow_models.function(), []),
}
for name, (built, expected) in shapes.items():
    held = plugin.PLUGIN.parameters(source_of(built, spec))
    assert sorted(value.shape for value in held.values()) == expected, (name, held)
    assert all(isinstance(value, np.ndarray) for value in held.values()), name
normed = source_of(tensorflow_models.convolutional(), spec)
settings = plugin.PLUGIN.settings(normed)
assert any(name.endswith(".epsilon") for name in settings), settings
assert plugin.PLUGIN.settings(source_of(net, spec)) == {}
"""
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, check=True)


def test_a_process_that_only_imported_tensorflow_can_be_forked():
    """The warm server's rule: import, no operator, one thread; a function then runs in the child."""
    code = """
import os, signal
import onnx_gate.frameworks.tensorflow.plugin as plugin
assert len(os.listdir("/proc/self/task")) == 1
if (pid := os.fork()) == 0:
    signal.alarm(60)
    import tensorflow as tf
    double = tf.function(lambda x: x * 2)
    os._exit(0 if float(double(tf.constant(2.0))) == 4 else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


def test_random_numbers_of_a_source_are_noticed():
    """Its operators keep their state to themselves, so that the graph is asked."""
    code = """
import numpy as np
import onnx_gate.frameworks.tensorflow.plugin as plugin
from onnx_gate.frameworks.tensorflow.load import source_of
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from tests.frameworks import tensorflow_models

given = InputSpec(name="x", dtype="float32", shape=("batch", 4))
spec = ModelSpec(
    id="m", line=1, framework="tensorflow", folder="/", source=Location(shown="m"), inputs=(given,)
)
for name, draws in (("random", True), ("dropout", True), ("function", False)):
    source = source_of(getattr(tensorflow_models, name)(), spec)
    plugin.predict(source, spec, {"x": np.ones((2, 4), np.float32)})
    assert plugin.drew() is draws, name
"""
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)
