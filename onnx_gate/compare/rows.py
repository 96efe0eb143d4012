"""Whether rows differ at all: a model that ignores its inputs answers the same for each."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt


class Rows:
    """Looks at rows until two differ, which is mostly at once."""

    def __init__(self) -> None:
        self._first: npt.NDArray[Any] | None = None
        self._differ = False
        self.count = 0

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Take in some rows of an output."""
        self.count += len(rows)
        if self._differ or not rows.size:
            return
        if self._first is None:
            # Of texts, a row may be a plain str.
            self._first = np.array(rows[0], dtype=rows.dtype)
        # The next one tells, nearly always.
        self._differ = any(not self._alike(part) for part in (rows[:2], rows[2:]))

    @property
    def digest(self) -> str:
        """Of the row that all are; empty where they differ, or where there was none."""
        if self._differ or self._first is None:
            return ""
        text = repr(self._first.tolist()) if self._first.dtype == object else self._first.tobytes()
        data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
        return hashlib.sha256(data).hexdigest()[:16]

    def _alike(self, rows: npt.NDArray[Any]) -> bool:
        first = self._first
        if first is None or rows.shape[1:] != first.shape:
            return False
        nan = first.dtype.kind == "f"
        return bool(np.array_equal(rows, np.broadcast_to(first, rows.shape), equal_nan=nan))
