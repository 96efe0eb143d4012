"""Right answers in the wrong order: outputs that were swapped, classes whose columns or labels were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.diagnosis.place import Mended
from onnx_gate.vocabulary import Cause

Array = npt.NDArray[Any]
MOST_COLUMNS = 256
_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Swapped:
    """What was found in another's place."""

    cause: Cause
    """`output-order` or `label-order`."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Output → the one under whose name its answers are."""
    columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Output → for each of its columns, the place at which it is."""
    labels: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    """Output → the label that is answered, and the one that it stands for; without those that are right."""
    mended: Mended | None = None
    """The file with that put right."""

    @property
    def words(self) -> str:
        """What is found where."""
        told = [f"the answers of `{name}` are under `{other}`" for name, other in self.outputs.items()]
        for name, order in self.columns.items():
            moved = [f"class {at} is column {place}" for at, place in enumerate(order) if at != place]
            told.append(f"in `{name}` {_listed(moved)} (columns count from 0)")
        for name, labels in self.labels.items():
            told.append(f"in `{name}` {_listed([f'{right} is answered as {got}' for got, right in labels.items()])}")
        text = "; ".join(told[:_SHOWN])
        return f"{text[:1].upper()}{text[1:]}." if text else ""


def _listed(parts: list[str]) -> str:
    more = len(parts) - _SHOWN
    return ", ".join(parts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def find_order(references: Mapping[str, Array], actuals: Mapping[str, Array], tolerance: Tolerance) -> Swapped | None:
    """What was swapped, if putting it back makes the answers agree; both sides by ONNX output name."""
    wrong = [name for name in references if not _agree(references[name], actuals[name], tolerance)]
    partners = [_partner(name, references, actuals, wrong, tolerance) for name in wrong]
    if len(wrong) > 1 and _is_shuffle(partners, wrong):
        outputs = {name: other for name, other in zip(wrong, partners, strict=True) if other is not None}
        return Swapped(cause=Cause.OUTPUT_ORDER, outputs=outputs)
    columns, labels = dict[str, tuple[int, ...]](), dict[str, Mapping[Any, Any]]()
    for name in wrong:
        if references[name].dtype.kind != "f":
            swapped = _swapped_labels(references[name].ravel().tolist(), actuals[name].ravel().tolist())
            if swapped is None:
                return None
            labels[name] = swapped
        elif order := _swapped_columns(references[name], actuals[name], tolerance):
            columns[name] = order
        else:
            return None
    return Swapped(cause=Cause.LABEL_ORDER, columns=columns, labels=labels) if wrong else None


def _partner(
    name: str, references: Mapping[str, Array], actuals: Mapping[str, Array], wrong: list[str], tolerance: Tolerance
) -> str | None:
    """The output under whose name this one is found."""
    return next((other for other in wrong if _agree(references[name], actuals[other], tolerance)), None)


def _is_shuffle(found: list[Any], wanted: list[Any]) -> bool:
    return None not in found and sorted(map(str, found)) == sorted(map(str, wanted))


def _swapped_columns(reference: Array, actual: Array, tolerance: Tolerance) -> tuple[int, ...] | None:
    """For each column, the place at which it is; None where one is nowhere."""
    if reference.ndim != 2 or reference.shape != actual.shape or not 1 < reference.shape[1] <= MOST_COLUMNS:
        return None
    columns = range(reference.shape[1])
    found = [next((j for j in columns if _agree(reference[:, i], actual[:, j], tolerance)), None) for i in columns]
    if not _is_shuffle(found, list(columns)):
        return None
    return tuple(place for place in found if place is not None)


def _swapped_labels(reference: list[Any], actual: list[Any]) -> dict[Any, Any] | None:
    """Label that is answered → the one that it stands for; None where a label stands for several."""
    pairs = set(zip(reference, actual, strict=True)) if len(reference) == len(actual) else set()
    wanted, got = {wanted for wanted, _ in pairs}, {got for _, got in pairs}
    # Classes that changed places are the same classes: others that stand for them are no order.
    one_to_one = len(pairs) == len(wanted) == len(got) and 2 * len(wanted & got) >= len(pairs)
    # With fewer rows than that, any two disagreements would look like a rule.
    if not one_to_one or len(pairs) < 2 or len(reference) < 2 * len(pairs):
        return None
    return {answered: right for right, answered in sorted(pairs, key=str) if answered != right}


def _agree(reference: Array, actual: Array, tolerance: Tolerance) -> bool:
    if reference.shape != actual.shape:
        return False
    if reference.dtype.kind != "f" or actual.dtype.kind != "f":
        return bool(reference.dtype.kind == actual.dtype.kind and np.array_equal(reference, actual))
    return bool(np.allclose(actual, reference, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True))
