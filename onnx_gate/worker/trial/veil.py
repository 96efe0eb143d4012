"""Removes values of the user's data from what other code says about a feed: errors often name the value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnx_gate.records.asked import ModelSpec
from onnx_gate.worker.inputs.calls import Call

HIDDEN = "…"
MOST_VALUES = 4_000_000
_SHORTEST = 3
"""Characters of a text that is looked for; shorter ones are part of many words."""
_USUAL = frozenset((-1.0, 0.0, 1.0))
"""Numbers that say nothing about a row."""
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?!\w)")


def veiled(text: str, spec: ModelSpec, call: Call, *, generated: bool = False) -> str:
    """The text, without values of this call if they are the user's own and may not be shown.

    Sizes of its arrays stay, because they are in most messages.
    """
    if generated or not spec.hides_data:
        return text
    arrays = list(_arrays((call.feed, call.given, call.recorded, *call.asked)))
    for word in sorted(_texts(arrays), key=len, reverse=True):
        text = text.replace(word, HIDDEN)
    numbers = [array.astype(np.float64).ravel() for array in arrays if array.dtype.kind in "fiu"]
    values = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0)
    sizes = {float(size) for array in arrays for size in (*array.shape, array.size)} | _USUAL
    return _NUMBER.sub(lambda found: HIDDEN if _is_one_of(found[0], values, sizes) else found[0], text)


def _arrays(parts: tuple[Any, ...]) -> Iterator[np.ndarray[Any, Any]]:
    """Arrays of tensors and lists of them, up to a number of values."""
    left = MOST_VALUES
    waiting = [value for part in parts if part for value in part.values()]
    while waiting and left > 0:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value[:left]
        elif value is not None:
            array = np.asarray(value)
            left -= array.size
            yield array


def _texts(arrays: list[np.ndarray[Any, Any]]) -> set[str]:
    words = (str(each) for array in arrays if array.dtype.kind in "OUS" for each in array.ravel().tolist())
    return {word for word in words if len(word) >= _SHORTEST}


def _is_one_of(literal: str, values: np.ndarray[Any, Any], sizes: set[float]) -> bool:
    """Whether a number is one of these values, to as many digits as it is written with."""
    number = float(literal)
    if number in sizes or not math.isfinite(number) or not values.size:
        return False
    digits, _, exponent = literal.lower().partition("e")
    last = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    near = last / 2 + 1e-6 * abs(number) if "." in digits else 0.0
    first = np.searchsorted(values, number - near)
    return bool(first < values.size and values[first] <= number + near)
