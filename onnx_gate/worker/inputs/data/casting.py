"""The user's values in the schema's dtype: a loss is an error, or a note. Messages show values only with `shows`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.data.values import Place, fit_text, show_index
from onnx_gate.worker.inputs.generate import dtype_of, is_float

Array = npt.NDArray[Any]
_MOST_SORTED = 1 << 24
"""Most elements of an array for the check whether different values become equal."""
_BY_CHANCE = 1 << 22
"""n² divided by this: how many of n values become equal in float32 by chance. Only more than that is reported."""


def in_schema_dtype(array: Array, given: InputSpec, where: str, *, shows: bool = False) -> tuple[Array, list[str]]:
    """The same values in the schema's dtype and this machine's byte order, with notes about rounding."""
    if given.dtype == "string":
        if array.dtype.kind not in "OUS":
            raise wrong_dtype(where, array, given)
        return fit_text(array, where, shows=shows), []
    dtype = dtype_of(given)
    if array.dtype == dtype:
        return array, []
    widens = array.dtype.kind in "biu" and (dtype.kind in "iu" or is_float(given))
    if not widens and (array.dtype.kind == "O" or not np.can_cast(array.dtype, dtype, casting="same_kind")):
        raise wrong_dtype(where, array, given)
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    if array.dtype.kind in "iu":
        check_whole(array, given, where, shows=shows)
    elif is_float(given):
        _check_finite(array, cast, given, where, shows=shows)
        narrower = cast.dtype.itemsize < array.dtype.itemsize
        return cast, _rounding_notes(array, cast, given, where, shows=shows) if narrower else []
    return cast, []


def check_whole(array: Array, given: InputSpec, where: str, place: Place = show_index, *, shows: bool = False) -> None:
    """Refuse whole numbers that the schema's dtype can't hold: a changed id would be another id."""
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype_of(given))
    if is_float(given):
        # Compared as integers: as floats, both sides would be rounded.
        lost = np.array([not _holds(value, got) for value, got in _pairs(array, cast)], dtype=bool).reshape(array.shape)
    else:
        lost = cast != array
    if not lost.any():
        return
    index = tuple(int(i) for i in np.argwhere(lost)[0])
    value, becomes = int(array[index]), cast[index]
    shown = f"{float(becomes):.0f}" if is_float(given) else str(becomes)
    lost_one = f"{value} {place(index)} would become {shown}" if shows else f"the one {place(index)} would change"
    wide = "int64` or `float64" if is_float(given) and given.dtype != "float64" and abs(value) <= 2**53 else "int64"
    smaller = "; where the model takes only float32, train it on smaller numbers, such as days since the first row"
    fix = f"declare it as `{wide}`{smaller}" if is_float(given) else "declare a wider dtype, or correct the data"
    count = int(np.count_nonzero(lost))
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{where}: {count} whole {'number doesn' if count == 1 else 'numbers don'}'t fit into {given.dtype}; "
        f"{lost_one}",
        fix=fix,
    )


def _pairs(array: Array, cast: Array) -> Any:
    # Most data holds no number that large: the slow comparison, one by one, is made only if it does.
    exact = 2 ** (np.finfo(cast.dtype).nmant + 1) if cast.dtype.kind == "f" else 256
    if not array.size or (abs(int(array.max())) <= exact and abs(int(array.min())) <= exact):
        return ((0, 0.0) for _ in range(array.size))
    return zip(array.ravel().tolist(), cast.ravel().astype(np.float64).tolist(), strict=True)


def _holds(value: int, got: float) -> bool:
    return np.isfinite(got) and int(got) == value


def _check_finite(array: Array, cast: Array, given: InputSpec, where: str, *, shows: bool) -> None:
    lost = np.isfinite(array) & ~np.isfinite(cast)
    if not lost.any():
        return
    index = tuple(int(i) for i in np.argwhere(lost)[0])
    value = f"{float(array[index]):g}" if shows else "the one"
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{where}: {int(np.count_nonzero(lost))} values are too large for {given.dtype}, "
        f"such as {value} {show_index(index)}",
        fix="declare a wider dtype",
    )


def made_equal(given: Mapping[str, Any], fitted: Mapping[str, Any]) -> Iterator[str]:
    """A warning for each input with different values that become equal; the source gets them rounded, too."""
    for name, array in given.items():
        if array.dtype.kind == "f" and (met := _meetings(array, fitted[name].astype(array.dtype))):
            yield (
                f"`{name}`: {met[0]:,} different values of the data become equal in {fitted[name].dtype}. The source "
                "got them like this, too, so that its answers to the data as given were not compared. Fix: subtract "
                "their smallest value before they reach the model, or declare float64"
            )


def _rounding_notes(array: Array, cast: Array, given: InputSpec, where: str, *, shows: bool) -> list[str]:
    """Notes about whole numbers that change, values that become equal, or become 0; other rounding is normal."""
    back = cast.astype(array.dtype)
    notes = []
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(array) & (array == np.floor(array)) & (back != array)
    if whole.any():
        what = _example(whole, array, back, shows=shows)
        notes.append(f"{where}: {int(whole.sum())} whole numbers change in {given.dtype}, such as {what}")
    vanished = (array != 0) & (cast == 0)
    if vanished.any():
        what = _example(vanished, array, back, shows=shows)
        notes.append(f"{where}: {int(vanished.sum())} values become 0 in {given.dtype}, such as {what}")
    if met := _meetings(array, back):
        count, first, second = met
        pair = (
            f"{float(array[first])!r} and {float(array[second])!r}, both {float(back[first])!r}"
            if shows
            else f"those {show_index(first)} and {show_index(second)}"
        )
        notes.append(
            f"{where}: {count} different values become equal in {given.dtype}, such as {pair}: if they tell rows "
            "apart, subtract their smallest value before they reach the model"
        )
    return notes


def _example(chosen: Array, array: Array, back: Array, *, shows: bool) -> str:
    """The first of the chosen values, by its place."""
    index = tuple(int(i) for i in np.argwhere(chosen)[0])
    if not shows:
        return f"the one {show_index(index)}"
    return f"{float(array[index])!r} {show_index(index)}, which becomes {float(back[index])!r}"


def _meetings(array: Array, back: Array) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """Values of one column that differ before rounding but not after: how many, and the places of two of them."""
    if array.ndim not in (1, 2) or array.size > _MOST_SORTED:
        return None
    columns = array.reshape(len(array), -1)
    total, example = 0, None
    for number, (column, rounded) in enumerate(zip(columns.T, back.reshape(columns.shape).T, strict=True)):
        finite = np.flatnonzero(np.isfinite(column))
        values, first = np.unique(column[finite], return_index=True)
        after = rounded[finite][first]
        same = np.flatnonzero((after[1:] == after[:-1]) & (after[1:] != 0))
        if same.size > values.size**2 / _BY_CHANCE:
            total += int(same.size) + 1
            rows = [int(finite[first[at]]) for at in (same[0], same[0] + 1)]
            places = [(row, number)[: array.ndim] for row in rows]
            example = example or (places[0], places[1])
    return (total, *example) if example else None


def wrong_dtype(where: str, array: Array, given: InputSpec) -> CannotJudge:
    """The error for data whose kind of dtype differs from the schema's."""
    got = "text" if array.dtype.kind in "OUS" else array.dtype.name
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{where}: the dtype is {got}, expected {given.dtype}",
        fix="change the data, or `dtype` in the manifest",
    )
