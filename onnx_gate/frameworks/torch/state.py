"""State that a module keeps from call to call, and training mode: an ONNX file can be compared with neither."""

from __future__ import annotations

from typing import Any

import torch

from onnx_gate.frameworks.torch.outputs import flatten

_PLAIN = (bool, int, float, str, type(None))


def snapshot(module: torch.nn.Module) -> dict[str, Any]:
    """Everything that a call may change: buffers and attributes by value, parameters by their version."""
    kept: dict[str, Any] = {}
    for name, parameter in module.named_parameters():
        kept[name] = (parameter.data_ptr(), parameter._version)
    for name, buffer in module.named_buffers():
        kept[name] = buffer.detach().clone()
    for prefix, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            continue
        for attribute, value in vars(part).items():
            if attribute not in _INTERNALS:
                _keep(kept, f"{prefix}.{attribute}".lstrip("."), value)
    return kept


_INTERNALS = frozenset(vars(torch.nn.Module())) | {"training"}


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, _PLAIN):
        kept[name] = value
    elif isinstance(value, torch.Tensor | tuple | list | dict):
        leaves = [leaf for _, leaf in flatten(value)]
        if all(isinstance(leaf, torch.Tensor | bool | int | float | str) for leaf in leaves):
            kept[name] = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def changed_since(before: dict[str, Any], module: torch.nn.Module) -> list[str]:
    """The buffers, parameters and attributes that have changed."""
    after = snapshot(module)
    names = dict.fromkeys([*before, *after])
    return [name for name in names if not _same(before.get(name), after.get(name))]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and bool(_equal(one, other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other or one != one)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.is_floating_point() or one.is_complex():
        return bool(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))
    return torch.equal(one, other)


def in_training(module: torch.nn.Module) -> list[str]:
    """Parts that are in training mode, and behave differently there."""
    kinds = (
        torch.nn.modules.dropout._DropoutNd,
        torch.nn.modules.batchnorm._BatchNorm,
        torch.nn.RNNBase,
        torch.nn.MultiheadAttention,
        torch.nn.RReLU,
    )
    return [
        f"{name or 'the module'} ({type(part).__name__})"
        for name, part in module.named_modules()
        if part.training and isinstance(part, kinds)
    ]
