"""Keras 3 on the backend of PyTorch or TensorFlow, whose plug-in runs and converts the model."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnx_gate.frameworks.keras.backend import choose_backend, plugin_of
from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.frameworks.tensorflow.keras_models import settings_of, watched_layers, weights_of
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import Domains
from onnx_gate.records.found import Answer, Triage
from onnx_gate.worker.user_code import registered

BACKEND = choose_backend()
# The backend's plug-in comes first: it must make its settings before Keras imports the backend.
_PLUGIN: Plugin = plugin_of(BACKEND).PLUGIN
_LOAD: Any = importlib.import_module("onnx_gate.frameworks.keras.load")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The user's model, ready to answer."""

    model: Any
    """The Keras model."""
    inner: Any
    """The same model as a source of the backend's plug-in."""


def load(spec: ModelSpec) -> Source:
    """The model, as a source of its backend."""
    translations = registered(spec, "operator of the backend: function")
    model = _LOAD.load_model(spec)
    if BACKEND == "torch":
        from onnx_gate.frameworks.keras.on_torch import as_torch

        return Source(model=model, inner=as_torch(model, spec, translations))
    from onnx_gate.frameworks.tensorflow.load import as_translations, source_of

    return Source(model=model, inner=replace(source_of(model, spec), translations=as_translations(translations)))


def predict(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The model's answers in inference mode, by output name."""
    return _PLUGIN.predict(source.inner, spec, feed)


def convert(source: Source, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Convert with the backend's converter: Keras's own export uses torch's old exporter, which lacks operators."""
    if BACKEND != "torch":
        return [f"Keras runs on {BACKEND}", *_PLUGIN.convert(source.inner, spec, path, example)]
    from onnx_gate.frameworks.keras.on_torch import refuse_baked, refuse_mixed_types, refuse_unrolled

    refuse_unrolled(source.model, spec)
    notes = _PLUGIN.convert(source.inner, spec, path, example)
    refuse_baked(source.model, path, spec)
    refuse_mixed_types(path, spec)
    return [f"Keras runs on {BACKEND}", *notes]


def known_cause(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """The cause that the plug-in of the backend knows."""
    return _PLUGIN.known_cause(source.inner, spec, feed)


def parameters(source: Source) -> dict[str, Any]:
    """The float weights by their paths."""
    return weights_of(source.model)


def settings(source: Source) -> dict[str, float]:
    """The float settings of layers, by the paths of their names."""
    return settings_of(source.model)


def input_domain(source: Source, spec: ModelSpec, example: dict[str, Any]) -> Domains:
    """The domains that the backend's plug-in sees in a run: preprocessing layers are part of the model."""
    # An ordinary call builds the model first: layers that are made while the model is watched would be lost again.
    with contextlib.suppress(Exception):
        predict(source, spec, example)
    return _PLUGIN.input_domain(source.inner, spec, example)


def landmarks(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> Mapping[str, Any]:
    """The outputs of layers, by the paths of their names; on the torch backend also tensors of the exported file."""
    # An ordinary call builds the model first, as in `input_domain`.
    with contextlib.suppress(Exception):
        predict(source, spec, feed)
    if BACKEND != "torch":
        return _PLUGIN.landmarks(source.inner, spec, feed)
    from onnx_gate.frameworks.torch.inside.landmarks import landmarks as of_torch

    return of_torch(source.inner, spec, feed, watch=lambda module, heard: watched_layers(source.model, heard))


def tensor_names(source: Source, spec: ModelSpec) -> frozenset[str]:
    """The tensor names that the plug-in of the backend knows."""
    return _PLUGIN.tensor_names(source.inner, spec)


def untrained(source: Source) -> int:
    """The number of trainable weights; 0 if an optimizer has already changed them."""
    optimizer = getattr(source.model, "optimizer", None)
    if optimizer is not None and int(optimizer.iterations) > 0:
        return 0
    return sum(math.prod(weight.shape) for weight in source.model.trainable_weights)


PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    known_cause=known_cause,
    untrained=untrained,
    parameters=parameters,
    settings=settings,
    warm_up=_PLUGIN.warm_up,
    landmarks=landmarks,
    tensor_names=tensor_names,
    drew=_PLUGIN.drew,
    input_domain=input_domain,
)
