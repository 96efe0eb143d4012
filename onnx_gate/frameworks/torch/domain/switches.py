"""Places where a module decides by a value without a trail to an input, and the decision of each row there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from onnx_gate.frameworks.torch.domain.operators import COMPARISONS
from onnx_gate.frameworks.torch.domain.tracer import Call, Tracer
from onnx_gate.worker.inputs.trails.search import Outcome

Array = npt.NDArray[Any]
MOST_PLACES = 256
_CUT = frozenset({"clamp", "clamp_min", "clamp_max", "hardtanh", "relu6", "minimum", "maximum", "threshold"})
_PICKED = {"embedding": "indices", "index_select": "index", "gather": "index"}
_COUNTED = frozenset({"bucketize", "searchsorted"})


class Switches:
    """Watches one run with a given number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.found: dict[Outcome, Array] = {}
        """Decision → the rows that decided so."""
        self._places = 0

    def __call__(self, tracer: Tracer, call: Call, result: Any) -> None:
        """Note the decision of a call, unless a trail already shows the inputs that lead to it."""
        if call.name in COMPARISONS and self._is_hidden(tracer, call["self"], call["other"]):
            self._add(yes=result, no=~result)
        elif call.name in _CUT and self._is_hidden(tracer, call["self"], call["other"]):
            self._add(cut=result < call["self"], lifted=result > call["self"], kept=result == call["self"])
        elif call.name in _COUNTED and self._is_hidden(tracer, call["self"]):
            self._pick(result)
            self._rank(result)
        elif call.name in _PICKED and self._is_hidden(tracer, call[_PICKED[call.name]]):
            self._pick(call[_PICKED[call.name]])
        elif call.name == "index":
            for index in call["indices"]:
                if self._is_hidden(tracer, index) and index.dtype != torch.bool:
                    self._pick(index)

    def _is_hidden(self, tracer: Tracer, *values: Any) -> bool:
        given = [value for value in values if tracer.is_tainted(value)]
        return bool(given) and (len(given) > 1 or tracer.trail(given[0]) is None)

    def _by_row(self, tensor: torch.Tensor) -> Array | None:
        if not tensor.ndim or not tensor.numel() or tensor.shape[0] % self.rows:
            return None
        found: Array = tensor.detach().reshape(self.rows, -1).numpy()
        return found

    def _next(self) -> int | None:
        self._places += 1
        return self._places if self._places <= MOST_PLACES else None

    def _add(self, **decided: torch.Tensor) -> None:
        place = self._next()
        for outcome, tensor in decided.items() if place else ():
            rows = self._by_row(tensor)
            if rows is not None and place is not None and rows.any():
                self.found[place, outcome] = np.asarray(rows.any(axis=1))

    def _rank(self, counts: torch.Tensor) -> None:
        """Note how far each row gets: unlike rows of a table, counts are in order, so that ends can be searched."""
        place, rows = self._next(), self._by_row(counts)
        if place is not None and rows is not None:
            for number in np.unique(rows).tolist():
                self.found[place, f"at least {number}"] = np.asarray((rows >= number).any(axis=1))

    def _pick(self, indices: torch.Tensor) -> None:
        place, rows = self._next(), self._by_row(indices)
        if place is None or rows is None:
            return
        for number in np.unique(rows).tolist():
            self.found[place, int(number)] = np.asarray((rows == number).any(axis=1))
