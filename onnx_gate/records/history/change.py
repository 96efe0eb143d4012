"""One change of a model since the baseline, and how large it has to be to be reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from onnx_gate.records.bounds import Name
from onnx_gate.vocabulary import JSON, ChangeKind, Config, Status


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is different about a model; never a reason for its verdict."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: ChangeKind
    """What changed."""
    was: float | None = None
    """The number in the baseline; None where the kind has none."""
    now: float | None = None
    """The same in this run."""
    verdict: Status | None = None
    """Where the verdict is what changed: that of the baseline."""
    provider: Name = ""
    """Where it was measured; empty for the model as a whole."""
    case: Name = ""
    """On which feed."""
    output: Name = ""
    """In which output."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """From where on a number counts as changed: noise is no news."""

    times: float
    """The number now, by what it was; a strength is divided the other way round, since less of it is worse."""
    least: float
    """And the two differ by at least this."""
    unit: str
    """What they are counted in."""
    falls: bool = False
    """Less is worse."""

    def is_passed(self, was: float, now: float) -> bool:
        """Whether the change is large enough."""
        low, high = (now, was) if self.falls else (was, now)
        return high >= self.times * low and high - low >= self.least


THRESHOLDS: Mapping[ChangeKind, Threshold] = {
    ChangeKind.DRIFTED: Threshold(times=2.0, least=0.01, unit="share of what is allowed"),
    ChangeKind.SLOWER: Threshold(times=1.5, least=0.0001, unit="seconds"),
    ChangeKind.LARGER: Threshold(times=1.1, least=4096, unit="bytes"),
    ChangeKind.WEAKER: Threshold(times=1.0, least=0.05, unit="share of wrong models", falls=True),
}
"""Other kinds are reported whatever their size."""
STEADIER = 1.25
"""Where the source was timed too, the speed-up has to fall by so many times: a busy machine slows both sides down."""
