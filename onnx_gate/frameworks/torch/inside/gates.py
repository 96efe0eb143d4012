"""Weights of recurrent layers as ONNX stores them: its gates have another order, and both directions are one tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from onnx_gate.frameworks.torch.load import Source

_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""For each kind of layer, the gates of PyTorch in the order of ONNX."""


def stored_as_gates(source: Source) -> list[dict[str, Any]]:
    """For each level of a recurrent layer, its weights in the form of one node, by the names of the first direction."""
    return [
        _level(f"{path}." if path else "", part, level)
        for path, part in source.module.named_modules()
        if isinstance(part, torch.nn.RNNBase) and part.mode in _ORDERS and not part.proj_size
        for level in range(part.num_layers)
    ]


def _level(path: str, layer: Any, level: int) -> dict[str, Any]:
    ends = [f"l{level}", f"l{level}_reverse"][: 2 if layer.bidirectional else 1]

    def joined(kind: str) -> Any:
        return np.stack([_moved(layer, f"{kind}_{end}") for end in ends])

    found = {f"{path}{kind}_{ends[0]}": joined(kind) for kind in ("weight_ih", "weight_hh")}
    if layer.bias:
        both = np.concatenate([joined("bias_ih"), joined("bias_hh")], axis=1)
        found[f"{path}bias_ih_{ends[0]}"] = both
    return found


def _moved(layer: Any, name: str) -> Any:
    """A tensor with its gates in the order of ONNX."""
    order = _ORDERS[layer.mode]
    gates = np.split(getattr(layer, name).detach().cpu().numpy(), len(order))
    return np.concatenate([gates[at] for at in order])
