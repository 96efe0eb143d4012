"""How a provider ran a model: which nodes, how precisely, how fast; and how large honest rounding is there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from onnx_gate.records.bounds import FEW, MANY, Count, Name, Seconds
from onnx_gate.vocabulary import JSON, Config


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A node that did not run on the provider asked for."""

    __pydantic_config__: ClassVar[Config] = JSON
    node: Name
    """Its name."""
    op: Name
    """Its operator."""
    provider: Name
    """Where it ran."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which nodes ran on the provider asked for."""

    __pydantic_config__: ClassVar[Config] = JSON
    nodes: Count
    """Nodes of the graph, without ONNX Runtime's own copies between devices."""
    on_provider: Count
    """How many of them ran where they were asked to."""
    elsewhere: Annotated[tuple[Elsewhere, ...], MANY] = ()
    """The others."""
    counted: Literal["assigned", "ran"] = "assigned"
    """`assigned`: as the graph was divided among the providers; `ran`: as a profile saw them, fused ones as one."""


@dataclass(frozen=True, kw_only=True)
class RunToRun:
    """An output that two runs on the same feed answer differently."""

    __pydantic_config__: ClassVar[Config] = JSON
    output: Name
    """ONNX output name."""
    differing: Count
    """Elements that are not the same."""
    total: Count
    """Elements of the output."""
    max_abs: float | None = None
    """By how much at most; None for labels, and where even the form differs."""


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """How a provider computed."""

    __pydantic_config__: ClassVar[Config] = JSON
    options: Annotated[Mapping[Name, Name], MANY] = field(default_factory=dict)
    """Its options in force, as the session reports them; as they were asked for where it reports none."""
    fast: Annotated[Mapping[Name, Name], MANY] = field(default_factory=dict)
    """Of them, those that trade precision for speed: TF32, fp16 and the like."""
    run_twice: Name = ""
    """The case whose first feed was run twice; empty where none was."""
    run_to_run: Annotated[tuple[RunToRun, ...], MANY] = ()
    """The outputs that were not the same both times."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of one side, over all timed runs."""

    __pydantic_config__: ClassVar[Config] = JSON
    median: Seconds
    """Half of the runs took no longer."""
    p95: Seconds
    """95 of 100 took no longer."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How long both sides took on one feed."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""
    case: Name
    """Whose first feed it was."""
    batch: Count | None
    """Its batch size, where it has one."""
    source: Timing | None
    """None where the source isn't on this machine."""
    actual: Timing
    """ONNX Runtime on the provider."""
    speedup: float | None
    """Median of the source by median of the provider: more than 1 is faster."""
    repeats: Count
    """Timed runs of each side."""


FAR = 8.0
"""How many times the noise an error may be: two right computations round differently, and not by more than that."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Of one output on one provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""
    output: Name
    """ONNX output name."""
    rtol: float
    """Honest rounding moves an element by at most atol + rtol·|reference|: the relative part."""
    atol: float
    """The absolute part."""
    times: float
    """How many times that the largest error is."""
    ways: Annotated[tuple[Name, ...], FEW]
    """How it was measured, such as `source in float64`."""
    beyond: Annotated[tuple[Name, ...], FEW] = ()
    """Ways to run the same file that change its answers by far more than rounding does: these are not part of it."""
    calls: Count
    """Feeds that it was measured on."""
    complete: bool = True
    """False where the time ended before every way was tried on every feed."""

    @property
    def is_divergence(self) -> bool:
        """Whether the error is too large for rounding, or for a number."""
        return not self.times <= FAR


def are_numbers(noise: Noise) -> bool:
    """Whether a measurement can have come to these: a tolerance is finite, and an error not negative."""
    return all(0 <= part < math.inf for part in (noise.rtol, noise.atol)) and noise.times >= 0
