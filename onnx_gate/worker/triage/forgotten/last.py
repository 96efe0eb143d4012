"""Last steps of a model that people forget on one side: the answers agree once one of them is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnx_gate.records.asked import Tolerance
from onnx_gate.wording.numbers import number
from onnx_gate.worker.triage.precision import mismatches

_LEAST = 8
"""Fewest answers that show a factor and an offset."""


def _softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


ENDINGS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("through a softmax", _softmax),
    ("through a sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ("through a log-softmax", lambda x: np.log(_softmax(x))),
    ("through an exponential", np.exp),
    ("through a logarithm", np.log),
    ("through a tanh", np.tanh),
)
"""Description and change of each last step."""


def find_ending(
    references: Mapping[str, Any], actuals: Mapping[str, Any], tolerance: Callable[[str], Tolerance]
) -> str:
    """What has to be done with the outputs that differ, so that all of them agree; empty if nothing helps."""
    found = []
    for name, reference in references.items():
        actual = actuals[name]
        if not _differ(reference, actual, tolerance(name)):
            continue
        if not (words := _ending(reference, actual, tolerance(name))):
            return ""
        found.append(f"its output `{name}` goes {words}")
    return " and ".join(found)


def _ending(reference: Any, actual: Any, tolerance: Tolerance) -> str:
    if reference.dtype.kind != "f" or actual.dtype.kind != "f" or reference.shape != actual.shape or not actual.ndim:
        return ""
    wide = actual.astype("float64")
    with np.errstate(all="ignore"):
        steps = (words for words, step in ENDINGS if not _differ(reference, step(wide), tolerance))
        return next(steps, "") or _line(reference.astype("float64"), wide, tolerance)


def _line(reference: Any, actual: Any, tolerance: Tolerance) -> str:
    """The factor and the offset that explain every answer; empty if none do."""
    if actual.size < _LEAST or not np.isfinite(reference).all() or not np.isfinite(actual).all() or not np.ptp(actual):
        return ""
    factor, offset = (float(part) for part in np.polyfit(actual.ravel(), reference.ravel(), 1))
    if not factor or _differ(reference, factor * actual + offset, tolerance):
        return ""
    return f"through a line: times {number(factor)}, plus {number(offset)}"


def _differ(reference: Any, actual: Any, tolerance: Tolerance) -> bool:
    return bool(reference.shape != actual.shape or mismatches(reference, actual, tolerance).any())
