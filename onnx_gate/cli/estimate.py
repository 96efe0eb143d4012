"""How long a run will still take, estimated from its models' last run, else from the models that have ended."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_gate.errors import GateError
from onnx_gate.records.asked import ModelSpec
from onnx_gate.shards.plan import expected_seconds
from onnx_gate.shards.untrusted_files import opened

LARGEST_RESULTS = 64 * 1024 * 1024
"""The most bytes of the last results: larger ones would take longer to read than the estimate is worth."""
_MOST_SECONDS = 1e6
_FASTEST, _SLOWEST = 0.1, 10.0
"""The bounds for the time of this run, relative to the time of the last run."""


def last_seconds(folder: Path) -> dict[str, float]:
    """The seconds that each model took in the last run, whose results are in the folder, by id.

    Only an estimate depends on them, so results that are missing, too large or not ours count as empty.
    """
    try:
        with opened(folder, "results.json", LARGEST_RESULTS) as file:
            document = json.loads(file.read(LARGEST_RESULTS + 1)) if file else {}
    except (GateError, OSError, ValueError, RecursionError):
        return {}
    models = document.get("models") if isinstance(document, dict) else None
    return dict(filter(None, map(_taken, models if isinstance(models, list) else [])))


def _taken(model: Any) -> tuple[str, float] | None:
    name, taken = (model.get("id"), model.get("seconds")) if isinstance(model, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(taken, int | float) or isinstance(taken, bool):
        return None
    return (name, float(taken)) if 0 < taken < _MOST_SECONDS else None


class Estimate:
    """What is known of each model, and how many run at a time."""

    def __init__(self, last: Mapping[str, float]) -> None:
        self._last = dict(last)
        self._specs: Sequence[ModelSpec] = ()
        self._done: dict[str, float] = {}
        self._side_by_side = 1

    def began(self, models: Sequence[ModelSpec]) -> None:
        """Set the models that will run."""
        self._specs = models

    def ended(self, model_id: str, seconds: float) -> None:
        """Record how many seconds a model took."""
        self._done[model_id] = seconds

    def left(self, running: Mapping[str, float]) -> float | None:
        """Seconds that are left; `running` holds the seconds of each running model. None if nothing is known yet."""
        self._side_by_side = max(self._side_by_side, len(running))
        # A copy, because the thread that draws calls this.
        done = dict(self._done)
        known = {**self._known(done), **{one: taken for one, taken in done.items() if taken > 0}}
        open_specs = [spec for spec in self._specs if spec.id not in done and spec.providers]
        if not any(spec.id in known for spec in self._specs):
            return None
        expected = expected_seconds(self._specs, known)
        each = [max(0.0, expected[spec.id] - running.get(spec.id, 0.0)) for spec in open_specs]
        # The models share the machine, and the run can't end before its longest model.
        return max(math.fsum(each) / self._side_by_side, *each) if each else 0.0

    def _known(self, done: Mapping[str, float]) -> dict[str, float]:
        """The times of the last run, scaled to the pace of this run."""
        both = [one for one, taken in done.items() if taken > 0 and one in self._last]
        before, now = (math.fsum(times[one] for one in both) for times in (self._last, done))
        pace = min(_SLOWEST, max(_FASTEST, now / before)) if both else 1.0
        return {one: taken * pace for one, taken in self._last.items()}
