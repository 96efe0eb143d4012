"""Takes back the cause `tolerance` if the measured noise contradicts it.

Beside a column of millions, an error of 0.3 % in a small column is far below the signal of the whole output, and so it
looks like rounding. The noise is measured for each column, but only after the cause was searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_gate.records.found import Triage
from onnx_gate.records.ran import Noise
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number
from onnx_gate.worker.triage.placed import advise_unexplained

_MOST = 100.0
"""From this many times the noise on, an error is not rounding. Below it, the noise may be measured on too few rows."""


def refute(found: Triage, noises: Sequence[Noise], *, shipped: bool, recorded: bool) -> Triage | None:
    """The cause without `tolerance`; None if that cause may be right, or another one was found."""
    # An infinite multiple is a difference where both sides should be 0: how large it is, is not known.
    far = [noise for noise in noises if noise.complete and _MOST < noise.times < float("inf")]
    if found.cause is not Cause.TOLERANCE or not far:
        return None
    worst = max(far, key=lambda noise: noise.times)
    advice = (
        f"The largest error of `{worst.output}` is {number(worst.times)} times what rounding explains. It is small "
        "beside the largest values of the output, which hide it: a wider tolerance would hide it, too. "
        f"{advise_unexplained(recorded=recorded, shipped=shipped, offset=None)}"
    )
    return replace(found, cause=Cause.CONVERSION, advice=advice)
