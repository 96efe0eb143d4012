"""Weights for a factory's module: a state dict or safetensors, held against what the module has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.sources import failed, kind_of, require_content
from onnx_gate.vocabulary import Cause

_SHOWN = 5


def load_weights(module: torch.nn.Module, path: str) -> None:
    """Load all of them, or say which don't fit."""
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
    """What doesn't fit, and what to do; both empty where all does."""
    if not isinstance(state, dict):
        return f"got {kind_of(state)}, expected a state dict", "save a state dict: torch.save(model.state_dict(), …)"
    inner = [key for key, value in state.items() if isinstance(value, dict) and value]
    if inner and not all(isinstance(value, torch.Tensor) for value in state.values()):
        return (
            f"this is a checkpoint with the entries {_list(list(state))}, expected a state dict alone",
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
        f"missing: {_list(missing)}" if missing else "",
        f"unexpected: {_list(unexpected)}" if unexpected else "",
        f"of another shape: {_list(shapes)}" if shapes else "",
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
    """Whether another key that is there holds the very same memory: such a tensor is saved once."""
    tensor = wanted[key]
    if not isinstance(tensor, torch.Tensor) or not tensor.numel() or tensor.is_meta:
        return False
    return any(
        other in state and isinstance(wanted[other], torch.Tensor) and wanted[other].data_ptr() == tensor.data_ptr()
        for other in wanted
        if other != key
    )


def _list(names: list[Any]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(str, names[:_SHOWN])) + more
