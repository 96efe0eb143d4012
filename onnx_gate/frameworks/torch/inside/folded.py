"""Weights that exporters store in place of a layer's own: with a BatchNorm computed into them, or with other gates."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from onnx_gate.frameworks.torch.inside.gates import stored_as_gates
from onnx_gate.frameworks.torch.load import Source

_MOST_BEFORE = 3
"""Most layers that may be the one before a BatchNorm."""


def folds(source: Source) -> list[dict[str, Any]]:
    """Weights in the forms in which exporters store them, by the names of the layer's own."""
    return [*_with_norms(source), *stored_as_gates(source)]


def _with_norms(source: Source) -> list[dict[str, Any]]:
    """The weights of each layer with the BatchNorm behind it computed into them.

    What comes before what is decided in forward(). So these are the last layers that were made before the BatchNorm
    and that have as many channels.
    """
    layers: list[tuple[str, Any]] = []
    found = []
    for path, part in source.module.named_modules():
        if isinstance(part, (_ConvNd, torch.nn.Linear)):
            layers.append((path, part))
        elif isinstance(part, _BatchNorm) and part.running_var is not None:
            fits = [one for one in layers if _channels(one[1]) == part.num_features]
            found += [_folded(path, layer, part) for path, layer in fits[-_MOST_BEFORE:]]
    return found


def _channels(layer: Any) -> int:
    return int(layer.out_features if isinstance(layer, torch.nn.Linear) else layer.out_channels)


def _folded(path: str, layer: Any, norm: Any) -> dict[str, Any]:
    numbers = (layer.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    with torch.no_grad():
        if isinstance(layer, torch.nn.Linear):
            weight, bias = fuse_linear_bn_weights(layer.weight, *numbers)
        else:
            transpose = isinstance(layer, _ConvTransposeNd)
            weight, bias = fuse_conv_bn_weights(layer.weight, *numbers, transpose=transpose)
    return {f"{path}.weight": weight.detach().cpu().numpy(), f"{path}.bias": bias.detach().cpu().numpy()}
