"""The float64 judge: how much of an error is rounding, at one place of a graph.

The part that computes a value from given ones is cut out and computed in float64. A wrong weight is equally wrong in
both, so that only rounding is left. ONNX Runtime lacks some operators in float64, such as Conv: those parts are
computed by the reference implementation of ONNX, which is slow, but works in any type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from onnx_gate.worker.log import log_aside
from onnx_gate.worker.onnx_files.precision.lowered import is_lowered
from onnx_gate.worker.onnx_files.precision.widened import as_double, widen
from onnx_gate.worker.place.bench import Array, Bench, Feed
from onnx_gate.worker.runtime.options import session_options

MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of the weights of a part; and of the values that it is given."""
MOST_NUMBERS = 1024 * 1024
"""Most numbers that a part is given, if the reference implementation computes it."""
_FEW = 0.01
"""Share of elements that may be far off although the rest shows rounding only: rows next to a threshold."""
_JUMP = 8.0
"""The largest error counts as rounding up to this multiple of the error of nearly all elements."""
_MOST = 0.01
"""Share of the largest number above which a difference is not called rounding."""


def rounding_at(bench: Bench, end: str, own: Array, given: Mapping[str, Array], feed: Feed) -> float:
    """The error of a value from rounding, if it is computed from the given ones; 0 if it can't be judged."""
    if own.dtype != np.float32 or not own.size:
        return 0.0
    try:
        wide = _in_float64(bench, end, given, feed)
    except Exception as error:
        log_aside(error)
        return 0.0
    if wide is None or wide.shape != own.shape:
        return 0.0
    with np.errstate(all="ignore"):
        return _typical(np.abs(wide - own), float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0)))


def _typical(errors: Array, largest: float) -> float:
    """The largest error, without a few elements that are far off; 0 if more than a few are."""
    known = np.sort(errors[np.isfinite(errors)], axis=None)
    if not known.size:
        return 0.0
    most = float(known[int((1 - _FEW) * (known.size - 1))])
    error = float(known[-1]) if known[-1] <= _JUMP * most else most
    return error if error <= _MOST * largest else 0.0


def _in_float64(bench: Bench, end: str, given: Mapping[str, Array], feed: Feed) -> Array | None:
    nodes = bench.between(end, given)
    if any(node.proto.op_type.startswith("TreeEnsemble") or is_lowered(node.proto) for node in nodes):
        # Trees compare float32 thresholds, and a number of lower precision stays one: neither is rounding of float32.
        return None
    if 4 * bench.stored_numbers(nodes) > MOST_BYTES:
        return None
    part = bench.cut(end, given)
    fed = {
        value.name: as_double(given[value.name] if value.name in given else np.asarray(feed[value.name]))
        for value in part.graph.input
        if value.name in given or value.name in feed
    }
    numbers = sum(value.size for value in fed.values())
    if 4 * numbers > MOST_BYTES:
        return None
    widen(part)
    answered = _by_runtime(part, fed)
    if answered is None and numbers <= MOST_NUMBERS:
        answered = next(iter(ReferenceEvaluator(part).run(None, fed)))
    return np.asarray(answered) if isinstance(answered, np.ndarray) and answered.dtype == np.float64 else None


def _by_runtime(part: Any, fed: Feed) -> Any:
    """The answer of ONNX Runtime; None if it has no float64 form of an operator."""
    options = session_options(optimize=False, custom_ops=None)
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(part.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None
    return session.run(None, fed)[0]
