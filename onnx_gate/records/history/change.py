"""A change of a model since the baseline, and the size from which it is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from onnx_gate.records.bounds import Name
from onnx_gate.vocabulary import JSON, ChangeKind, Config, Status


@dataclass(frozen=True, kw_only=True)
class Change:
    """A difference between a model and its baseline; no verdict depends on it."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: ChangeKind
    """What changed."""
    was: float | None = None
    """The number in the baseline; None for kinds without a number."""
    now: float | None = None
    """The number in this run."""
    verdict: Status | None = None
    """The verdict in the baseline, if the verdict has changed."""
    provider: Name = ""
    """The provider that it was measured on; empty for the model as a whole."""
    case: Name = ""
    """The case that it was measured on."""
    output: Name = ""
    """The output that it was measured in."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The size from which a change of a number is reported: smaller changes may be noise."""

    times: float
    """The least ratio: the number now divided by the number before; the other way round if `falls`."""
    least: float
    """The least difference between the two, which is needed too."""
    unit: str
    """The unit of the numbers."""
    falls: bool = False
    """Whether a smaller number is worse, as for strength."""

    def is_passed(self, was: float, now: float) -> bool:
        """Whether the change is large enough."""
        low, high = (now, was) if self.falls else (was, now)
        return high >= self.times * low and high - low >= self.least


THRESHOLDS: Mapping[ChangeKind, Threshold] = {
    # Without a least, noise would drift: honest rounding uses 0.01 to 0.1 % of a default tolerance, and another kernel,
    # processor or training run easily makes ten times as much of it. A drift that goes on is reported from 1 % on.
    ChangeKind.DRIFTED: Threshold(times=2.0, least=0.01, unit="share of what is allowed"),
    ChangeKind.SLOWER: Threshold(times=1.5, least=0.0001, unit="seconds"),
    ChangeKind.LARGER: Threshold(times=1.1, least=4096, unit="bytes"),
    ChangeKind.WEAKER: Threshold(times=1.0, least=0.05, unit="share of wrong models", falls=True),
}
"""Kinds that are not listed are always reported."""
STEADIER = 1.25
"""If the source was timed too, the speed-up must also fall by this factor: a busy machine slows down both sides."""
