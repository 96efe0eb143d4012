"""Moves numbers by one rounding step, each to one of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np


def moved(feed: dict[str, Any], seed: int) -> dict[str, Any]:
    """The inputs with each float moved; floats with an integer value stay, as they may be ids, and so does 0."""
    rng = np.random.default_rng(seed)
    return {name: to_neighbours(value, rng) for name, value in feed.items()}


def to_neighbours(value: Any, rng: np.random.Generator) -> Any:
    """One array with each float moved; arrays of other types stay unchanged."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return value
    towards = np.where(rng.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
    with np.errstate(all="ignore"):
        whole = ~np.isfinite(value) | (value == np.round(value))
        return np.where(whole, value, np.nextafter(value, towards))
