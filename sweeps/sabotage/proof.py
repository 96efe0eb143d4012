"""Proves, with only ONNX Runtime and the framework, that a fault shows on the inputs and the look-alike has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
RTOL, ATOL = 1e-3, 1e-5
"""The manifest's defaults."""


class Unproven(Exception):
    """Raised for a fault that doesn't show, or a look-alike that isn't healthy."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The feeds and both sides of a comparison."""

    feeds: Sequence[Feed]
    """The data of the manifest, or feeds like those that the gate generates."""
    reference: Callable[[Feed], Sequence[Any]]
    """Returns the source's answers, from its framework."""
    file: onnx.ModelProto
    """The judged file, or the file that the framework's own exporter makes from the source."""
    rtol: float = RTOL
    atol: float = ATOL


def answers(model: onnx.ModelProto, feeds: Iterable[Feed]) -> list[list[Any]]:
    """The answers of the file to each feed."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def differs(proof: Proof) -> str:
    """How a caller would notice a difference; empty if there is no difference."""
    references = [list(proof.reference(feed)) for feed in proof.feeds]
    again = [list(proof.reference(feed)) for feed in proof.feeds]
    if worst := max(_off(first, second, proof) for first, second in zip(references, again, strict=True)):
        return f"the source answers {worst:.1%} differently the second time"
    try:
        found = answers(proof.file, proof.feeds)
    except Exception as error:
        return f"the runtime refuses: {type(error).__name__}"
    if len(found[0]) != len(references[0]):
        return f"{len(found[0])} outputs for {len(references[0])}"
    worst = max(_off(first, second, proof) for first, second in zip(references, found, strict=True))
    return f"{worst:.1%} of an output differ" if worst else ""


def _off(references: Sequence[Any], actuals: Sequence[Any], proof: Proof) -> float:
    """The largest share of an output that is beyond the limits; 1 if it has another shape."""
    return max(_share(*both, proof) for both in zip(references, actuals, strict=True))


def _share(reference: Any, actual: Any, proof: Proof) -> float:
    reference, actual = np.asarray(reference), np.asarray(actual)
    vectors = reference.size == actual.size == len(reference) and len(actual) == len(reference)
    if reference.shape != actual.shape and not vectors:
        return 1.0
    actual = actual.reshape(reference.shape)
    if reference.dtype.kind == "f" or actual.dtype.kind == "f":
        reference, actual = reference.astype(np.float64), actual.astype(np.float64)
        same = np.isclose(actual, reference, rtol=proof.rtol, atol=proof.atol, equal_nan=True)
    else:
        same = reference.astype(str) == actual.astype(str)
    return float(1 - same.mean())


def require(wrong: Proof, healthy: Proof) -> str:
    """How the fault shows; raises Unproven if it doesn't show, or if the look-alike differs."""
    if how := differs(healthy):
        raise Unproven(f"the look-alike isn't healthy: {how}")
    if not (how := differs(wrong)):
        raise Unproven("the fault doesn't show")
    return how
