"""Latency: whether it is measured, how often, and for how long."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from onnx_gate.manifest.section import Section, refuse
from onnx_gate.records import FEWEST_REPEATS, LatencySpec


class Latency(Section):
    """How latency is measured."""

    repeats: Annotated[int, Field(ge=FEWEST_REPEATS, le=10_000)] = Field(
        LatencySpec.repeats, description="timed runs of each side at each batch size, at most"
    )
    seconds: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = Field(
        LatencySpec.seconds, description="for each side at each batch size; five runs are made in any case"
    )


def _expand(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise refuse("", "true, false, or a mapping such as {repeats: 50, seconds: 0.3}")
    return value


LatencyChoice = Annotated[Latency | None, BeforeValidator(_expand, json_schema_input_type=bool | Latency)]
Speedup = Annotated[float, Field(gt=0, allow_inf_nan=False)]
