"""Seeded random values that the schema allows: the same on every machine and in every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec

Array = npt.NDArray[Any]
DEFAULT_INTEGERS = (0, 9)
DEFAULT_WORDS = ("alpha", "beta", "gamma", "delta")


def shape_of(given: InputSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The schema's shape, with sizes in place of names."""
    return tuple(size if isinstance(size, int) else sizes[size] for size in given.shape)


def is_float(given: InputSpec) -> bool:
    """Whether an input holds floats of any width (numpy has no kind for bfloat16)."""
    return "float" in given.dtype


def dtype_of(given: InputSpec) -> np.dtype[Any]:
    """numpy's dtype for an input that isn't text."""
    try:
        return np.dtype(given.dtype)
    except TypeError:
        # numpy knows bfloat16 and similar types only after this import.
        import ml_dtypes  # noqa: F401

        return np.dtype(given.dtype)


def draw(given: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random values that the schema allows: from `values` or `range`, else normal floats and small integers."""
    if given.dtype == "string":
        return rng.choice(np.array(given.values or DEFAULT_WORDS, dtype=object), size=shape)
    dtype = dtype_of(given)
    if given.values is not None:
        return rng.choice(np.array(given.values), size=shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, size=shape).astype(dtype)
    if is_float(given):
        if given.range is None:
            return rng.standard_normal(shape).astype(dtype)
        return rng.uniform(*given.range, size=shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    low, high = integer_range(given)
    if dtype.kind not in "iu":
        return rng.integers(low, high, size=shape, endpoint=True).astype(dtype)
    return rng.integers(low, high, size=shape, dtype=dtype, endpoint=True)


def integer_range(given: InputSpec) -> tuple[int, int]:
    """The whole numbers that the schema allows."""
    low, high = given.range or DEFAULT_INTEGERS
    least, most = integer_limits(given)
    return max(int(np.ceil(low)), least), min(int(np.floor(high)), most)


def integer_limits(given: InputSpec) -> tuple[int, int]:
    """The smallest and the largest number of the dtype."""
    dtype = dtype_of(given)
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    import ml_dtypes

    limits: Any = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)
