"""One module of the torch sweep: how it is built, its inputs, and its known result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

SIZES: Mapping[str, tuple[int, ...]] = {
    "seq": (1, 6),
    "keys": (2, 5),
    "time": (20, 33),
    "samples": (640, 720),
    "depth": (4, 5),
    "height": (8, 13),
    "width": (9, 12),
    "nodes": (3, 8),
    # In the manifest `batch` is always the first axis; a batch on another axis gets another name.
    "rows": (1, 2, 5),
}
"""Sizes to try for named dimensions, unless a module sets its own."""
BATCHES = (1, 2, 5)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A factory for the manifest: called without arguments, it builds the module."""

    family: str
    """Heading in the table."""
    build: Callable[[], nn.Module]
    """Builds the module; the gate seeds its random numbers."""
    inputs: Mapping[str, Mapping[str, Any]]
    """The schema of the inputs, as in the manifest."""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes of dimensions that are not in `SIZES`, or that differ from it."""
    batches: tuple[int, ...] = BATCHES
    """Batch sizes to try."""
    ends: str = ""
    """The known cause if the module does not pass; empty if it passes."""
    why: str = ""
    """What is wrong with the module, if it does not pass."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the model in the manifest."""

    def __call__(self) -> nn.Module:
        """The module in eval mode, with weights moved away from 0 and 1, which would hide faults."""
        module = self.build()
        with torch.no_grad():
            for value in module.parameters():
                if value.ndim < 2 and value.is_floating_point():
                    value.add_(0.2 * torch.randn(value.shape).to(value.dtype))
            for name, buffer in module.named_buffers():
                if name.endswith("running_mean"):
                    buffer.copy_(0.2 * torch.randn(buffer.shape))
                elif name.endswith("running_var"):
                    buffer.copy_(torch.rand(buffer.shape) + 0.5)
        return module.eval()

    @property
    def dims(self) -> dict[str, tuple[int, ...]]:
        """Sizes to try for each named dimension other than the batch."""
        named = {size for given in self.inputs.values() for size in given["shape"] if isinstance(size, str)}
        return {name: self.sizes.get(name) or SIZES[name] for name in sorted(named - {"batch"})}


class Function(nn.Module):
    """A function of one tensor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Function2(Function):
    """A function of two tensors."""

    def forward(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return self.function(x, y)


class Function3(Function):
    """A function of three tensors."""

    def forward(self, x: Any, y: Any, z: Any) -> Any:  # type: ignore[override]
        return self.function(x, y, z)


FIELDS = ("sizes", "batches", "ends", "why", "keys")


def entry(family: str, build: Callable[[], nn.Module], **given: Any) -> Entry:
    """An entry for a module; keyword arguments that are not fields of the entry are its inputs."""
    fields = {name: given.pop(name) for name in FIELDS if name in given}
    return Entry(family=family, build=build, inputs=given, **fields)


def function(family: str, body: Callable[..., Any], **given: Any) -> Entry:
    """An entry for a forward pass without weights."""
    kind = {1: Function, 2: Function2, 3: Function3}[len(given.keys() - set(FIELDS))]
    return entry(family, lambda: kind(body), **given)


def floats(*shape: int | str, low: float | None = None, high: float | None = None, dtype: str = "float32") -> Any:
    """The schema of a float input: normally distributed, or uniform between two numbers."""
    given: dict[str, Any] = {"dtype": dtype, "shape": list(shape)}
    return given if low is None else given | {"range": [low, high]}


def ints(*shape: int | str, below: int, low: int = 0, dtype: str = "int64") -> Any:
    """The schema of an integer input."""
    return {"dtype": dtype, "shape": list(shape), "range": [low, below - 1]}


def bools(*shape: int | str) -> Any:
    """The schema of a mask."""
    return {"dtype": "bool", "shape": list(shape)}


def zeros_and_ones(*shape: int | str) -> Any:
    """The schema of an integer mask."""
    return {"dtype": "int64", "shape": list(shape), "values": [0, 1]}
