"""Whether an output holds class scores: then it matters which score of a row is the largest."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.found import Answer

_FEWEST_UNSURE = 3
_NEAR_ONE = 1e-3
# Matches `logits`, `class_scores`, `probs`, `probabilities` as parts of a name, but not inside a word like `problem`.
_NAMED = re.compile(r"(?:^|[\W_\d])(logits?|scores?|probs?|probabilit(?:y|ies))(?:[\W_\d]|$)", re.IGNORECASE)


class Scores:
    """Decides, call by call, whether an output holds class scores."""

    def __init__(self, output: str) -> None:
        self._named = bool(_NAMED.search(output))
        self._seen = self._classes = False
        self._matrix = self._sums_to_one = True
        self._columns = 0

    def add(self, answer: Answer) -> None:
        """Add the source's answer to one call."""
        value: npt.NDArray[Any] = answer.value
        self._seen = True
        self._matrix &= value.ndim == 2
        if not self._matrix:
            return
        self._columns = int(value.shape[1])
        self._classes |= answer.columns is not None
        self._sums_to_one = self._sums_to_one and _sum_to_one(value)

    @property
    def possible(self) -> bool:
        """Whether the output is a matrix with enough columns: scores in a classifier, but not in an encoder."""
        return self._seen and self._matrix and self._columns >= (2 if self.sure else _FEWEST_UNSURE)

    @property
    def sure(self) -> bool:
        """Whether the source names classes, rows are (log) probabilities, or the output's name says scores."""
        known = self._classes or self._named or self._sums_to_one
        return self._seen and self._matrix and self._columns > 1 and known


def _sum_to_one(rows: npt.NDArray[Any]) -> bool:
    wide = rows.astype(np.float64)
    if not wide.size:
        return True
    with np.errstate(all="ignore"):
        low, high = float(wide.min()), float(wide.max())
        if low >= 0.0 and high <= 1.0 + _NEAR_ONE:
            return bool(np.all(np.abs(wide.sum(axis=1) - 1) <= _NEAR_ONE))
        return high <= _NEAR_ONE and bool(np.all(np.abs(np.exp(wide).sum(axis=1) - 1) <= _NEAR_ONE))
