"""Comparison of labels: integers, bools and strings, which either agree or differ."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.found import Confusion
from onnx_gate.vocabulary import Scalar
from onnx_gate.worker.compare.differing import rows_with_any, same_values

FEW_CLASSES = 12
MOST_PAIRS = 20
MOST_COLUMNS = 4096
MOST_NAN_COLUMNS = 100
_AT_ONCE = 1 << 18
"""Number of elements that are compared at once."""


@dataclass
class Labels:
    """Running counts over all chunks of one output."""

    total: int = 0
    mismatched: int = 0
    worst: int = -1
    """Flat index of the first label that differs."""
    _pairs: dict[tuple[Scalar, Scalar], int] = field(default_factory=dict)

    def add(self, reference: npt.NDArray[np.generic], actual: npt.NDArray[np.generic], *, row: int = 0) -> int:
        """Add two arrays of one shape; the number of rows, of `row` elements each, that differ."""
        r, a = np.ravel(reference), np.ravel(actual)
        different = np.asarray(r != a, dtype=bool)
        count = int(np.count_nonzero(different))
        if count and self.worst < 0:
            self.worst = self.total + int(np.flatnonzero(different)[0])
        self.mismatched += count
        self.total += r.size
        self._count_pairs(r, a)
        return rows_with_any(different.reshape(-1, row)) if count and row else 0

    def seen(self) -> tuple[Scalar, ...]:
        """The first few distinct labels of the reference."""
        return tuple(dict.fromkeys(reference for reference, _ in self._pairs))[:FEW_CLASSES]

    def confusion(self) -> tuple[Confusion, ...]:
        """All pairs if there are few classes, else the most frequent wrong pairs; empty if all labels agree."""
        if not self.mismatched:
            return ()
        classes = {label for pair in self._pairs for label in pair}
        few = len(classes) <= FEW_CLASSES
        pairs = [item for item in self._pairs.items() if few or item[0][0] != item[0][1]]
        pairs.sort(key=lambda item: (-item[1], str(item[0])))
        kept = pairs if few else pairs[:MOST_PAIRS]
        return tuple(Confusion(reference=r, actual=a, count=count) for (r, a), count in kept)

    @property
    def pairs(self) -> Mapping[tuple[Scalar, Scalar], int]:
        """How often each label of the source occurs together with each label of ONNX Runtime."""
        return self._pairs

    def _count_pairs(self, r: npt.NDArray[np.generic], a: npt.NDArray[np.generic]) -> None:
        reference_labels, reference_codes = np.unique(r, return_inverse=True)
        actual_labels, actual_codes = np.unique(a, return_inverse=True)
        width = max(1, len(actual_labels))
        codes, counts = np.unique(reference_codes * width + actual_codes, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            pair = (_plain(reference_labels[code // width]), _plain(actual_labels[code % width]))
            self._pairs[pair] = self._pairs.get(pair, 0) + count


def _plain(label: object) -> Scalar:
    if isinstance(label, np.generic) and not isinstance(label, np.str_):
        plain: Scalar = label.item()
        return plain
    return str(label).encode("utf-8", "backslashreplace").decode("utf-8")


class Rows:
    """Compares rows with the first one until one differs, which is usually the second."""

    def __init__(self) -> None:
        self._first: npt.NDArray[Any] | None = None
        self._differ = False
        self.count = 0

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Add some rows of an output."""
        self.count += len(rows)
        if self._differ or not rows.size:
            return
        if self._first is None:
            # In an array of strings, a row may be a plain str.
            self._first, rows = np.array(rows[0], dtype=rows.dtype), rows[1:]
        # The next row alone comes first: if rows differ, it nearly always shows that.
        self._differ = any(not self._alike(part) for part in (rows[:1], rows[1:]))

    @property
    def digest(self) -> str:
        """A hash of the row if all rows are the same; empty if rows differ, or if there is no row."""
        if self._differ or self._first is None:
            return ""
        if self._first.dtype == object:
            return hashlib.sha256(repr(self._first.tolist()).encode("utf-8", "backslashreplace")).hexdigest()[:16]
        # No `tobytes`: it would copy the row, which may be a whole answer.
        return hashlib.sha256(np.asarray(self._first, order="C").reshape(-1).view(np.uint8).data).hexdigest()[:16]

    def _alike(self, rows: npt.NDArray[Any]) -> bool:
        first = self._first
        if first is None or rows.shape[1:] != first.shape:
            return False
        step = max(1, _AT_ONCE // max(1, first.size))
        parts = (rows[start : start + step] for start in range(0, len(rows), step))
        return all(same_values(part, np.broadcast_to(first, part.shape)) for part in parts)


class NanColumns:
    """The columns in which every element of all calls is NaN."""

    def __init__(self) -> None:
        self._all_nan: npt.NDArray[np.bool_] | None = None
        self._open = True

    def add(self, reference: npt.NDArray[Any], *, any_nan: bool) -> None:
        """Add an array of floats; an array without columns, or with another number of columns, ends the search."""
        if not self._open or not reference.size:
            return
        columns = reference.shape[-1] if reference.ndim > 1 else 0
        if not any_nan or not 1 < columns <= MOST_COLUMNS:
            self._open, self._all_nan = False, None
            return
        found = np.isnan(reference).reshape(-1, columns).all(axis=0)
        if self._all_nan is not None and len(self._all_nan) != columns:
            found = np.zeros(columns, dtype=bool)
        self._all_nan = found if self._all_nan is None or len(self._all_nan) != columns else found & self._all_nan
        self._open = bool(self._all_nan.any())

    def places(self) -> tuple[int, ...]:
        """The indices of the first few of these columns."""
        return () if self._all_nan is None else tuple(np.flatnonzero(self._all_nan)[:MOST_NAN_COLUMNS].tolist())
