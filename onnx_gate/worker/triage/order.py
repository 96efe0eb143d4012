"""Finds right answers in the wrong order: swapped outputs, or classes whose columns or labels were swapped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.diagnosis.place import Mended
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.answers import Moved
from onnx_gate.worker.triage.rounding import Seen

Array = npt.NDArray[Any]
MOST_COLUMNS = 256
LEAST_ROWS = 2
WIDEST = 0.01
"""Largest relative difference between two right answers, even if the manifest allows more."""
_LEFT = 0.01
"""Share of elements that may stay wrong: ties, or rows near a threshold."""
_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Swapped:
    """The outputs, classes or labels that were swapped."""

    cause: Cause
    """`output-order` or `label-order`."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Output → the output that has its answers."""
    columns: Mapping[str, Moved] = field(default_factory=dict)
    """Output → the positions of its classes."""
    labels: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    """Output → the file's label, and the right label for it; labels that are right are left out."""
    mended: Mended | None = None
    """The file with the order corrected."""

    @property
    def words(self) -> str:
        """A sentence that says what was swapped."""
        told = [f"the answers of `{name}` are under `{other}`" for name, other in self.outputs.items()]
        for name, found in self.columns.items():
            moved = [f"class {at} is column {place}" for at, place in enumerate(found.order) if at != place]
            told.append(f"in `{name}` {_listed(moved)} (columns count from 0)")
        for name, labels in self.labels.items():
            told.append(f"in `{name}` {_listed([f'{right} is answered as {got}' for got, right in labels.items()])}")
        text = "; ".join(told[:_SHOWN])
        return f"{text[:1].upper()}{text[1:]}." if text else ""


def _listed(parts: list[str]) -> str:
    more = len(parts) - _SHOWN
    return ", ".join(parts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def find_order(references: Mapping[str, Array], actuals: Mapping[str, Array], tolerance: Tolerance) -> Swapped | None:
    """The swaps, if undoing them makes the answers agree, else None; both sides are by ONNX output name."""
    wrong = [name for name in references if not _agree(references[name], actuals[name], tolerance)]
    partners = [_partner(name, references, actuals, wrong, tolerance) for name in wrong]
    if len(wrong) > 1 and _is_shuffle(partners, wrong):
        outputs = {name: other for name, other in zip(wrong, partners, strict=True) if other is not None}
        return Swapped(cause=Cause.OUTPUT_ORDER, outputs=outputs)
    columns, labels = dict[str, Moved](), dict[str, Mapping[Any, Any]]()
    for name in sorted(wrong, key=lambda each: references[each].dtype.kind != "f"):
        if references[name].dtype.kind == "f":
            moved = _moved(references[name], actuals[name], tolerance)
            if moved is None:
                return None
            columns[name] = moved
            continue
        # If classes are equally likely, the first one is the answer; in another order that is another class.
        clear = _clear([references[other] for other in columns], references[name], tolerance)
        swapped = _swapped_labels(references[name][clear].ravel().tolist(), actuals[name][clear].ravel().tolist())
        if swapped is None:
            return None
        labels[name] = swapped
    return Swapped(cause=Cause.LABEL_ORDER, columns=columns, labels=labels) if wrong else None


def _clear(scores: Sequence[Array], labels: Array, tolerance: Tolerance) -> Any:
    """A mask of the rows in which one class scores above all others."""
    clear = np.ones(len(labels), dtype=bool)
    for score in scores:
        if score.ndim == 2 and len(score) == len(labels):
            best = np.sort(score, axis=1)
            clear &= best[:, -1] - best[:, -2] > tolerance.atol + tolerance.rtol * np.abs(best[:, -1])
    return clear


def all_agree(references: Mapping[str, Array], actuals: Mapping[str, Array], tolerance: Tolerance) -> bool:
    """Whether every output is right up to a few elements, by a tolerance that can distinguish numbers."""
    return bool(references) and all(
        reference.size == actuals[name].size and _agree(reference.ravel(), actuals[name].ravel(), tolerance)
        for name, reference in references.items()
    )


def join_rows(seen: Sequence[Seen]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outputs of several calls, concatenated by rows; only those of the first call if the shapes don't fit."""
    first = seen[0]
    names = [name for name in first.references if name in first.actuals]
    fits = [each for each in seen if all(_by_row(first, each, name) for name in names)]
    return (
        (
            {name: np.concatenate([each.references[name] for each in fits]) for name in names},
            {name: np.concatenate([each.actuals[name] for each in fits]) for name in names},
        )
        if len(fits) > 1
        else ({name: first.references[name] for name in names}, first.actuals)
    )


def _by_row(first: Seen, other: Seen, name: str) -> bool:
    pairs = ((first.references, other.references), (first.actuals, other.actuals))
    return all(name in two and one[name].ndim and one[name].shape[1:] == two[name].shape[1:] for one, two in pairs)


def _partner(
    name: str, references: Mapping[str, Array], actuals: Mapping[str, Array], wrong: list[str], tolerance: Tolerance
) -> str | None:
    """The output that has the answers of this one; None if not found."""
    return next((other for other in wrong if _agree(references[name], actuals[other], tolerance)), None)


def _is_shuffle(found: list[Any], wanted: list[Any]) -> bool:
    return None not in found and sorted(map(str, found)) == sorted(map(str, wanted))


def _moved(reference: Array, actual: Array, tolerance: Tolerance) -> Moved | None:
    """The positions of the classes of an output; None if a class is not found."""
    if reference.ndim < 2 or reference.shape != actual.shape:
        return None
    # The classes of rows or pixels are on the second axis, those of words on the last one.
    axes = sorted({1, reference.ndim - 1})
    found = (_swapped_columns(reference, actual, axis, tolerance) for axis in axes)
    return next((Moved(axis=axis, order=order) for axis, order in zip(axes, found, strict=True) if order), None)


def _swapped_columns(reference: Array, actual: Array, axis: int, tolerance: Tolerance) -> tuple[int, ...] | None:
    """For each column, its position in the actual answers; None if a column is not found."""
    count = reference.shape[axis]
    if not 1 < count <= MOST_COLUMNS:
        return None
    ours, theirs = (np.moveaxis(side, axis, 0).reshape(count, -1) for side in (reference, actual))
    # With too few rows, columns can agree by chance.
    if len(ours[0]) < LEAST_ROWS:
        return None
    found = [next((j for j in range(count) if _agree(ours[i], theirs[j], tolerance)), None) for i in range(count)]
    if not _is_shuffle(found, list(range(count))):
        return None
    return tuple(place for place in found if place is not None)


def _swapped_labels(reference: list[Any], actual: list[Any]) -> dict[Any, Any] | None:
    """Label of the file → the right label, if that explains nearly all rows; None if labels were not exchanged."""
    if not reference or len(reference) != len(actual):
        return None
    pairs = Counter(zip(reference, actual, strict=True))
    most: dict[Any, tuple[int, Any]] = {}
    for (wanted, got), count in pairs.items():
        most[wanted] = max(most.get(wanted, (0, got)), (count, got), key=lambda one: one[0])
    moved = {wanted: got for wanted, (_, got) in most.items()}
    # Classes that were swapped are still the same set of classes: with other labels it is not an order.
    one_to_one = len(set(moved.values())) == len(moved) and 2 * len(moved.keys() & set(moved.values())) >= len(moved)
    explained = sum(count for count, _ in most.values())
    # With fewer rows, any two disagreements would look like a rule.
    many = len(moved) > 1 and len(reference) >= 2 * len(moved)
    if not one_to_one or not many or explained < (1 - _LEFT) * len(reference):
        return None
    return {got: wanted for wanted, got in sorted(moved.items(), key=str) if got != wanted}


def _agree(reference: Array, actual: Array, tolerance: Tolerance) -> bool:
    """Whether nearly all elements agree, by a tolerance that can distinguish numbers; the manifest's may be wider."""
    if reference.shape != actual.shape:
        return False
    if reference.dtype.kind != "f" or actual.dtype.kind != "f":
        return bool(reference.dtype.kind == actual.dtype.kind and _few(reference != actual))
    allowed = telling(tolerance, reference)
    return _few(~np.isclose(actual, reference, rtol=allowed.rtol, atol=allowed.atol, equal_nan=True))


def _few(wrong: Any) -> bool:
    return bool(np.mean(wrong) <= _LEFT) if np.size(wrong) else True


def telling(tolerance: Tolerance, reference: Array) -> Tolerance:
    """The tolerance, limited so that it still distinguishes numbers that differ by more than rounding.

    With a relative tolerance of 1, every exchange would make everything agree.
    """
    finite = np.abs(reference[np.isfinite(reference)]) if reference.dtype.kind == "f" else np.empty(0)
    size = float(finite.mean()) if finite.size else 0.0
    return Tolerance(rtol=min(tolerance.rtol, WIDEST), atol=min(tolerance.atol, max(WIDEST * size, 1e-12)))
