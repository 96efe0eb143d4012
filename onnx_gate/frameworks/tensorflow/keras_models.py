"""The call of a Keras model, its output names, and its layers' outputs and weights, for every backend.

No backend is imported.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause

_BESIDE = frozenset({"training", "mask"})
"""Parameters of call() that are not inputs."""


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """A model that is ready to be called."""

    function: Callable[..., Any]
    """The model, in inference mode."""
    pack: Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    """Tensors by the manifest's names → the arguments of the function."""
    output_names: tuple[str, ...] | None
    """Names in the order of the outputs; None if the model doesn't know them."""


def is_keras(built: Any) -> bool:
    """Whether an object is a layer or model of Keras 3."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(built, keras.layers.Layer)


def require_backend(wanted: str, spec: ModelSpec) -> None:
    """Raise where Keras runs on another backend than the one that the framework needs."""
    if (got := sys.modules["keras"].backend.backend()) != wanted:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: Keras runs on the backend {got!r} here, expected {wanted!r}",
            fix=f"set KERAS_BACKEND={wanted}, or write `framework: keras`",
        )


def pack_keras(model: Any, names: Sequence[str], spec: ModelSpec) -> Arranged:
    """The way to call the model: by its own inputs if it knows them, else by the parameters of call()."""
    structure = _structure(model)
    pack = _by_parameters(model, names) if structure is None else _by_structure(structure, names, spec)
    return Arranged(function=_inference(model), pack=pack, output_names=_output_names(model))


def _inference(model: Any) -> Callable[..., Any]:
    """The model with `training=False`, if it takes this argument: a subclassed model may not."""
    takes = "training" in inspect.signature(model.call).parameters
    return (lambda *args, **kwargs: model(*args, training=False, **kwargs)) if takes else model


def _structure(model: Any) -> Any:
    """The inputs of a functional or sequential model, nested as the model takes them; None for a subclassed model."""
    inner = getattr(model, "_functional", None) or model
    return getattr(inner, "_inputs_struct", None)


def _by_structure(structure: Any, names: Sequence[str], spec: ModelSpec) -> Any:
    if isinstance(structure, Mapping):
        keys = {str(key): str(key) for key in structure} | {one.name: str(key) for key, one in structure.items()}
        _require(set(names) <= set(keys) and len(names) == len(structure), list(structure), names, spec)
        return lambda tensors: (({keys[name]: tensor for name, tensor in tensors.items()},), {})
    if isinstance(structure, list | tuple):
        order = [one.name for one in structure]
        _require(len(order) == len(names) and (set(order) == set(names)), order, names, spec)
        return lambda tensors: ((type(structure)(tensors[name] for name in order),), {})
    _require(len(names) == 1, [structure.name], names, spec)
    return lambda tensors: (tuple(tensors.values()), {})


def _require(fits: bool, taken: Sequence[str], names: Sequence[str], spec: ModelSpec) -> None:
    if not fits:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the model takes {', '.join(map(str, taken))}; the manifest has "
            f"{', '.join(names)} under `inputs`",
            fix="use the model's names for the inputs under `inputs`",
        )


def _by_parameters(model: Any, names: Sequence[str]) -> Any:
    parameters = [name for name in inspect.signature(model.call).parameters if name not in _BESIDE]
    if set(names) <= set(parameters):
        # Keras takes the first input by position only.
        return lambda tensors: (
            (tensors[parameters[0]],) if parameters[0] in tensors else (),
            {name: tensor for name, tensor in tensors.items() if name != parameters[0]},
        )
    if len(names) > 1 and len(parameters) == 1:
        return lambda tensors: ((dict(tensors),), {})
    return lambda tensors: (tuple(tensors.values()), {})


def _output_names(model: Any) -> tuple[str, ...] | None:
    inner = getattr(model, "_functional", None) or model
    outputs = getattr(inner, "_outputs_struct", None)
    if outputs is None or isinstance(outputs, Mapping):
        # A dict already has names.
        return None
    return tuple(map(str, inner.output_names))


@contextlib.contextmanager
def watched_layers(model: Any, heard: Callable[[str, Any], None]) -> Iterator[None]:
    """Report the output of every layer of a model to `heard`, with the path of its name: `head`, `backbone.conv1`.

    All backends call a layer's own `call`, so it is wrapped; Keras has no hooks of its own.
    """
    with contextlib.ExitStack() as watched:
        for path, layer in named_layers(model):
            # setattr is not used: Keras would see it as a change of the model.
            if "call" not in vars(layer):
                vars(layer)["call"] = _telling(layer.call, path, heard)
                watched.callback(vars(layer).pop, "call", None)
        yield


def _telling(call: Callable[..., Any], path: str, heard: Callable[[str, Any], None]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        answered = call(*args, **kwargs)
        heard(path, answered)
        return answered

    return called


def named_layers(layer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All layers inside a layer, the outer ones first. A layer that is used in several places keeps its first name."""
    for inner in layer._layers:
        name = f"{path}.{inner.name}" if path else str(inner.name)
        yield name, inner
        yield from named_layers(inner, name)


def weights_of(model: Any) -> dict[str, Any]:
    """The float weights by their paths."""
    weights = {str(weight.path): weight.value for weight in model.weights if "float" in str(weight.dtype)}
    return {name: sys.modules["keras"].ops.convert_to_numpy(value) for name, value in weights.items()}


def settings_of(model: Any) -> dict[str, float]:
    """The float settings of layers, by the paths of their names."""
    found: dict[str, float] = {}
    for path, layer in named_layers(model):
        # A layer of the user may have no configuration.
        with contextlib.suppress(Exception):
            given = layer.get_config().items()
            found |= {f"{path}.{name}": value for name, value in given if isinstance(value, float)}
    return found
