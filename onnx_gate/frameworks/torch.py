"""PyTorch, exported by torch.onnx's default (dynamo) exporter."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import onnxscript  # noqa: F401  (what the exporter would import first; here so that the warm server holds it)
import safetensors.torch
import torch
from torch.utils import _pytree as pytree

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.widths import in_double
from onnx_gate.onnx_names import name_outputs, placeholder
from onnx_gate.records import Answer, ModelSpec, Triage
from onnx_gate.sources import call, describe, failed, kind_of, require_content

torch.set_num_threads(1)


def warm_up(export: bool) -> None:
    """Export a dummy: a forked job's first export then takes a third of the time."""
    if export:
        dynamic = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(
            torch.nn.Linear(2, 2).eval(),
            (torch.zeros(2, 2),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=dynamic,
        )


def load(spec: ModelSpec) -> torch.nn.Module:
    """The factory's module, with its weights, in eval mode."""
    torch.manual_seed(0)
    module = call(spec.source, spec.folder)
    if not isinstance(module, torch.nn.Module):
        raise CannotJudge(
            "load-failed",
            f"{spec.source.shown}: got {kind_of(module)}, expected a torch.nn.Module",
            fix="return the module",
        )
    if spec.weights:
        _load_weights(module, spec.weights)
    return module.eval()


def _load_weights(module: torch.nn.Module, path: str) -> None:
    shown = Path(path).name
    require_content(path, shown)
    try:
        if path.endswith(".safetensors"):
            state = safetensors.torch.load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        fix = "save a state dict: torch.save(model.state_dict(), …), or safetensors"
        raise failed("load-failed", shown, error, fix=fix) from error
    try:
        module.load_state_dict(state)
    except Exception as error:
        fix = "save the weights of the very module that the factory builds"
        raise failed("load-failed", shown, error, fix=fix) from error


def predict(source: torch.nn.Module, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """What the module answers, by output name."""
    args, kwargs = _bind(source, spec, feed)
    with torch.no_grad():
        answered = source(*args, **kwargs)
    return {name: _answer(name, value) for name, value in _named(answered, spec)}


def _answer(name: str, value: Any) -> Answer:
    if not isinstance(value, torch.Tensor):
        raise CannotJudge(
            "load-failed",
            f"forward() returns a {type(value).__name__} as {name!r}, expected tensors",
            fix="return tensors only",
        )
    array = value.detach().cpu()
    dtype = str(array.dtype).removeprefix("torch.")
    return Answer(value=(array.float() if array.dtype == torch.bfloat16 else array).numpy(), dtype=dtype)


def _bind(module: torch.nn.Module, spec: ModelSpec, feed: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """By name where forward has all the names, else all by position."""
    names = [given.name for given in spec.inputs or ()] or list(feed)
    # A copy: forward may write into its inputs, and the other side gets the same feed.
    tensors = {name: torch.from_numpy(np.array(feed[name])) for name in names}
    if _binds_by_name(module, names):
        return (), tensors
    return tuple(tensors[name] for name in names), {}


def _binds_by_name(module: torch.nn.Module, names: list[str]) -> bool:
    parameters = inspect.signature(module.forward).parameters.values()
    usable = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return set(names) <= usable


def _named(answered: Any, spec: ModelSpec) -> list[tuple[str, Any]]:
    leaves = [(path, leaf) for path, leaf in pytree.tree_flatten_with_path(answered)[0] if leaf is not None]
    names = [_name(path) for path, _ in leaves]
    if spec.output_names:
        if len(spec.output_names) != len(names):
            raise CannotJudge(
                "load-failed",
                f"output_names: got {len(spec.output_names)} names, and the model has {len(names)} outputs: "
                f"{', '.join(names)}",
                fix="give one name an output",
            )
        names = list(spec.output_names)
    return [(name, leaf) for name, (_, leaf) in zip(names, leaves, strict=True)]


def _name(path: tuple[Any, ...]) -> str:
    """`output`, `output_0`, `logits`, `aux.0`."""
    if not path:
        return "output"
    steps = [str(getattr(step, "key", getattr(step, "idx", getattr(step, "name", "")))) for step in path]
    first = f"output_{steps[0]}" if isinstance(path[0], pytree.SequenceKey) else steps[0]
    return ".".join([first, *steps[1:]])


def convert(source: torch.nn.Module, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Export with our own names, which the exporter would otherwise change silently."""
    args, kwargs = _bind(source, spec, example)
    outputs = list(predict(source, spec, example))
    names = [given.name for given in spec.inputs or ()]
    axes = {given.name: given.shape for given in spec.inputs or ()}
    dims = {size: torch.export.Dim(size) for shape in axes.values() for size in shape if isinstance(size, str)}
    dynamic = {
        name: {axis: dims[size] for axis, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in axes.items()
    }
    try:
        torch.onnx.export(
            source,
            args,
            str(path),
            kwargs=kwargs or None,
            input_names=names,
            output_names=[placeholder(number) for number, _ in enumerate(outputs)],
            dynamic_shapes=dynamic if kwargs else tuple(dynamic[name] for name in names),
            opset_version=spec.convert.get("opset"),
            optimize=spec.convert.get("optimize", True),
            dynamo=True,
            verbose=False,
        )
    except MemoryError:
        raise
    except Exception as error:
        raise _export_failed(spec, error) from error
    name_outputs(path, outputs)
    return []


def _export_failed(spec: ModelSpec, error: Exception) -> CannotJudge:
    text = describe(error)
    fix = "rewrite that part of forward(), or export it yourself and name the file as `onnx:`"
    if "GuardOnDataDependentSymNode" in text or "data-dependent" in text:
        fix = "forward() branches on a tensor's values: use torch.where or torch.cond there"
    if "ConstraintViolation" in text or "Constraints violated" in text:
        fix = "forward() only works for some sizes: make that dimension fixed in `inputs`, or the code general"
    return failed("conversion-failed", f"{spec.source.shown}: torch.onnx.export failed", error, fix=fix)


def widen(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None:
    """A copy of the module in float64."""
    return copy.deepcopy(source).double(), in_double(spec)


def known_cause(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """Nothing is known to go wrong."""
    return None
