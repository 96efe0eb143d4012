"""Which part of a manifest a run was to judge: what `merge` holds against what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from onnx_gate.records.asked import SharedRule
from onnx_gate.vocabulary import JSON, Config


@dataclass(frozen=True, kw_only=True)
class AskedModel:
    """What the manifest asks of one model, and which shard it is for."""

    __pydantic_config__: ClassVar[Config] = JSON
    id: str
    """As in the manifest."""
    line: int
    """Of the model in the manifest."""
    framework: str
    """Of the source, as the manifest names it."""
    variant_of: str | None = None
    """The model of the manifest that this is a precision variant of."""
    allow_failure: bool = False
    """A divergence doesn't fail the job."""
    providers: Mapping[str, bool] = field(default_factory=dict)
    """By short name, in the order of the manifest: whether the manifest requires it."""
    min_strength: float | None = None
    """The share of wrong models that its inputs have to catch."""
    shard: int
    """The shard that holds it, counted from 1; 0 where --only leaves it out."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """All that the manifest asks for, and the part of it that was this run's."""

    __pydantic_config__: ClassVar[Config] = JSON
    manifest_sha256: str
    """Of the manifest's text."""
    judged_sha256: str = ""
    """Of what the manifest asks for: comments, layout and `allow_failure` don't count; empty if unknown."""
    plan_sha256: str
    """Of the manifest's digest and of who holds which model."""
    shards: int
    """How many there are; 1 where the manifest was not split."""
    providers: tuple[str, ...] = ()
    """Those that the call asked for; empty for all that the manifest names."""
    models: tuple[AskedModel, ...]
    """Every model of the manifest, in its order."""
    rules: tuple[SharedRule, ...] = ()
    """For outputs, under `defaults`: those that no model used are known once all of its models were compared."""
