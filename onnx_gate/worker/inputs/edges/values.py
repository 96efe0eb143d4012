"""Edge cases about special values: which ones an input can take, according to its dtype and schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec
from onnx_gate.worker.inputs.generate import dtype_of, integer_limits, integer_range, is_float

Array = npt.NDArray[Any]

_TINY = {"float16": 1e-4, "bfloat16": 1e-30, "float32": 1e-30, "float64": 1e-30}
_DENORMAL = {"float16": 3e-7, "bfloat16": 1e-39, "float32": 1e-40, "float64": 1e-310}
_HUGE = {"float16": 1e4, "bfloat16": 1e6, "float32": 1e6, "float64": 1e6}
_UNSEEN = "unseen by the model"
_NON_ASCII = ("Łódź", "naïve café", "ÄÖÜ ß", "Ελλάδα", "日本語", "🙂")
_SCATTERED_SHARE = 0.25


def fill(given: InputSpec, shape: tuple[int, ...], value: Any) -> Array:
    """An array with the value in every element."""
    return np.full(shape, value, dtype_of(given))


def scatter(array: Array, items: tuple[Any, ...], rng: np.random.Generator) -> Array:
    """A copy with the items in the whole first row and at random places in the others; the rest stays ordinary."""
    scattered = array.copy()
    chosen = np.asarray(rng.random(array.shape) < _SCATTERED_SHARE)
    chosen[(slice(1),) if array.ndim else ()] = True
    picked = rng.integers(0, len(items), size=int(np.count_nonzero(chosen)))
    scattered[chosen] = np.array(items, dtype=array.dtype)[picked]
    return scattered


def _number(value: float) -> Callable[[InputSpec], Any]:
    """The value, if the schema allows it."""
    return lambda given: value if _allows(given, value) else None


def _float(values: Mapping[str, float]) -> Callable[[InputSpec], Any]:
    """The value for the input's dtype, if that is a float and the schema allows the value."""
    return lambda given: values[given.dtype] if given.dtype in values and _allows(given, values[given.dtype]) else None


def _allows(given: InputSpec, value: float) -> bool:
    if given.dtype == "string" or given.dtype.startswith("complex"):
        return False
    if given.values is not None:
        return value in given.values
    if given.dtype == "bool":
        return value in (0, 1)
    if is_float(given):
        low, high = given.range or (-math.inf, math.inf)
        return low <= value <= high
    low, high = integer_range(given)
    return low <= value <= high


def _end(which: int) -> Callable[[InputSpec], Any]:
    """The lowest or the highest value that the schema names; None for an input without `range` or `values`."""

    def extreme(given: InputSpec) -> Any:
        if given.dtype == "string":
            return None
        if given.values is not None:
            return sorted(given.values, key=lambda value: float(value or 0))[which]
        if given.range is None:
            return None
        return given.range[which] if is_float(given) else integer_range(given)[which]

    return extreme


def _allowed(word: str, value: float) -> Callable[[InputSpec], Any]:
    """NaN or an infinity, if the schema says that the model must answer it."""
    return lambda given: (value,) if word in given.allow else None


def _unseen(given: InputSpec) -> Any:
    """A category that isn't in `values`; for text, an unknown word."""
    if given.dtype == "string":
        return (_UNSEEN,)
    if given.values is None or is_float(given) or given.dtype == "bool":
        return None
    (least, most), values = integer_limits(given), [int(value or 0) for value in given.values]
    if max(values) < most:
        return (max(values) + 1,)
    return (min(values) - 1,) if min(values) > least else None


def _empty_string(given: InputSpec) -> Any:
    return ("",) if given.dtype == "string" and (given.values is None or "" in given.values) else None


def _non_ascii(given: InputSpec) -> Any:
    if given.dtype != "string":
        return None
    if given.values is None:
        return _NON_ASCII
    return tuple(value for value in given.values if not str(value).isascii()) or None


FILLED: dict[str, Callable[[InputSpec], Any]] = {
    "zeros": _number(0),
    "ones": _number(1),
    "lowest": _end(0),
    "highest": _end(-1),
    "tiny": _float(_TINY),
    "huge": _float(_HUGE),
    "negative-zero": _float(dict.fromkeys(_HUGE, -0.0)),
    "denormal": _float(_DENORMAL),
}
"""Input → the value for all its elements; None if the input can't take it."""

SCATTERED: dict[str, Callable[[InputSpec], Any]] = {
    "nan": _allowed("nan", math.nan),
    "infinity": _allowed("inf", math.inf),
    "negative-infinity": _allowed("inf", -math.inf),
    "unknown-category": _unseen,
    "empty-string": _empty_string,
    "non-ascii": _non_ascii,
}
"""Input → the values that are mixed into its rows; None if the input can't take them."""
