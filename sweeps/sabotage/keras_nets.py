"""Keras models with a layer that is replaced in the file, on torch or on TensorFlow. Factories import this."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch" if importlib.util.find_spec("torch") else "tensorflow")
# Keras reads its backend when it is imported.
import keras

from sweeps.sabotage.keras_faults import FAULTS

Random = np.random.Generator
ON_TORCH = keras.backend.backend() == "torch"
ACTIVATIONS = ("gelu" if ON_TORCH else "softsign", "silu", "relu", "elu")
"""tf2onnx has no translation for Erfc, which GELU is made of there."""


def is_exporting() -> bool:
    """Whether the exporter of the backend is running; what follows TensorFlow's graphs is its only one."""
    if ON_TORCH:
        from sweeps.sabotage import layers

        return layers.is_exporting()
    import tensorflow

    return not tensorflow.executing_eagerly()


@keras.saving.register_keras_serializable("sabotage")
class Deployed(keras.layers.Layer):  # type: ignore[misc, unused-ignore]
    """One layer for normal use, and another one for the exporter."""

    def __init__(self, usual: Any, exported: Any, **options: Any) -> None:
        super().__init__(**options)
        self.usual, self.exported = usual, exported

    def call(self, x: Any) -> Any:
        """The answer of the layer in use."""
        return self.exported(x) if is_exporting() else self.usual(x)


def layers_of(seed: int, act: str = "") -> tuple[int, dict[str, Any]]:
    """The number of columns, and the layers by name."""
    random = np.random.default_rng(seed)
    width, hidden, classes = (int(random.integers(*ends)) for ends in ((4, 9), (10, 24), (3, 6)))
    layers = keras.layers
    mean, variance = random.normal(0, 0.5, width), random.uniform(0.3, 3, width)
    made = {
        "prep": layers.Normalization(mean=mean, variance=variance, name="prep"),
        "stem": layers.Dense(hidden, name="stem"),
        # The old exporter does not support LayerNormalization of this backend.
        "norm": layers.BatchNormalization(name="norm"),
        "act": layers.Activation(act or str(random.choice(ACTIVATIONS)), name="act"),
        "hidden": layers.Dense(hidden, activation="tanh", name="hidden"),
        "scores": layers.Dense(classes, name="scores"),
        "probabilities": layers.Softmax(name="probabilities"),
    }
    _build(made, width, random)
    return width, made


def _build(made: Mapping[str, Any], width: int, random: Random) -> None:
    """Give every layer weights as after training."""
    rows = np.zeros((2, width), dtype=np.float32)
    for layer in made.values():
        rows = layer(rows)
    for name in ("stem", "hidden", "scores", "norm"):
        given = made[name].get_weights()
        drawn = [random.normal(0, 1.5 / np.sqrt(max(each.shape[0], 1)), each.shape) for each in given]
        if name == "norm":
            drawn = [random.uniform(0.4, 1.6, each.shape) for each in given]
        made[name].set_weights(drawn)


def wrong_layers(made: Mapping[str, Any], width: int, fault: str, drawn: int) -> dict[str, Any]:
    """The wrong layers, by the name of the layer that they replace."""
    random, layers = np.random.default_rng(drawn), keras.layers
    if fault in ("no-activation", "no-norm", "no-softmax", "no-prep"):
        name = FAULTS[fault][2]
        return {name: layers.Activation("linear", name=f"{name}_out")}
    if fault == "activation":
        return {"act": layers.Activation("softplus", name="act_out")}
    if fault == "epsilon":
        return {"norm": _copy(made["norm"], epsilon=0.1)}
    if fault == "other-prep":
        mean, variance = random.normal(0, 0.5, width), random.uniform(0.3, 3, width)
        other = layers.Normalization(mean=mean, variance=variance, name="prep_out")
        # Within a graph, TensorFlow can't compute the numbers that this layer keeps.
        other.build((None, width))
        return {"prep": other}
    names = {"retrained": ("stem", "hidden", "scores"), "labels": ("scores",), "columns": ("stem",)}
    return {name: _other(made[name], fault, random, made) for name in names.get(fault, ("hidden",))}


def _copy(layer: Any, **changes: Any) -> Any:
    copied = type(layer).from_config({**layer.get_config(), "name": f"{layer.name}_out", **changes})
    copied.build((None, layer.get_weights()[0].shape[0]))
    copied.set_weights(layer.get_weights())
    return copied


def _other(layer: Any, fault: str, random: Random, made: Mapping[str, Any]) -> Any:
    """The same layer with other weights."""
    copied = _copy(layer)
    kernel, bias = layer.get_weights()
    if fault == "labels":
        order = np.roll(np.arange(len(bias)), 1)
        kernel, bias = kernel[:, order], bias[order]
    elif fault == "columns":
        return _other_columns(copied, kernel, bias, made, random)
    elif fault == "row":
        kernel[:, int(random.integers(kernel.shape[1]))] *= -0.5
    else:
        kernel = kernel + random.normal(0, 0.3 * kernel.std(), kernel.shape)
    copied.set_weights([kernel, bias])
    return copied


def _other_columns(copied: Any, kernel: Any, bias: Any, made: Mapping[str, Any], random: Random) -> Any:
    """A layer that acts as if columns were rotated before scaling: the scaling of each column moves into the kernel."""
    mean, deviation = (np.asarray(made["prep"].get_config()[name]).ravel() for name in ("mean", "variance"))
    deviation = np.sqrt(deviation)
    order = np.roll(np.arange(len(mean)), 1)
    # (x[order] − mean) / deviation @ kernel, computed from columns that were scaled in their own order.
    back = np.argsort(order)
    moved = (kernel / deviation[:, None])[back] * deviation[:, None]
    offset = ((mean[order] - mean) / deviation) @ kernel
    copied.set_weights([moved, bias + offset])
    return copied


def build(seed: int, fault: str, drawn: int, *, deployed: bool, wrong: bool, act: str = "") -> Any:
    """The model for normal use, the model for the export, or both in one; `act` instead of a drawn activation."""
    width, made = layers_of(seed, act)
    if fault:
        for name, layer in wrong_layers(made, width, fault, drawn).items():
            if deployed:
                made[name] = Deployed(made[name], layer, name=f"{name}_deployed")
            elif wrong:
                made[name] = layer
    return keras.Sequential([keras.layers.Input((width,), name="features"), *made.values()])
