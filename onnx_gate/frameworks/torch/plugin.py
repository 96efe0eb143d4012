"""PyTorch, exported by torch.onnx's default (dynamo) exporter; TorchScript by the TorchScript exporter."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Plugin, in_double
from onnx_gate.frameworks.torch.domain import find_domains
from onnx_gate.frameworks.torch.export import export
from onnx_gate.frameworks.torch.files import takes_of_module
from onnx_gate.frameworks.torch.inputs import bind, dtype_fix, tensors_of, wrong_dtypes
from onnx_gate.frameworks.torch.inside.folded import folds
from onnx_gate.frameworks.torch.inside.landmarks import landmarks, tensor_names
from onnx_gate.frameworks.torch.known import find_known
from onnx_gate.frameworks.torch.load import Source, load_source
from onnx_gate.frameworks.torch.operators import keep_operators
from onnx_gate.frameworks.torch.outputs import as_answer, name_outputs
from onnx_gate.frameworks.torch.random import drew, refuse_random, seeded
from onnx_gate.frameworks.torch.state import changed_since, in_training, snapshot
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer, Triage
from onnx_gate.records.seen import Seen
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import describe

torch.set_num_threads(1)

_NUMPY_FLOATS = (torch.float16, torch.float32, torch.float64)
_DTYPES_DIFFER = re.compile(r"same dtype|expected scalar type|should be the same|same type|dtype of", re.IGNORECASE)


def warm_up(export: bool) -> None:
    """Export a dummy: a forked job's first export then takes a fraction of the time."""
    if export:
        keep_operators()
        dynamic = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(
            torch.nn.Linear(2, 2).eval(),
            (torch.zeros(2, 2),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=dynamic,
        )


def load(spec: ModelSpec) -> Source:
    """The source with its weights, in eval mode."""
    return load_source(spec)


def predict(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The answers of the source, by output name; random numbers are the same in each call."""
    binding = bind(source, spec)
    args, kwargs = binding.arrange(tensors_of(binding, spec, feed))
    try:
        with torch.no_grad(), seeded():
            answered = source.module(*args, **kwargs)
    except (RuntimeError, AssertionError) as error:
        if told := _refusal(source, spec, error):
            raise told from error
        raise
    return {name: as_answer(name, value) for name, value in name_outputs(answered, spec)}


def _refusal(source: Source, spec: ModelSpec, error: Exception) -> CannotJudge | None:
    """The error for a known reason why a source refuses its feed; None where the reason is unknown."""
    if _DTYPES_DIFFER.search(str(error)) and (told := wrong_dtypes(source, spec)):
        fix = dtype_fix(source, spec)
        return CannotJudge(Cause.LOAD_FAILED, f"{spec.source.shown}: {told} ({describe(error)})", fix=fix)
    if source.program is not None and "Guard failed" in str(error):
        return CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the program was exported for other sizes ({describe(error)})",
            fix="declare the sizes that it was exported for in `shape`, or export it with these dimensions dynamic",
        )
    return None


def convert(source: Source, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Export with our own names, which the exporter would otherwise change silently."""
    binding = bind(source, spec)
    before = snapshot(source.module)
    outputs = list(predict(source, spec, example))
    changed = changed_since(before, source.module)
    training = in_training(source.module)
    try:
        notes = export(source, spec, binding, tensors_of(binding, spec, example), path, outputs)
    except CannotJudge as error:
        if changed and error.cause is Cause.CONVERSION_FAILED:
            kept = ", ".join(changed[:5])
            fix = "make the state an input and an output of forward(): an ONNX file keeps nothing between calls"
            raise CannotJudge(Cause.NONDETERMINISTIC, f"{error}; forward() keeps state in {kept}", fix=fix) from error
        raise
    refuse_random(path, spec)
    if changed := [name for name in changed if not isinstance(before.get(name), int | float | str)]:
        notes.append(f"forward() changes {', '.join(changed[:5])} from call to call, which an ONNX file can't")
    if training:
        notes.append(f"in training mode, though the module was put into eval mode: {', '.join(training[:5])}")
    return notes


def widen(source: Source, spec: ModelSpec) -> tuple[Source, ModelSpec] | None:
    """A copy of the module in float64; None for TorchScript and programs, whose float types are fixed."""
    if source.scripted or source.program is not None:
        return None
    try:
        return replace(source, module=copy.deepcopy(source.module).double(), traced=None), in_double(spec)
    except Exception:
        return None


def known_cause(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """State, training mode, random numbers, narrowed dimensions: causes that the source itself shows."""
    return find_known(source, spec, feed, lambda fed: predict(source, spec, fed))


def tails(source: Source, spec: ModelSpec) -> Iterator[Source]:
    """A Sequential without its first modules."""
    if isinstance(source.module, torch.nn.Sequential):
        yield from (
            replace(source, module=source.module[first:], traced=None) for first in range(1, len(source.module))
        )


def parameters(source: Source) -> dict[str, Any]:
    """Parameters and buffers by the names that torch gives them."""
    kept = ((name, value) for name, value in source.module.state_dict().items() if hasattr(value, "dtype"))
    floats = ((name, value) for name, value in kept if value.dtype in _NUMPY_FLOATS and not value.is_quantized)
    return {name: value.detach().cpu().numpy() for name, value in floats}


def settings(source: Source) -> dict[str, float]:
    """Float attributes of modules by their paths; TorchScript keeps its attributes elsewhere."""
    parts = source.module.named_modules()
    return {
        f"{path}.{name}": value
        for path, part in parts
        if not isinstance(part, torch.jit.ScriptModule)
        for name, value in vars(part).items()
        if isinstance(value, float)
    }


def takes(source: Source) -> Seen | None:
    """The inputs, from the code of `forward` and the layers of the module."""
    return takes_of_module(source.module)


def untrained(source: Source) -> int:
    """The number of parameters that take gradients and never had one; 0 for programs and TorchScript."""
    if source.program is not None or source.scripted or any(p.grad is not None for p in source.module.parameters()):
        return 0
    return sum(p.numel() for p in source.module.parameters() if p.requires_grad)


PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    warm_up=warm_up,
    widen=widen,
    known_cause=known_cause,
    takes=takes,
    untrained=untrained,
    parameters=parameters,
    folds=folds,
    settings=settings,
    tails=tails,
    drew=drew,
    landmarks=landmarks,
    tensor_names=tensor_names,
    input_domain=find_domains,
)
