"""Models of Keras, on any installed backend: embedding tables, Normalization, Rescaling, bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from onnx_gate.frameworks.keras.backend import choose_backend
from sweeps.wrong_models.edits import change_number, change_tensor
from sweeps.wrong_models.entry import Array, Model, Random, entry, floats

choose_backend()
# Keras reads its backend when it is imported.
import keras  # noqa: E402

ROWS = 120


def build(random: Random, *layers: Any) -> Any:
    """A model of these layers, with its own random weights."""
    keras.utils.set_random_seed(int(random.integers(2**31)))
    return keras.Sequential(list(layers))


def vocabulary(random: Random, size: int, width: int) -> Any:
    """An embedding table with larger values than Keras's initial ones."""
    return keras.layers.Embedding(size, width, embeddings_initializer=keras.initializers.RandomNormal(0, 1))


def known_as(size: int) -> Any:
    """A test for a constant with this many rows."""
    return lambda name, array: array.ndim >= 1 and array.shape[0] == size


def sequence() -> dict[str, Any]:
    """The ids of a sentence."""
    return {"tokens": {"dtype": "int64", "shape": ["batch", "seq"]}}


@entry("keras", "row of an embedding")
def keras_row(random: Random) -> Model:
    """One row beyond the first ten is wrong."""
    size = int(random.integers(150, 400))
    layers = keras.layers
    source = build(
        random,
        layers.Input((None,), dtype="int64"),
        vocabulary(random, size, 6),
        layers.GlobalAveragePooling1D(),
        layers.Dense(3),
    )
    own = random.integers(0, size, (ROWS, 12))

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        row = int(drawn.integers(10, size))
        change_tensor(file, known_as(size), lambda array: array.__setitem__(row, 1 - array[row]))

    return Model(source=source, inputs=sequence(), own={"tokens": own}, sabotage=change, dims={"seq": [2, 8]})


@entry("keras", "last row of an embedding")
def keras_last_row(random: Random) -> Model:
    """The last row of a table is lost."""
    size = int(random.integers(40, 90))
    layers = keras.layers
    source = build(
        random, layers.Input((4,), dtype="int64"), vocabulary(random, size, 6), layers.Flatten(), layers.Dense(2)
    )
    own = random.integers(0, size, (ROWS, 4))

    def clear(file: onnx.ModelProto, drawn: Random) -> None:
        change_tensor(file, known_as(size), lambda array: array.__setitem__(-1, 0))

    schema = {"tokens": {"dtype": "int64", "shape": ["batch", 4]}}
    return Model(source=source, inputs=schema, own={"tokens": own}, sabotage=clear)


@entry("keras", "mean of a Normalization")
def normalization_mean(random: Random) -> Model:
    """One mean of a layer that was adapted to values of 10,000 is off."""
    means, deviations = random.uniform(8_000, 12_000, 4), random.uniform(50, 200, 4)
    own = (means + random.normal(0, 1, (ROWS, 4)) * deviations).astype(np.float32)
    layers = keras.layers
    adapted = layers.Normalization()
    adapted.adapt(own)
    source = build(random, layers.Input((4,)), adapted, layers.Activation("tanh"), layers.Dense(2))

    def shift(file: onnx.ModelProto, drawn: Random) -> None:
        place = int(drawn.integers(4))

        def add(array: Array) -> None:
            array.reshape(-1)[place] += 100

        change_tensor(file, lambda name, array: array.size == 4 and bool((np.abs(array) > 5000).all()), add)

    return Model(source=source, inputs={"x": floats(4)}, own={"x": own}, sabotage=shift)


@entry("keras", "end of an activation")
def relu_end(random: Random) -> Model:
    """The upper limit of an activation is another number."""
    end = float(random.integers(40, 90))
    layers = keras.layers
    source = build(random, layers.Input((4,)), layers.ReLU(max_value=end), layers.Dense(2))
    own = random.normal(0, 2 * end, (ROWS, 4)).astype(np.float32)
    return Model(
        source=source,
        inputs={"x": floats(4)},
        own={"x": own},
        sabotage=lambda file, drawn: change_number(file, end, end * 1.2),
    )


@entry("keras", "bytes above a threshold")
def rescaled_bytes(random: Random) -> Model:
    """An image of bytes, scaled to 0 … 1 and cut above a brightness, which is another one in the file."""
    layers = keras.layers
    source = build(
        random,
        layers.Input((6, 6, 3)),
        layers.Rescaling(1 / 255),
        layers.ReLU(max_value=0.75),
        layers.Conv2D(3, 3),
        layers.GlobalAveragePooling2D(),
    )
    own = random.integers(0, 256, (ROWS, 6, 6, 3)).astype(np.float32)
    return Model(
        source=source,
        inputs={"image": {"dtype": "float32", "shape": ["batch", 6, 6, 3]}},
        own={"image": own},
        sabotage=lambda file, drawn: change_number(file, 0.75, 0.5),
    )


@entry("keras", "edge of a bin")
def discretized(random: Random) -> Model:
    """Ages in bins; one edge of the bins has moved."""
    edges = [float(edge) for edge in np.sort(random.choice(np.arange(15, 80), size=5, replace=False))]
    layers = keras.layers
    source = build(random, layers.Input((1,)), layers.Discretization(edges), vocabulary(random, 6, 3), layers.Flatten())
    own = random.uniform(10, 95, (ROWS, 1)).astype(np.float32)

    def move(file: onnx.ModelProto, drawn: Random) -> None:
        place = int(drawn.integers(5))
        change_tensor(
            file, lambda name, array: array.size == 5, lambda array: array.__setitem__(place, array[place] + 4)
        )

    return Model(source=source, inputs={"age": floats(1)}, own={"age": own}, sabotage=move)


@entry("keras", "late column of a one-hot encoding")
def category_encoding(random: Random) -> Model:
    """Sixty kinds of events as a multi-hot row; one kind has another weight."""
    layers = keras.layers
    source = build(
        random,
        layers.Input((5,), dtype="int64"),
        layers.CategoryEncoding(num_tokens=60, output_mode="multi_hot"),
        layers.Dense(3),
    )
    own = random.integers(0, 60, (ROWS, 5))

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        row = int(drawn.integers(10, 60))

        def turn(array: Array) -> None:
            table = array if array.shape[0] == 60 else array.T
            table[row] = 0.5 - table[row]

        change_tensor(file, lambda name, array: array.ndim == 2 and 60 in array.shape, turn)

    schema = {"events": {"dtype": "int64", "shape": ["batch", 5]}}
    return Model(source=source, inputs=schema, own={"events": own}, sabotage=change)


@entry("keras", "row of an embedding")
def masked_row(random: Random) -> Model:
    """A sentence padded with zeros, which are masked; one row of the table is wrong."""
    size = int(random.integers(60, 120))
    layers = keras.layers
    table = layers.Embedding(size, 6, mask_zero=True, embeddings_initializer=keras.initializers.RandomNormal(0, 1))
    source = build(random, layers.Input((8,), dtype="int64"), table, layers.GlobalAveragePooling1D(), layers.Dense(2))
    own = random.integers(1, size, (ROWS, 8))
    own[:, -2:] = 0

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        row = int(drawn.integers(10, size))
        change_tensor(file, known_as(size), lambda array: array.__setitem__(row, 1 - array[row]))

    schema = {"tokens": {"dtype": "int64", "shape": ["batch", 8]}}
    return Model(source=source, inputs=schema, own={"tokens": own}, sabotage=change)
