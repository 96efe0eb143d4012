"""How much of its tolerance a passed model uses; the rest is its headroom."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_gate.records.limits import any_element_may_differ
from onnx_gate.records.result import Check
from onnx_gate.vocabulary import Status


def headroom_of(checks: Sequence[Check]) -> float | None:
    """The largest share of its tolerance that a check uses; None if a check failed or no check has a tolerance."""
    if any(check.status not in (Status.PASSED, Status.SKIPPED) for check in checks):
        return None
    # A tolerance that every element may exceed does not count.
    held = [check for check in checks if not any_element_may_differ(check.limits)]
    return max((check.used for check in held if check.used is not None), default=None)
