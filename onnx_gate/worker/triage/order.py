"""Right answers in the wrong order: outputs that were swapped, classes whose columns or labels were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.vocabulary import Cause

Array = npt.NDArray[Any]
MOST_COLUMNS = 256


def find_order(references: Mapping[str, Array], actuals: Mapping[str, Array], tolerance: Tolerance) -> Cause | None:
    """What was swapped, if putting it back makes the answers agree; both sides by ONNX output name."""
    wrong = [name for name in references if not _agree(references[name], actuals[name], tolerance)]
    if len(wrong) > 1 and _is_shuffle([_partner(name, references, actuals, wrong, tolerance) for name in wrong], wrong):
        return Cause.OUTPUT_ORDER
    if wrong and all(_columns_are_shuffled(references[name], actuals[name], tolerance) for name in wrong):
        return Cause.LABEL_ORDER
    return None


def _partner(
    name: str, references: Mapping[str, Array], actuals: Mapping[str, Array], wrong: list[str], tolerance: Tolerance
) -> str | None:
    """The output under whose name this one is found."""
    return next((other for other in wrong if _agree(references[name], actuals[other], tolerance)), None)


def _is_shuffle(found: list[Any], wanted: list[Any]) -> bool:
    return None not in found and sorted(map(str, found)) == sorted(map(str, wanted))


def _columns_are_shuffled(reference: Array, actual: Array, tolerance: Tolerance) -> bool:
    """Each column is there, at another place; of labels, each is answered as just one other."""
    if reference.dtype.kind != "f":
        return _labels_are_shuffled(reference.ravel().tolist(), actual.ravel().tolist())
    if reference.ndim != 2 or reference.shape != actual.shape or not 1 < reference.shape[1] <= MOST_COLUMNS:
        return False
    columns = range(reference.shape[1])
    found = [next((j for j in columns if _agree(reference[:, i], actual[:, j], tolerance)), None) for i in columns]
    return _is_shuffle(found, list(columns))


def _labels_are_shuffled(reference: list[Any], actual: list[Any]) -> bool:
    pairs = set(zip(reference, actual, strict=True)) if len(reference) == len(actual) else set()
    wanted, got = {wanted for wanted, _ in pairs}, {got for _, got in pairs}
    # Classes that changed places are the same classes: others that stand for them are no order.
    one_to_one = len(pairs) == len(wanted) == len(got) and 2 * len(wanted & got) >= len(pairs)
    # With fewer rows than that, any two disagreements would look like a rule.
    return one_to_one and len(pairs) > 1 and len(reference) >= 2 * len(pairs)


def _agree(reference: Array, actual: Array, tolerance: Tolerance) -> bool:
    if reference.shape != actual.shape:
        return False
    if reference.dtype.kind != "f" or actual.dtype.kind != "f":
        return bool(reference.dtype.kind == actual.dtype.kind and np.array_equal(reference, actual))
    return bool(np.allclose(actual, reference, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True))
