"""What later runs remember of a model."""

from __future__ import annotations

from onnx_gate.records.history.past import Past
from onnx_gate.records.limits import any_element_may_differ
from onnx_gate.records.result import Check, ModelResult


def remember(model: ModelResult, run: int) -> Past:
    """One model of a run, in short."""
    return Past(
        run=run,
        verdict=model.verdict,
        used=used_by(model),
        latency=max((time.actual.median for time in model.latency), default=None),
        size_bytes=model.convert.size_bytes if model.convert else None,
        strength=strength_of(model),
    )


def used_by(model: ModelResult) -> float | None:
    """The largest share of its tolerance that any check uses, whatever the verdict; None if unknown."""
    return max((share for check in model.checks if (share := share_of(check)) is not None), default=None)


def share_of(check: Check) -> float | None:
    """The share of the tolerance that one check uses; a tolerance that every element may exceed does not count."""
    return None if any_element_may_differ(check.limits) else check.used


def strength_of(model: ModelResult) -> float | None:
    """The strength of the inputs, if it was computed completely; an unfinished one says little about the inputs."""
    return model.strength.aimed_share if model.strength and not model.strength.incomplete else None
