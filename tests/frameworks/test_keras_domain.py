"""What Keras models know of their inputs, on whatever backend is installed: preprocessing layers, tables and masks."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

# Not importorskip: importing Keras imports its backend, and that has to be chosen first.
if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

from onnx_gate.frameworks.keras.plugin import BACKEND, PLUGIN, Source
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.known import generate

# After the plug-in, which chooses the backend.
import keras  # isort: skip
from keras import Input, Model, Sequential, layers  # isort: skip

pytestmark = [pytest.mark.keras, pytest.mark.models]
on_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="on TensorFlow's backend only")


def domains_of(model: Any, **inputs: tuple[str, Sequence[int | str]]) -> Domains:
    """Of a model with these inputs: name=(dtype, shape)."""
    schemas = tuple(InputSpec(name=name, dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in inputs.items())
    spec = ModelSpec(id="m", line=1, framework="keras", folder="/", source=Location(shown="m"), inputs=schemas)
    example = generate(schemas, {"batch": 2, "seq": 5}, seed="m")
    return PLUGIN.input_domain(Source(model=model, inner=_inner(model, spec)), spec, example)


def _inner(model: Any, spec: ModelSpec) -> Any:
    if BACKEND == "torch":
        from onnx_gate.frameworks.keras.on_torch import as_torch

        return as_torch(model, spec, {})
    from onnx_gate.frameworks.tensorflow.load import source_of

    return source_of(model, spec)


def every(domains: Domains, name: str) -> Values:
    """What is known of all elements of an input."""
    values = domains.inputs[name].every
    assert values is not None
    return values


def test_a_normalization_layer_has_its_means() -> None:
    """Of each column."""
    layer = layers.Normalization(mean=[10.0, 2000.0], variance=[4.0, 90000.0])
    found = domains_of(Sequential([Input((2,)), layer, layers.Dense(2)]), x=("float32", ["batch", 2])).inputs["x"]
    assert [found.columns[n].centre for n in range(2)] == pytest.approx([10, 2000])
    assert [found.columns[n].spread for n in range(2)] == pytest.approx([2, 300])


def test_a_batch_normalization_has_them_too() -> None:
    """As they were learned."""
    layer = layers.BatchNormalization(epsilon=1e-6)
    model = Sequential([Input((2,)), layer, layers.Dense(2)])
    layer.set_weights([np.ones(2), np.zeros(2), np.array([5.0, -70.0]), np.array([9.0, 100.0])])
    found = domains_of(model, x=("float32", ["batch", 2])).inputs["x"].columns
    assert [found[n].centre for n in range(2)] == pytest.approx([5, -70], rel=1e-4)
    assert [found[n].spread for n in range(2)] == pytest.approx([3, 10], rel=1e-4)


def test_rescaled_images_are_pixels() -> None:
    """From 0 to 255."""
    model = Sequential([Input((8, 8, 3)), layers.Rescaling(1 / 127.5, offset=-1), layers.Conv2D(2, 3)])
    values = every(domains_of(model, x=("float32", ["batch", 8, 8, 3])), "x")
    assert (values.low, values.high, values.origins) == (0, 255, (Origin.IMAGES,))


@pytest.mark.parametrize("mode", ["int", "one_hot"])
def test_the_edges_of_bins_are_cuts(mode: str) -> None:
    """Whatever becomes of the bins."""
    model = Sequential([Input((2,)), layers.Discretization([-5.0, 10.0, 20.0], output_mode=mode)])
    values = every(domains_of(model, x=("float32", ["batch", 2])), "x")
    assert [cut.at for cut in values.cuts] == [-5, 10, 20]


@pytest.mark.parametrize("rows", [3, 500])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_ids_are_the_rows_of_the_embedding(rows: int, dtype: str) -> None:
    """Also where the example is out of range, and where ids come as floats."""
    stack = [layers.Embedding(rows, 4), layers.Flatten(), layers.Dense(2)]
    values = every(domains_of(Sequential([Input((3,), dtype=dtype), *stack]), x=(dtype, ["batch", 3])), "x")
    assert (values.low, values.high) == (0, rows - 1)
    assert Origin.EMBEDDINGS in values.origins


def test_no_row_of_ids_is_all_padding() -> None:
    """Where 0 is left out."""
    stack = [layers.Embedding(30, 4, mask_zero=True), layers.GlobalAveragePooling1D(), layers.Dense(2)]
    model = Sequential([Input((None,), dtype="int32"), *stack])
    values = every(domains_of(model, tokens=("int32", ["batch", "seq"])), "tokens")
    assert (values.high, values.never_empty, values.choices) == (29, True, ())


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot"])
def test_a_category_encoding_has_as_many_as_it_was_given(mode: str) -> None:
    """The number of its tokens."""
    model = Sequential([Input((1,), dtype="int32"), layers.CategoryEncoding(5, output_mode=mode)])
    values = every(domains_of(model, x=("int32", ["batch", 1])), "x")
    assert (values.low, values.high) == (0, 4)


def test_positions_end_with_their_table() -> None:
    """An embedding of as many rows."""

    class Positions(layers.Layer):
        def build(self, shape: Any) -> None:
            self.table = layers.Embedding(16, 4)
            self.table.build((None,))

        def call(self, x: Any) -> Any:
            return x + self.table(keras.ops.arange(keras.ops.shape(x)[1]))

    tokens = Input((None,), dtype="int32", name="tokens")
    model = Model(tokens, Positions()(layers.Embedding(50, 4)(tokens)))
    found = domains_of(model, tokens=("int32", ["batch", "seq"]))
    assert (found.longest, every(found, "tokens").high) == ({"seq": 16}, 49)


def test_an_attention_mask_keeps_something() -> None:
    """Of each row."""
    x, mask = Input((None, 8), name="x"), Input((None, None), dtype="bool", name="keep")
    model = Model([x, mask], layers.MultiHeadAttention(2, 4)(x, x, attention_mask=mask))
    found = domains_of(model, x=("float32", ["batch", "seq", 8]), keep=("bool", ["batch", "seq", "seq"]))
    assert (every(found, "keep").choices, every(found, "keep").never_empty) == ((0, 1), True)


@on_tensorflow
@pytest.mark.parametrize(
    ("layer", "dtype", "known", "unknown"),
    [
        (lambda: layers.StringLookup(vocabulary=["red", "green"]), "string", ("green", "red"), ("unknown-word",)),
        (lambda: layers.IntegerLookup(vocabulary=[10, 3000, 200]), "int64", (10, 200, 3000), (3001,)),
    ],
)
def test_a_lookup_has_its_vocabulary(layer: Callable[[], Any], dtype: str, known: Any, unknown: Any) -> None:
    """Each word, and one that it doesn't know."""
    model = Sequential([Input((1,), dtype=dtype), layer(), layers.Embedding(5, 2)])
    values = every(domains_of(model, x=(dtype, ["batch", 1])), "x")
    assert (values.choices, values.unusual, values.origins) == (known, unknown, (Origin.VOCABULARY,))
