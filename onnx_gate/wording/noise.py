"""Errors compared with honest rounding, in a few words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_gate.wording.numbers import number

if TYPE_CHECKING:
    from onnx_gate.records.ran import Noise


def times(noise: Noise) -> str:
    """The largest error relative to the noise, such as `2,300 times the noise`."""
    if math.isinf(noise.times):
        return "beyond any noise: NaN, Inf, or a difference where both sides should be exactly 0"
    return f"{number(noise.times)} times the noise"


def floor(noise: Noise) -> str:
    """The noise as `rtol 2e-7, atol 4e-8`, with two digits, since it is a measurement."""
    return f"rtol {_short(noise.rtol)}, atol {_short(noise.atol)}"


def how(noise: Noise) -> str:
    """How the noise was measured, and which measurements are far beyond rounding."""
    told = f"measured on {noise.calls:,} feed{'s' * (noise.calls != 1)}: {', '.join(noise.ways) or 'in no way'}"
    told += "; the time ended before all was measured" if not noise.complete else ""
    return f"{told}; far beyond rounding: {', '.join(noise.beyond)}" if noise.beyond else told


def _short(value: float) -> str:
    return number(float(f"{value:.2g}"))
