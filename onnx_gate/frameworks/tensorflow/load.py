"""Load a TensorFlow source: a SavedModel, or the model of a factory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.tensorflow.keras_models import is_keras, pack_keras, require_backend
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import call, failed, kind_of, registered

DEFAULT = "serving_default"
"""The signature that model servers call, and that Keras writes."""
_OWN = frozenset({"__saved_model_init_op"})
_EXPECTED = "a tf.function, a tf.Module, a Keras model or a loaded SavedModel"

Pack = Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model of the user, ready to answer."""

    function: Callable[..., Any]
    """The function that is called."""
    pack: Pack
    """Tensors by the manifest's names → the function's arguments."""
    owner: Any
    """The owner of the variables and tables: TensorFlow's functions hold them only weakly."""
    shown: str
    """The name of the source in messages."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """The manifest's name → the TensorSpec that the source itself declares."""
    output_names: tuple[str, ...] | None = None
    """Names of the outputs, where the source has names and its answers don't."""
    translations: Mapping[str, Any] = field(default_factory=dict)
    """The table of the `register` hook: operator of TensorFlow → function of tf2onnx."""
    notes: tuple[str, ...] = ()
    """Choices among several possibilities, for the report."""


def load_source(spec: ModelSpec) -> Source:
    """The source on the CPU; its declared inputs are checked against the manifest."""
    tf.random.set_seed(0)
    translations = as_translations(registered(spec, "'Erfc': function(ctx, node, name, args)"))
    built = call(spec.source, spec.folder) if spec.source.callable else _read(str(spec.source.file), spec.source.shown)
    source = source_of(built, spec)
    _require_fit(source, spec)
    return replace(source, translations=translations)


def tensor_of(given: InputSpec, value: Any) -> Any:
    """An input as a TensorFlow tensor. It is a copy: ONNX Runtime gets the same feed later."""
    return tf.constant(np.array(value), dtype=tf.as_dtype(given.dtype))


def as_translations(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table in the form that tf2onnx takes: each function with its arguments."""
    return {name: made if isinstance(made, tuple) else (made, []) for name, made in table.items()}


def _read(path: str, shown: str) -> Any:
    if not (Path(path) / "saved_model.pb").is_file():
        found = ", ".join(sorted(entry.name for entry in Path(path).iterdir())[:5]) or "nothing"
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: the folder has no saved_model.pb; it holds {found}",
            fix="name the folder that tf.saved_model.save or model.export wrote, or a factory",
        )
    try:
        return tf.saved_model.load(path)
    except Exception as error:
        fix = "is the folder whole (variables/ too), and saved by a version of TensorFlow that this one reads?"
        where = f"{shown}: TensorFlow {tf.__version__} can't load it"
        raise failed(Cause.LOAD_FAILED, where, error, fix=fix) from error


def source_of(built: Any, spec: ModelSpec) -> Source:
    """The source for an object of a factory, with the way to call it."""
    names = [given.name for given in spec.inputs or ()]
    if is_keras(built):
        require_backend("tensorflow", spec)
        arranged = pack_keras(built, names, spec)
        return Source(
            function=arranged.function,
            pack=arranged.pack,
            owner=built,
            shown="the model",
            output_names=arranged.output_names,
        )
    if getattr(built, "signatures", None) is not None:
        return _signature(built, names, spec)
    if _is_function(built):
        return _function(built, built, names)
    if isinstance(built, tf.Module):
        return _function(_called(built, spec), built, names)
    if inspect.isfunction(built) or inspect.ismethod(built):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: got a plain function, expected {_EXPECTED}",
            fix="decorate it with @tf.function",
        )
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{spec.source.shown}: got {kind_of(built)}, expected {_EXPECTED}",
        fix="return the model",
    )


def _is_function(built: Any) -> bool:
    return hasattr(built, "get_concrete_function") or hasattr(built, "structured_input_signature")


def _called(module: Any, spec: ModelSpec) -> Any:
    """`__call__`, or else the only tf.function of the module."""
    if callable(module):
        return module.__call__ if _is_function(module.__call__) else module
    names = dict.fromkeys([*vars(type(module)), *vars(module)])
    found = {name: made for name in names if _is_function(made := getattr(module, name, None))}
    if len(found) == 1:
        return next(iter(found.values()))
    listed = ", ".join(found) or "none"
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{spec.source.shown}: the module has no __call__, and its tf.functions are: {listed}; expected exactly one",
        fix="define __call__, decorated with @tf.function, for what is to be compared",
    )


def _signature(loaded: Any, names: list[str], spec: ModelSpec) -> Source:
    """The signature with the manifest's inputs; if there are several, `serving_default`."""
    known = {name: made for name, made in loaded.signatures.items() if name not in _OWN}
    inputs = {name: made.structured_input_signature[1] for name, made in known.items()}
    fitting = [name for name, taken in inputs.items() if set(taken) == set(names)]
    if not fitting and len(names) == 1:
        fitting = [name for name, taken in inputs.items() if len(taken) == 1]
    chosen = DEFAULT if DEFAULT in fitting else next(iter(fitting), "")
    if not chosen or (len(fitting) > 1 and chosen != DEFAULT):
        raise _no_signature(spec, names, inputs, fitting)
    taken = inputs[chosen]
    keys = {name: name if name in taken else next(iter(taken)) for name in names}
    rest = [name for name in fitting if name != chosen and name != "serve"]
    note = f"compared the signature {chosen!r}; {', '.join(rest)} has the same inputs" if rest else ""
    return Source(
        function=known[chosen],
        pack=lambda tensors: ((), {keys[name]: tensor for name, tensor in tensors.items()}),
        owner=loaded,
        shown=f"the signature {chosen!r}",
        declared={name: taken[key] for name, key in keys.items()},
        notes=(note,) if note else (),
    )


def _no_signature(
    spec: ModelSpec, names: list[str], inputs: dict[str, dict[str, Any]], fitting: list[str]
) -> CannotJudge:
    if not inputs:
        return CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the SavedModel has no signature",
            fix="save it with signatures={'serving_default': model.__call__.get_concrete_function(…)}, or with "
            "model.export(…) if it is Keras's; or name a factory",
        )
    listed = "; ".join(f"{name} takes {', '.join(taken) or 'nothing'}" for name, taken in inputs.items())
    if fitting:
        return CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: several signatures take these inputs: {', '.join(fitting)}; expected one, or "
            f"{DEFAULT!r} among them",
            fix="name a factory that keeps MODEL = tf.saved_model.load(…) globally and returns MODEL.signatures['…']",
        )
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{spec.source.shown}: no signature takes the inputs {', '.join(names)}: {listed}",
        fix="use the signature's names for the inputs under `inputs`",
    )


def _function(function: Any, owner: Any, names: list[str]) -> Source:
    """The source for a tf.function or a concrete function, called by name, with a dict, or by position."""
    declared = _declared(function)
    parameters = list(declared) or _parameters(function)
    if len(parameters) == 1 and isinstance(declared.get(parameters[0]), Mapping):
        entries = declared[parameters[0]]
        known = {name: entries[name] for name in names if name in entries}
        return Source(
            function=function, pack=lambda t: ((dict(t),), {}), owner=owner, shown="the function", declared=known
        )
    if set(names) <= set(parameters):
        known = {name: declared[name] for name in names if name in declared}
        return Source(
            function=function, pack=lambda t: ((), dict(t)), owner=owner, shown="the function", declared=known
        )
    if len(parameters) == 1 and len(names) > 1:
        return Source(function=function, pack=lambda t: ((dict(t),), {}), owner=owner, shown="the function")
    known = dict(zip(names, declared.values(), strict=False))
    return Source(
        function=function, pack=lambda t: (tuple(t.values()), {}), owner=owner, shown="the function", declared=known
    )


def _parameters(function: Any) -> list[str]:
    python = getattr(function, "python_function", function)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(python).parameters.values()
    return [each.name for each in found if each.kind in kinds and each.name not in ("self", "training")]


def _declared(function: Any) -> dict[str, Any]:
    """Parameter → TensorSpec, or a dict of TensorSpecs; empty if the function accepts any input."""
    given = getattr(function, "structured_input_signature", None)
    if given is not None:
        args, kwargs = given
        named = {(getattr(one, "name", None) or f"input_{number}"): one for number, one in enumerate(args)}
        return {**named, **kwargs}
    signature = getattr(function, "input_signature", None)
    return dict(zip(_parameters(function), signature, strict=False)) if signature else {}


def _require_fit(source: Source, spec: ModelSpec) -> None:
    """Check dtype and shape of every input that the source declares: TensorFlow's own errors name neither."""
    for given in spec.inputs or ():
        declared = source.declared.get(given.name)
        if not isinstance(declared, tf.TensorSpec):
            continue
        wanted = f"{source.shown} takes {_show(declared)} as {given.name!r}"
        if declared.dtype.name != given.dtype:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{spec.source.shown}: {wanted}, the manifest says {given.dtype}",
                fix=f"write `dtype: {declared.dtype.name}` for {given.name}",
            )
        sizes = declared.shape.as_list() if declared.shape.rank is not None else [None] * len(given.shape)
        if len(sizes) != len(given.shape) or any(
            size is not None and size != asked for size, asked in zip(sizes, given.shape, strict=True)
        ):
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{spec.source.shown}: {wanted}, the manifest says shape [{', '.join(map(str, given.shape))}]",
                fix="write the sizes that it takes under `inputs`, or save it with None for each dynamic dimension",
            )


def _show(declared: Any) -> str:
    sizes = "any shape" if declared.shape.rank is None else f"{declared.shape.as_list()}".replace("None", "?")
    return f"{declared.dtype.name} {sizes}"
