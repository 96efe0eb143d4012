"""Earlier runs, as far as a later one remembers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from onnx_gate.records.bounds import FEW, MANY, Count, Name, Seconds
from onnx_gate.vocabulary import JSON, Config, Status

MOST_RUNS = 50
"""That are remembered; the oldest go first."""
REMEMBERED = Field(max_length=MOST_RUNS, fail_fast=True)
Share = Annotated[float, Field(ge=0)]
"""Of what is allowed: without an end, where an element is NaN."""


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """One earlier run."""

    __pydantic_config__: ClassVar[Config] = JSON
    started_at: Name
    """UTC, ISO 8601."""
    commit: Name = ""
    """What was judged; empty where nobody knows."""
    onnxruntime: Name = ""
    """Its version, or versions."""
    cpu: Name = ""
    """Of the machine, or machines."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """One model in an earlier run."""

    __pydantic_config__: ClassVar[Config] = JSON
    run: Count
    """The place of the run in `Baseline.runs`."""
    verdict: Status
    """What became of it."""
    used: Share | None = None
    """The largest share of what is allowed that a difference takes; None where nothing has a tolerance."""
    latency: Seconds | None = None
    """The longest median of ONNX Runtime on a feed; None where it was not timed."""
    size_bytes: Count | None = None
    """Of the ONNX file; None where there was none."""
    strength: Share | None = None
    """The share of wrong models that its inputs catch; None where that was not computed, or not to the end."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something other than the models that is not the same in both runs."""

    __pydantic_config__: ClassVar[Config] = JSON
    what: Name
    """Such as `onnxruntime`, `CPU`, `manifest`, or the name of a package."""
    was: Name
    """In the baseline; empty where it had none."""
    now: Name
    """In this run; empty where it has none."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The earlier run that this one was compared with."""

    __pydantic_config__: ClassVar[Config] = JSON
    source: Name
    """Where it comes from: a file, or the address of a workflow's run."""
    branch: Name = ""
    """Which branch it is of; empty where nobody knows."""
    differences: Annotated[tuple[Difference, ...], FEW] = ()
    """What else may explain a change."""
    times_comparable: bool = True
    """False where the machines differ: then nothing is called slower."""
    gone: Annotated[tuple[Name, ...], MANY] = ()
    """Models of the baseline that the manifest no longer has."""
    runs: Annotated[tuple[PastRun, ...], REMEMBERED]
    """The oldest first; the last is the baseline itself."""
