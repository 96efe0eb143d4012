"""Edge cases: feeds that random data never holds. One named case each; what a schema forbids is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.inputs.generate import draw, integer_range, rng_for, shape_of
from onnx_gate.records import InputSpec

Array = npt.NDArray[Any]
Maker = Callable[[InputSpec, tuple[int, ...], np.random.Generator], Array | None]

_TINY = 1e-30
_HUGE = {"float16": 1e4, "float32": 1e6, "float64": 1e6}


def edge_feeds(
    inputs: tuple[InputSpec, ...], sizes: dict[str, int], *, seed: str
) -> list[tuple[str, dict[str, Array]]]:
    """Every edge case that at least one input can take; the other inputs are random then."""
    feeds = []
    for name, make in EDGES.items():
        rng = rng_for(f"{seed}/{name}")
        made = {given.name: make(given, shape_of(given, sizes), rng) for given in inputs}
        if all(array is None for array in made.values()):
            continue
        feed = {}
        for given in inputs:
            array = made[given.name]
            feed[given.name] = draw(given, shape_of(given, sizes), rng) if array is None else array
        feeds.append((name, feed))
    return feeds


def _filled(given: InputSpec, shape: tuple[int, ...], value: float) -> Array | None:
    """The value everywhere, if the schema allows it."""
    if given.dtype == "string":
        return None
    if given.values is not None:
        return np.full(shape, value, given.dtype) if value in given.values else None
    kind = np.dtype(given.dtype).kind
    low, high = given.range or ((-np.inf, np.inf) if kind == "f" else integer_range(given) if kind in "iu" else (0, 1))
    return np.full(shape, value, given.dtype) if low <= value <= high else None


def _zeros(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _filled(given, shape, 0)


def _ones(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _filled(given, shape, 1)


def _extreme(given: InputSpec, shape: tuple[int, ...], end: int) -> Array | None:
    if given.dtype == "string":
        return None
    if given.values is not None:
        return np.full(shape, sorted(given.values, key=float)[end], given.dtype)  # type: ignore[arg-type]
    if given.range is None:
        return None
    limits = integer_range(given) if np.dtype(given.dtype).kind in "iu" else given.range
    return np.full(shape, limits[end], given.dtype)


def _lowest(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _extreme(given, shape, 0)


def _highest(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _extreme(given, shape, -1)


def _tiny(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _filled(given, shape, _TINY) if given.dtype.startswith("float") and given.dtype != "float16" else None


def _huge(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _filled(given, shape, _HUGE[given.dtype]) if given.dtype in _HUGE else None


def _negative_zero(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    return _filled(given, shape, -0.0) if given.dtype.startswith("float") else None


def _repeated_rows(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    if given.shape[:1] != ("batch",):
        return None
    return np.repeat(draw(given, (1, *shape[1:]), rng), shape[0], axis=0)


EDGES: dict[str, Maker] = {
    "zeros": _zeros,
    "ones": _ones,
    "lowest": _lowest,
    "highest": _highest,
    "tiny": _tiny,
    "huge": _huge,
    "negative-zero": _negative_zero,
    "repeated-rows": _repeated_rows,
}
