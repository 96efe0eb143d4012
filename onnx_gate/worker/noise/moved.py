"""Numbers moved by one rounding, each to one of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np


def moved(feed: dict[str, Any], seed: int) -> dict[str, Any]:
    """Inputs of which each float is moved; whole numbers stay, which may be ids, and so does 0."""
    rng = np.random.default_rng(seed)
    return {name: to_neighbours(value, rng) for name, value in feed.items()}


def to_neighbours(value: Any, rng: np.random.Generator) -> Any:
    """The same of one array; what is no float stays as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return value
    towards = np.where(rng.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
    with np.errstate(all="ignore"):
        whole = ~np.isfinite(value) | (value == np.round(value))
        return np.where(whole, value, np.nextafter(value, towards))
