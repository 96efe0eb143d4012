"""Load a PyTorch source: a factory's module, a TorchScript archive, or an exported program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.torch import archive_entries, is_program, is_torchscript
from onnx_gate.frameworks.torch.refusals.idiom import TORCH, Idiom
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first
from onnx_gate.worker.user_code import call, failed, kind_of, registered, require_content

WAYS_OUT = (
    "write a factory and name both: `source: model.py:build`, `weights: model.pt` (a state dict); or save the whole "
    "model with torch.jit.script(model).save(…) or torch.export.save(…)"
)


@dataclass(frozen=True, kw_only=True)
class Traced:
    """The form of a source between the model and the ONNX file, as the exporter made it."""

    program: Any
    """The program, decomposed into the operators that were translated; it shares the source's parameters."""
    tensors: Mapping[str, str]
    """Node of the program → the tensor of the file that holds its value."""


@dataclass(kw_only=True)
class Source:
    """A model of the user, ready to answer, with facts that its export has shown."""

    module: Any
    """The object that is called: an nn.Module, a ScriptModule, or the module of a program."""
    program: Any = None
    """The exported program, where the source is one."""
    translations: Mapping[Any, Any] = field(default_factory=dict)
    """The table of the `register` hook: operator of torch → onnxscript function."""
    idiom: Idiom = TORCH
    """The words that its users know."""
    restricted: dict[str, str] = field(default_factory=dict)
    """Dimensions that the exporter narrowed, each with its allowed sizes."""
    fixed: dict[str, str] = field(default_factory=dict)
    """Dimensions that the manifest names and the exporter turned into constants: the size, and the line that did it."""
    frozen: tuple[str, ...] = ()
    """Lines of forward() whose result a trace turned into a constant."""
    frozen_sizes: frozenset[str] = frozenset()
    """Those of them that ask for a size, and not for the values of a tensor."""
    traced: Traced | None = None
    """The program of the file that this source was exported to, if it was exported here and through a program."""

    @property
    def scripted(self) -> bool:
        """Whether a part of it is TorchScript, which only the TorchScript exporter takes."""
        return any(isinstance(part, torch.jit.ScriptModule) for part in self.module.modules())


def load_source(spec: ModelSpec) -> Source:
    """The source in eval mode, on the CPU; its custom operators are registered first."""
    torch.manual_seed(0)
    translations = registered(spec, "torch.ops.my.op.default: onnxscript_function")
    built = call(spec.source, spec.folder) if spec.source.callable else _read(str(spec.source.file), spec.source.shown)
    if isinstance(built, torch.export.ExportedProgram):
        if spec.weights:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{spec.source.shown}: an exported program holds its weights, and `weights:` names others",
                fix="remove `weights:`, or name a factory as the source",
            )
        return Source(module=built.module(), program=built, translations=translations)
    if not isinstance(built, torch.nn.Module):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: got {kind_of(built)}, expected a torch.nn.Module",
            fix="return the module",
        )
    if spec.weights:
        load_weights(built, spec.weights)
    if not isinstance(built, torch.jit.ScriptModule):
        built = built.cpu()
    return Source(module=built.eval(), translations=translations)


def _read(path: str, shown: str) -> Any:
    require_content(path, shown)
    entries = archive_entries(path, shown)
    try:
        if is_torchscript(entries):
            return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        if is_program(entries, path):
            return torch.export.load(path)
    except Exception as error:
        fix = "is it whole, and saved by a version of torch that this one reads? Save it again"
        raise failed(Cause.LOAD_FAILED, f"{shown}: torch {torch.__version__} can't load it", error, fix=fix) from error
    raise _no_model(path, shown)


def _no_model(path: str, shown: str) -> CannotJudge:
    """The reason why a file that is neither TorchScript nor a program can't be the source."""
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if "GLOBAL" in str(error) or "global" in str(error):
            what = "this is a pickled module (torch.save(model)), which runs code of its own when it is loaded"
            return CannotJudge(
                Cause.LOAD_FAILED, f"{shown}: {what}; expected TorchScript or a .pt2 program", fix=WAYS_OUT
            )
        what = "this is neither a TorchScript archive nor a .pt2 program, and no state dict either"
        return CannotJudge(Cause.LOAD_FAILED, f"{shown}: {what}", fix=WAYS_OUT)
    what = f"a state dict of {len(held)} entries" if isinstance(held, dict) else kind_of(held)
    return CannotJudge(Cause.LOAD_FAILED, f"{shown}: this holds {what}, which is no model by itself", fix=WAYS_OUT)


_SHOWN = 5


def load_weights(module: torch.nn.Module, path: str) -> None:
    """Load all weights, or report those that don't fit."""
    shown = Path(path).name
    require_content(path, shown)
    try:
        if path.endswith(".safetensors"):
            state = safetensors.torch.load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        fix = "save a state dict: torch.save(model.state_dict(), …), or safetensors"
        raise failed(Cause.LOAD_FAILED, shown, error, fix=fix) from error
    wrong, fix = _misfits(module, state)
    if wrong:
        raise CannotJudge(Cause.LOAD_FAILED, f"{shown}: {wrong}", fix=fix)
    hollow = any(tensor.is_meta for tensor in module.parameters())
    try:
        module.load_state_dict(state, strict=False, assign=hollow)
    except Exception as error:
        fix = "save the weights of the very module that the factory builds"
        raise failed(Cause.LOAD_FAILED, shown, error, fix=fix) from error


def _misfits(module: torch.nn.Module, state: Any) -> tuple[str, str]:
    """The weights that don't fit, and the fix; both empty where all of them fit."""
    if not isinstance(state, dict):
        return f"got {kind_of(state)}, expected a state dict", "save a state dict: torch.save(model.state_dict(), …)"
    inner = [key for key, value in state.items() if isinstance(value, dict) and value]
    if inner and not all(isinstance(value, torch.Tensor) for value in state.values()):
        return (
            f"this is a checkpoint with the entries {first(map(str, state), _SHOWN)}, expected a state dict alone",
            f"save the part with the weights: torch.save(checkpoint[{inner[0]!r}], …)",
        )
    wanted = module.state_dict()
    missing = [key for key in wanted if key not in state and not _is_tied(key, wanted, state)]
    unexpected = [key for key in state if key not in wanted]
    shapes = [
        f"{key} is {tuple(state[key].shape)}, the module's is {tuple(tensor.shape)}"
        for key, tensor in wanted.items()
        if isinstance(tensor, torch.Tensor) and key in state and state[key].shape != tensor.shape
    ]
    parts = [
        f"missing: {first(map(str, missing), _SHOWN)}" if missing else "",
        f"unexpected: {first(map(str, unexpected), _SHOWN)}" if unexpected else "",
        f"of another shape: {first(map(str, shapes), _SHOWN)}" if shapes else "",
    ]
    told = "; ".join(part for part in parts if part)
    if not told:
        return "", ""
    if missing and {key.removeprefix("module.") for key in unexpected} == set(missing):
        return (
            f"its keys don't fit the module; {told}",
            "they were saved with a wrapper: save model.module.state_dict()",
        )
    return (
        f"its weights don't fit the module that the factory builds; {told}",
        "save the weights of the very module that the factory builds",
    )


def _is_tied(key: str, wanted: dict[str, Any], state: dict[str, Any]) -> bool:
    """Whether another key that is present shares the same memory: such a tensor is saved once."""
    tensor = wanted[key]
    if not isinstance(tensor, torch.Tensor) or not tensor.numel() or tensor.is_meta:
        return False
    return any(
        other in state and isinstance(wanted[other], torch.Tensor) and wanted[other].data_ptr() == tensor.data_ptr()
        for other in wanted
        if other != key
    )
