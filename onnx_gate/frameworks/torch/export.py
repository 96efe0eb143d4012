"""Export a torch source with either exporter, under our own names, and without changing it."""

from __future__ import annotations

import copy
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.jit._trace import TracerWarning

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.torch.inputs import Binding
from onnx_gate.frameworks.torch.load import Source, Traced
from onnx_gate.frameworks.torch.outputs import flatten
from onnx_gate.frameworks.torch.refusals.frozen import is_of_size
from onnx_gate.frameworks.torch.refusals.messages import export_failed
from onnx_gate.frameworks.torch.refusals.specialised import find_specialised
from onnx_gate.frameworks.torch.refusals.spots import line_that_calls
from onnx_gate.records.asked import DimLimits, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.names import WRAPPED, name_dims, name_values, placeholder

_REGISTERED = "results are registered as constants"
"""Part of what the tracer says of torch.tensor()."""


class Flat(torch.nn.Module):
    """Wraps forward() so that it takes and returns tensors only: exporters lose the names of everything else."""

    def __init__(self, module: Any, binding: Binding) -> None:
        super().__init__()
        setattr(self, WRAPPED, module)
        self._binding = binding

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors in the output of the user's module."""
        args, kwargs = self._binding.arrange(tensors)
        return tuple(leaf for _, leaf in flatten(getattr(self, WRAPPED)(*args, **kwargs)))


def export(
    source: Source, spec: ModelSpec, binding: Binding, tensors: list[torch.Tensor], path: Path, outputs: list[str]
) -> list[str]:
    """Write the ONNX file; return notes."""
    exporter = spec.convert.get("exporter", "torchscript" if source.scripted else "dynamo")
    _require_exporter(source, spec, exporter)
    names = {
        "input_names": [placeholder("input", number) for number, _ in enumerate(binding.names)],
        "output_names": [placeholder("output", number) for number, _ in enumerate(outputs)],
        "opset_version": spec.convert.get("opset"),
        "verbose": False,
    }
    try:
        with torch.no_grad():
            if exporter == "torchscript":
                program = None
                _export_script(source, spec, binding, tensors, path, names)
            else:
                program = _export_dynamo(source, spec, binding, tensors, path, names)
    except MemoryError:
        raise
    except Exception as error:

        def find(operator: str) -> tuple[str, int] | None:
            return line_that_calls(operator, lambda: Flat(_apart(source.module), binding).eval()(*tensors))

        raise export_failed(spec, error, source.idiom, find) from error
    made = name_values(path, binding.names, outputs)
    name_dims(path, {given.name: given.shape for given in spec.inputs or ()})
    source.traced = _traced(program, made, outputs)
    if program is not None and source.program is None:
        source.restricted = _restricted(program, spec, binding)
        source.fixed = _fixed(program, source, spec, binding, tensors)
    return [
        *(
            f"the exporter narrowed the dimension {name}: the file is made for {told}"
            for name, told in source.restricted.items()
        ),
        *(f"the exporter made a constant of the dimension {name}: {told}" for name, told in source.fixed.items()),
    ] + [
        "the TorchScript exporter follows one example: what depends on a "
        f"{'size' if line in source.frozen_sizes else 'value'} is frozen at {line}"
        for line in source.frozen
    ]


def _traced(exported: Any, made: dict[str, str], outputs: list[str]) -> Traced | None:
    """The program with the tensors that its nodes became in the file.

    The exporter names a tensor after the node whose value it holds, `split__1` where a node has several. Outputs have
    names of their own. A node that an optimisation removed has no tensor.
    """
    program = getattr(exported, "exported_program", None)
    if program is None:
        return None
    returned = program.graph_signature.user_outputs
    tensors = dict(zip(returned, outputs, strict=True)) if len(returned) == len(outputs) else {}
    nodes = {node.name for node in program.graph.nodes}
    tensors |= {name: now for name, now in made.items() if name in nodes or re.sub(r"__\d+$", "", name) in nodes}
    return Traced(program=program, tensors=tensors)


def _require_exporter(source: Source, spec: ModelSpec, exporter: str) -> None:
    wrong = ""
    if exporter == "dynamo" and source.scripted:
        wrong = "the dynamo exporter takes no TorchScript"
    if exporter == "torchscript" and source.program is not None:
        wrong = "the TorchScript exporter takes no exported program"
    if exporter == "torchscript" and source.translations:
        wrong = "the TorchScript exporter knows nothing of the translations that `register` returns"
    if wrong:
        other = "torchscript" if exporter == "dynamo" else "dynamo"
        raise CannotJudge(
            Cause.CONVERSION_FAILED, f"{spec.source.shown}: {wrong}", fix=f"write `convert: {{exporter: {other}}}`"
        )


def _export_dynamo(
    source: Source, spec: ModelSpec, binding: Binding, tensors: list[torch.Tensor], path: Path, names: dict[str, Any]
) -> Any:
    common = {
        **names,
        "dynamo": True,
        "optimize": spec.convert.get("optimize", True),
        "custom_translation_table": dict(source.translations) or None,
    }
    if source.program is not None:
        return torch.onnx.export(source.program, None, str(path), **common)  # type: ignore[arg-type]
    # The example is a copy, and so is every part of the module that a call may change.
    flat = Flat(_apart(source.module), binding).eval()
    shapes = (tuple(_dynamic(spec, binding, tensors)),)
    return torch.onnx.export(flat, tuple(tensors), str(path), dynamic_shapes=shapes, **common)


def _export_script(
    source: Source, spec: ModelSpec, binding: Binding, tensors: list[torch.Tensor], path: Path, names: dict[str, Any]
) -> None:
    shapes = {given.name: given.shape for given in spec.inputs or ()}
    axes = {
        placeholder("input", number): {axis: size for axis, size in enumerate(shapes[name]) if isinstance(size, str)}
        for number, name in enumerate(binding.names)
    }
    flat: Any = Flat(source.module if source.scripted else _apart(source.module), binding).eval()
    if source.scripted:
        # The exporter's own tracing can't see into a script inside a module; a trace made before keeps it whole.
        flat = torch.jit.trace(flat, tuple(tensors), check_trace=False)  # type: ignore[no-untyped-call]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.onnx.export(flat, tuple(tensors), str(path), dynamic_axes=axes, dynamo=False, **names)
    lines = _frozen(caught)
    source.frozen = tuple(lines)
    source.frozen_sizes = frozenset(line for line, of_size in lines.items() if of_size)


def _frozen(caught: list[warnings.WarningMessage]) -> dict[str, bool]:
    """Lines of the user's code where a trace turned something into a constant, and whether that is a size.

    All warnings go to the log.
    """
    found: dict[str, bool] = {}
    for warning in caught:
        print(f"{warning.filename}:{warning.lineno}: {warning.message}", file=sys.stderr)
        if not issubclass(warning.category, TracerWarning) or "site-packages" in warning.filename:
            continue
        of_size = is_of_size(warning.filename, warning.lineno)
        # A tensor of numbers that stand in the code is a constant anyway.
        if of_size or _REGISTERED not in str(warning.message):
            found[f"{Path(warning.filename).name}, line {warning.lineno}"] = of_size
    return found


def _apart(module: torch.nn.Module) -> torch.nn.Module:
    """A copy that shares only the parameters, which may be large and don't change."""
    shared = {id(parameter): parameter for parameter in module.parameters()}
    try:
        return copy.deepcopy(module, shared)
    except Exception:
        # A module that can't be copied (locks, handles, tensors with a history) is exported itself.
        return module


def _dynamic(spec: ModelSpec, binding: Binding, tensors: list[torch.Tensor]) -> list[dict[int, Any]]:
    shapes = {given.name: given.shape for given in spec.inputs or ()}
    sizes = {
        name: int(tensor.shape[axis])
        for given, tensor in zip(binding.names, tensors, strict=True)
        for axis, name in enumerate(shapes[given])
        if isinstance(name, str)
    }
    dims = {name: _dim(name, size, spec.dim_limits.get(name, DimLimits())) for name, size in sizes.items()}
    return [
        {axis: dims[name] for axis, name in enumerate(shapes[given]) if isinstance(name, str)}
        for given in binding.names
    ]


def _dim(name: str, size: int, limits: DimLimits) -> Any:
    """A dimension with its limits, or without them if the example is outside."""
    safe = re.sub(r"\W", "_", name)
    safe = safe if safe.isidentifier() else f"dim_{safe}"
    if size < limits.min or size % limits.multiple or (limits.max is not None and size > limits.max):
        return torch.export.Dim(safe)
    # Exporters turn a factor of 1 into a constant, as they do with a size of 1.
    step = 1 if size == limits.multiple else limits.multiple
    smallest = -(-limits.min // step)
    factor = torch.export.Dim(
        safe if step == 1 else f"_{safe}",
        min=smallest if smallest > 1 else None,
        max=None if limits.max is None else limits.max // step,
    )
    return factor if step == 1 else step * factor


def _fixed(
    exported: Any, source: Source, spec: ModelSpec, binding: Binding, tensors: list[torch.Tensor]
) -> dict[str, str]:
    """Dimensions that the manifest names and the exporter turned into constants, each with its size and the line."""
    shapes = {given.name: given.shape for given in spec.inputs or ()}
    program: Any = getattr(exported, "exported_program", None)
    given = program.graph_signature.user_inputs if program is not None else ()
    values = [node.meta.get("val") for node in program.graph.nodes if node.name in given] if given else []
    lost = {
        (number, axis): name
        for number, (given_name, value) in enumerate(zip(binding.names, values, strict=False))
        for axis, (name, size) in enumerate(zip(shapes[given_name], getattr(value, "shape", ()), strict=False))
        if isinstance(name, str) and isinstance(size, int)
    }
    if not lost:
        return {}
    spots = find_specialised(Flat(_apart(source.module), binding).eval(), tensors, list(lost))
    sizes = {place: int(tensors[place[0]].shape[place[1]]) for place in lost}
    return {name: f"{sizes[place]}{spots.get(place, '')}" for place, name in lost.items()}


def _restricted(exported: Any, spec: ModelSpec, binding: Binding) -> dict[str, str]:
    """Dimensions that the exporter narrowed without a warning, each with its new limits."""
    program = getattr(exported, "exported_program", None)
    if program is None:
        return {}
    shapes = {given.name: given.shape for given in spec.inputs or ()}
    placeholders = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    found: dict[str, str] = {}
    for given, node in zip(binding.names, placeholders, strict=False):
        for name, size in zip(shapes[given], getattr(node.meta.get("val"), "shape", ()), strict=False):
            bounds = program.range_constraints.get(getattr(getattr(size, "node", None), "expr", None))
            if isinstance(name, str) and bounds is not None and (told := _narrower(bounds, spec, name)):
                found[name] = told
    return found


def _narrower(bounds: Any, spec: ModelSpec, name: str) -> str:
    """The bounds in words, if a size that will be run lies outside of them; else empty."""
    limits = spec.dim_limits.get(name, DimLimits())
    tried = spec.batches if name == "batch" else spec.dims.get(name, ())
    low, high = bounds.lower, bounds.upper
    outside = [size for size in (*tried, limits.max) if size is not None and not low <= size <= high]
    if not outside or limits.multiple != 1:
        return ""
    finite = str(high).isdigit()
    low = max(int(low), limits.min)
    return f"sizes from {low} to {high}" if finite else f"sizes from {low}"
