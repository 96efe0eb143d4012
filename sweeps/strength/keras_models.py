"""Healthy models of Keras, trained briefly, each with rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_gate.frameworks.keras.backend import choose_backend
from sweeps.strength.tables import rows, tokens
from sweeps.wrong_models.entry import Entry, Model, Random, floats

choose_backend()
# Keras reads its backend when it is imported.
import keras  # noqa: E402

layers = keras.layers


def _fitted(model: Any, x: Any, y: Any) -> Any:
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy")
    model.fit(x, y, epochs=3, batch_size=64, verbose=0)
    return model


def _picture(make: Callable[[], list[Any]]) -> Entry:
    def build(random: Random) -> Model:
        keras.utils.set_random_seed(int(random.integers(2**31)))
        given = rows("digits", random)
        scale = np.float32(16)
        model = keras.Sequential([layers.Input((64,)), *make(), layers.Dense(10, activation="softmax")])
        return Model(
            source=_fitted(model, given.fit / scale, given.fit_target),
            inputs={"x": floats(64)},
            own={"x": given.test / scale},
        )

    return Entry(framework="keras", place="digits", build=build)


def _words(random: Random) -> Model:
    keras.utils.set_random_seed(int(random.integers(2**31)))
    given = tokens(random)
    length = given.test.shape[1]
    model = keras.Sequential(
        [
            *(layers.Input((length,), dtype="int64"), layers.Embedding(given.size, 12)),
            *(layers.GlobalAveragePooling1D(), layers.Dense(5, activation="softmax")),
        ]
    )
    return Model(
        source=_fitted(model, given.fit, given.fit_target),
        inputs={"tokens": {"dtype": "int64", "shape": ["batch", length]}},
        own={"tokens": given.test},
    )


MODELS = {
    "keras_perceptron": _picture(lambda: [layers.Dense(32, activation="relu"), layers.BatchNormalization()]),
    "keras_convolution": _picture(
        lambda: [
            *(layers.Reshape((8, 8, 1)), layers.Conv2D(8, 3, activation="relu")),
            *(layers.MaxPooling2D(), layers.Flatten()),
        ]
    ),
    "keras_words": Entry(framework="keras", place="sentences as ids", build=_words),
}
"""Entries by name."""
