"""From a feed to forward()'s arguments: by name or by position, dotted names nested, None for null inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.frameworks.torch.nesting import group, hints_of, nest, script_hints
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.vocabulary import Cause

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The way to call a model."""

    names: tuple[str, ...]
    """Names of the tensors, in the order of the ONNX inputs."""
    arrange: Callable[[Sequence[Any]], Arguments]
    """Function from these tensors to forward()'s arguments."""


def bind(source: Source, spec: ModelSpec) -> Binding:
    """The way to call this source with the manifest's inputs."""
    if source.program is not None:
        return _bind_program(source, spec)
    names = tuple(given.name for given in spec.inputs or ())
    order = spec.input_order or names
    scripted = isinstance(source.module, torch.jit.ScriptModule)
    hints = script_hints(source.module) if scripted else hints_of(source.module)
    known = list(hints) if scripted else _keywords(source.module)

    def arrange(values: Sequence[Any]) -> Arguments:
        given: dict[str, Any] = dict.fromkeys(order) | dict(zip(names, values, strict=True))
        grouped = group({name: given[name] for name in order})
        if set(grouped) <= set(known):
            return (), {name: nest(entries, hints.get(name)) for name, entries in grouped.items()}
        kinds = list(hints.values())
        return tuple(
            nest(entries, kinds[number] if number < len(kinds) else None)
            for number, entries in enumerate(grouped.values())
        ), {}

    return Binding(names=names, arrange=arrange)


def _keywords(module: torch.nn.Module) -> list[str]:
    parameters = inspect.signature(module.forward).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _bind_program(source: Source, spec: ModelSpec) -> Binding:
    """The binding of a program, which knows the form of its inputs; arguments that aren't tensors are its constants."""
    in_spec = source.program.call_spec.in_spec
    numbers = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    parameters = [name for name in inspect.signature(source.module.forward).parameters if name not in numbers[1]]
    leaves = {_leaf_name(path, parameters): int(number) for path, number in pytree.tree_flatten_with_path(numbers)[0]}
    fed = source.program.graph_signature.user_inputs
    constants = {number: value for number, value in enumerate(fed) if not isinstance(value, str)}
    tensors = [name for name, number in leaves.items() if number not in constants]
    names = [given.name for given in spec.inputs or ()]
    if len(tensors) != len(names):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the program takes {len(tensors)} tensors ({', '.join(tensors)}), "
            f"the manifest has {len(names)} inputs: {', '.join(names)}",
            fix="name the program's inputs under `inputs`",
        )
    ordered = tuple(tensors if set(tensors) == set(names) else names)

    def arrange(values: Sequence[Any]) -> Arguments:
        flat = dict(zip((leaves[name] for name in tensors), values, strict=True)) | constants
        args, kwargs = pytree.tree_unflatten([flat[number] for number in range(in_spec.num_leaves)], in_spec)
        return tuple(args), dict(kwargs)

    return Binding(names=ordered, arrange=arrange)


def _leaf_name(path: tuple[Any, ...], parameters: list[str]) -> str:
    """The name of an argument, such as `state.0`; the path is args or kwargs, the parameter, and steps into it."""
    steps: list[Any] = [getattr(step, "key", getattr(step, "idx", getattr(step, "name", ""))) for step in path[1:]]
    if path[0].idx == 0:
        steps[0] = parameters[steps[0]] if steps[0] < len(parameters) else f"input_{steps[0]}"
    return ".".join(map(str, steps))


def tensors_of(binding: Binding, spec: ModelSpec, feed: dict[str, Any]) -> list[torch.Tensor]:
    """The feed as tensors. They are copies: forward() may write into them, and the ONNX side gets the same feed."""
    given = {known.name: known for known in spec.inputs or ()}
    return [_tensor(given[name], feed[name]) for name in binding.names]


def _tensor(given: InputSpec, value: Any) -> torch.Tensor:
    array = np.array(value)
    if given.dtype == "string" or array.dtype == object:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"the input {given.name!r} is of strings, and torch has tensors of numbers only",
            fix="declare what the tokenizer makes of them, such as `{dtype: int64, shape: [batch, seq]}`",
        )
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    tensor = torch.from_numpy(array)
    return tensor.to(torch.bfloat16) if given.dtype == "bfloat16" else tensor


def wrong_dtypes(source: Source, spec: ModelSpec) -> str:
    """A sentence on inputs whose float type differs from the weights'; empty where they agree, or nothing is known."""
    widths = {str(p.dtype).removeprefix("torch.") for p in source.module.parameters() if p.is_floating_point()}
    other = [given for given in spec.inputs or () if "float" in given.dtype and given.dtype not in widths]
    if not widths or not other:
        return ""
    told = ", ".join(f"the input {given.name!r} is {given.dtype}" for given in other)
    return f"{told} in the manifest, and the model's weights are {' and '.join(sorted(widths))}"


def dtype_fix(source: Source, spec: ModelSpec) -> str:
    """The fix for inputs whose float type differs from the weights'."""
    width = next(str(p.dtype).removeprefix("torch.") for p in source.module.parameters() if p.is_floating_point())
    wanted = next(given.dtype for given in spec.inputs or () if "float" in given.dtype and given.dtype != width)
    cast = {"float64": "double", "float16": "half", "float32": "float"}.get(wanted, wanted)
    return f"declare `dtype: {width}` for it under `inputs`, or let the factory return model.{cast}()"
