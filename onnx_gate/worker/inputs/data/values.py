"""Text, and data for inputs that aren't plain tensors: checked before ONNX Runtime converts it to something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import kind_of

Array = npt.NDArray[Any]
Place = Callable[[tuple[int, ...]], str]
FitArray = Callable[[Array, InputSpec, str], Array]
_EXPECTED = {
    "sequence": "a list of arrays, or of dicts where it is a sequence of maps",
    "map": "a dict of numbers or texts",
    "optional": "an array, a list of arrays, or None",
    "sparse_tensor": "an array, whose zeros are left out",
    "unranked": "an array",
}


def needs_data(given: InputSpec, shown: str) -> CannotJudge:
    """The error for an input that isn't a tensor of a declared shape: no feed can be generated for it."""
    if given.form == "unranked":
        return CannotJudge(
            Cause.INVALID_MODEL,
            f"{shown}: the input {given.name!r} is a {given.dtype} tensor of undeclared shape: no feed can be made",
            fix=f"declare it: `inputs: {{{given.name}: {{dtype: {given.dtype}, shape: [batch, …]}}}}`, or give `data`",
        )
    return CannotJudge(
        Cause.INVALID_MODEL,
        f"{shown}: the input {given.name!r} is a {given.form.replace('_', ' ')}: no feed can be made for it",
        fix="give `data`: a folder of test_data_set_N, or file.py:callable that returns "
        f"{{{given.name!r}: {_EXPECTED[given.form].split(',')[0]}, …}}",
    )


def fit_value(value: Any, given: InputSpec, shown: str, fit_array: FitArray) -> Any:
    """The value in the form of the input, with its arrays in the input's dtype."""
    if given.form == "optional" and value is None:
        return None
    if given.form == "map" or (given.form == "sequence" and isinstance(value, list) and _holds_dicts(value)):
        return _fit_maps(value, given, shown)
    if given.form in ("sequence", "optional") and isinstance(value, list | tuple):
        parts = [replace(given, name=f"{given.name}[{i}]") for i in range(len(value))]
        return [fit_array(np.asarray(part), one, shown) for part, one in zip(value, parts, strict=True)]
    if given.form == "sequence" or value is None or isinstance(value, dict | list | tuple):
        raise _wrong_form(value, given, shown)
    return fit_array(np.asarray(value), given, shown)


def show_index(index: tuple[int, ...]) -> str:
    """The position of an element, counted as in numpy."""
    return f"at [{', '.join(map(str, index))}]"


def fit_text(array: Array, where: str, place: Place = show_index, *, shows: bool = False) -> Array:
    """Text as Python strings: ONNX Runtime would turn None into 'None', and bytes into "b'a'"."""
    if array.dtype.kind == "U":
        return array.astype(object)
    fitted = np.empty(array.shape, object)
    for index, item in np.ndenumerate(array):
        fitted[index] = _text(item, where, place(index), shows=shows)
    return fitted


def _text(item: Any, where: str, place: str, *, shows: bool) -> str:
    try:
        text = item.decode() if isinstance(item, bytes) else item
        if isinstance(text, str):
            text.encode()
            return str(text)
    except UnicodeError:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{where}: what stands {place} is no text that UTF-8 can hold{f': {item!r}' if shows else ''}",
            fix="ONNX holds text as UTF-8: decode it as what it is",
        ) from None
    kind = repr(item) if shows or _is_missing(item) else f"of the type {type(item).__name__}"
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{where}: what stands {place} is {kind}, expected text: ONNX has no missing values among strings",
        fix="replace what is missing by a text, such as an empty one, or leave the row out",
    )


def _is_missing(item: Any) -> bool:
    return item is None or (isinstance(item, float | np.floating) and bool(np.isnan(item)))


def _holds_dicts(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], dict)


def _fit_maps(value: Any, given: InputSpec, shown: str) -> Any:
    if given.form == "map" and isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if given.form == "sequence" and all(isinstance(row, dict) for row in value):
        return [{_plain(key): _plain(item) for key, item in row.items()} for row in value]
    raise _wrong_form(value, given, shown)


def _plain(item: Any) -> Any:
    return np.asarray(item).item() if isinstance(item, np.ndarray | np.generic) else item


def _wrong_form(value: Any, given: InputSpec, shown: str) -> CannotJudge:
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{shown}: {given.name} is a {given.form.replace('_', ' ')} of the model: got {kind_of(value)}, "
        f"expected {_EXPECTED[given.form]}",
        fix="change the data",
    )
