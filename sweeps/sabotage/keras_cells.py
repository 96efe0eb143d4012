"""Cells for Keras on the torch backend: converted by the gate, and shipped as files from torch's exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch

from sweeps.sabotage.case import Cell
from sweeps.sabotage.export import EXAMPLE_ROWS, export
from sweeps.sabotage.keras_drafts import NAME, OUTPUT, Kit, recipes_converted, recipes_shipped
from sweeps.sabotage.proof import Feed


def _answer_with(model: Any) -> Callable[[Feed], list[Any]]:
    """A function that returns the answers of the model as an array."""

    def answer(feed: Feed) -> list[Any]:
        with torch.no_grad():
            return [model(torch.from_numpy(feed[NAME]), training=False).numpy()]

    return answer


class Called(torch.nn.Module):
    """Calls a model in inference mode."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        """The answer of the model."""
        return self.model(x, training=False)


def _export(model: Any, width: int) -> onnx.ModelProto:
    example = np.random.default_rng(1).standard_normal((EXAMPLE_ROWS, width)).astype(np.float32)
    return export(Called(model), {NAME: {"dtype": "float32", "shape": ["batch", width]}}, [example], [OUTPUT])


KIT = Kit(framework="keras", answer_with=_answer_with, export=_export)
KERAS_CONVERTED = Cell(name="keras converted", recipes=recipes_converted(KIT))
KERAS_SHIPPED = Cell(name="keras shipped", recipes=recipes_shipped(KIT))
