"""Exports files as people ship them, from either exporter of torch."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

EXAMPLE_ROWS = 3


def export(
    net: nn.Module,
    inputs: Mapping[str, Any],
    example: Sequence[np.ndarray[Any, Any]],
    outputs: Sequence[str],
    *,
    dynamo: bool = False,
    fixed: bool = False,
    training: bool = False,
    translations: Mapping[Any, Any] | None = None,
) -> onnx.ModelProto:
    """Export with torch alone. `fixed` does not declare which sizes vary."""
    tensors = tuple(torch.from_numpy(array) for array in example)
    names: dict[str, Any] = {"input_names": list(inputs), "output_names": list(outputs)}
    axes = {
        name: {axis: size for axis, size in enumerate(given["shape"]) if isinstance(size, str)}
        for name, given in inputs.items()
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        path = str(Path(folder, "net.onnx"))
        net.train(training)
        if dynamo:
            shapes = tuple({axis: torch.export.Dim(size) for axis, size in given.items()} for given in axes.values())
            torch.onnx.export(
                net,
                tensors,
                path,
                dynamo=True,
                dynamic_shapes=None if fixed else shapes,
                custom_translation_table=dict(translations or {}) or None,
                verbose=False,
                **names,
            )
        else:
            mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
            torch.onnx.export(
                net,
                tensors,
                path,
                dynamo=False,
                dynamic_axes=None if fixed else axes,
                training=mode,
                do_constant_folding=not training,
                **names,
            )
        net.eval()
        return onnx.load(path)
