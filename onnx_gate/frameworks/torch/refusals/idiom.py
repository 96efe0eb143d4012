"""How the users of a source write: a model of another framework may run on torch without showing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Idiom:
    """Names that messages use."""

    method: str = "forward()"
    """What the user writes."""
    ops: str = "torch"
    """The module of functions that take tensors."""
    clamp: str = "torch.clamp"
    """The one that keeps values within bounds."""
    branches: bool = True
    """Whether there is `torch.cond`, which keeps both sides in the exported graph."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """Path of a module → the name that users know, where they never see modules; empty for the paths themselves."""


TORCH = Idiom()
"""A module of torch itself."""
