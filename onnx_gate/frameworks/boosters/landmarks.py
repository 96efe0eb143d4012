"""Values inside a booster: its margins after some of its iterations."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from onnx_gate.frameworks.boosters.common import library_of, rows_of
from onnx_gate.frameworks.landmarks import Landmarks, spread
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import ModelSpec


def landmarks(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Any]:
    """The margins of a model that stands alone, as `iteration 1` and so on."""
    kept = Landmarks()
    keep_margins(kept, source, rows_of(spec, feed, _plugin_of(source).features(source)))
    return kept.values()


def keep_margins(kept: Landmarks, model: Any, rows: Any, prefix: str = "") -> None:
    """Keep the sums of the trees of the first iterations, before the objective turns them into an answer."""
    plugin = _plugin_of(model)
    for iteration in spread(plugin.iterations(model)):
        kept.keep(f"{prefix}iteration {iteration}", np.asarray(plugin.margins(model, rows, iteration)))


def _plugin_of(model: Any) -> Any:
    return importlib.import_module(REGISTRY[str(library_of(model))].plugin)
