"""The words that users of a source know: a model of another framework may run on torch without showing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Idiom:
    """Names that messages use."""

    method: str = "forward()"
    """The method that the user writes."""
    ops: str = "torch"
    """The module of functions that take tensors."""
    clamp: str = "torch.clamp"
    """The function that keeps values within bounds."""
    branches: bool = True
    """Whether there is `torch.cond`, which keeps both branches in the exported graph."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """Path of a module → the name that users know, where they never see modules; empty if they know the paths."""


TORCH = Idiom()
"""The words for a module of torch itself."""
