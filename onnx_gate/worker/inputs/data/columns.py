"""Columns of a table → arrays in the dtype that an input needs. A column can name its rows in messages."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import plural
from onnx_gate.worker.inputs.data.casting import check_whole
from onnx_gate.worker.inputs.data.values import fit_text
from onnx_gate.worker.inputs.generate import is_float

Array = npt.NDArray[Any]
_TRUTH = {"0": False, "1": True, "false": False, "true": True, "False": False, "True": True}
_WORDS = frozenset(_TRUTH) - {"0", "1"}
_LEAVE_OUT = "choose the input's columns with `columns: […]`, or leave this one out with `ignore_data`"


class Column(Protocol):
    """One column of a table, from any kind of file."""

    def array(self, given: InputSpec | None, *, shows: bool = False) -> Array:
        """The values in the kind of dtype that the input needs; unchanged if the column belongs to no input.

        Messages show values only with `shows`.
        """


@dataclass(frozen=True, kw_only=True)
class TextColumn:
    """A column of a CSV."""

    file: str
    """The name of the file, for messages."""
    name: str
    """The name of the column."""
    texts: list[str]
    """One field per row."""
    lines: list[int]
    """The line number in the file, one per row."""

    @property
    def where(self) -> str:
        """File and column, for messages."""
        return f"{self.file}: column {self.name!r}"

    def array(self, given: InputSpec | None, *, shows: bool = False) -> Array:
        """The fields, parsed for the input's dtype."""
        if given is None:
            return self._guessed()
        if given.dtype == "string":
            return np.array(self.texts, dtype=object)
        if given.dtype == "bool":
            return np.array(self._parsed(_truth, "0, 1, true or false", given, shows=shows), dtype=bool)
        if (flags := self._flags()) is not self.texts:
            return replace(self, texts=flags).array(given, shows=shows)
        if not is_float(given):
            numbers = self._parsed(_whole, "a whole number", given, shows=shows)
            return self._whole_numbers(numbers, given, shows=shows)
        if any(self.texts) and all(_is_whole(text) for text in self.texts if text):
            # Checked before parsing: as a float, a large number would change unnoticed.
            written = [int(text) for text in self.texts if text]
            place = self._place_of([bool(text) for text in self.texts])
            check_whole(_integers(written), given, self.where, place, shows=shows)
        return np.array(self._parsed(_float, "a number", given, shows=shows), dtype=np.float64)

    def _flags(self) -> list[str]:
        """The fields with 1 for true and 0 for false, if a column holds nothing else; many models take no bools."""
        known = [text.strip() for text in self.texts if text.strip()]
        if not known or not all(text in _WORDS for text in known):
            return self.texts
        return [str(int(_TRUTH[text.strip()])) if text.strip() else text for text in self.texts]

    def _whole_numbers(self, numbers: list[int], given: InputSpec, *, shows: bool) -> Array:
        array = _integers(numbers)
        if array.dtype == object:
            at = next(i for i, number in enumerate(numbers) if not -(2**63) <= number < 2**64)
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{self.where}: {numbers[at] if shows else 'the number'} in line {self.lines[at]} doesn't fit into "
                f"{given.dtype}",
                fix="declare it as a string, or correct the data",
            )
        check_whole(array, given, self.where, lambda index: f"in line {self.lines[index[0]]}", shows=shows)
        return array

    def _place_of(self, filled: list[bool]) -> Callable[[tuple[int, ...]], str]:
        lines = [line for line, there in zip(self.lines, filled, strict=True) if there]
        return lambda index: f"in line {lines[index[0]]}"

    def _parsed(self, parse: Callable[[str], Any], wanted: str, given: InputSpec, *, shows: bool) -> list[Any]:
        parsed = []
        for line, text in zip(self.lines, self.texts, strict=True):
            try:
                parsed.append(parse(text.strip()))
            except (ValueError, KeyError):
                got = repr(text) if shows else _kind(text)
                raise CannotJudge(
                    Cause.LOAD_FAILED,
                    f"{self.file}: line {line}: column {self.name!r} holds {got}, expected {wanted}",
                    fix=_fix_field(text.strip(), given),
                ) from None
        return parsed

    def _guessed(self) -> Array:
        """Numbers if all fields are numbers, else text: the dtype of a recorded output may not be declared."""
        for parse in (int, float):
            try:
                return np.array([parse(text) for text in self.texts])
            except ValueError:
                continue
        return np.array(self.texts, dtype=object)


@dataclass(frozen=True, kw_only=True)
class TypedColumn:
    """A column of a Parquet file or a DataFrame."""

    where: str
    """File and column, for messages."""
    values: Array
    """The values; a missing one has any placeholder."""
    missing: npt.NDArray[np.bool_]
    """Which values are missing."""

    def array(self, given: InputSpec | None, *, shows: bool = False) -> Array:
        """The values; a missing value becomes NaN for a float input, and is an error for any other."""
        text = self.values.dtype.kind == "O"
        floats = given is not None and is_float(given)
        if given is not None and text != (given.dtype == "string"):
            got = "text" if text else self.values.dtype.name
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{self.where}: it holds {got}, expected {given.dtype}",
                fix=f"{_LEAVE_OUT}, or correct `dtype`",
            )
        if self.missing.any() and not floats:
            expected = given.dtype if given else self.values.dtype.name.replace("object", "text")
            fix = "declare the input as a float, where it becomes NaN" if given else "the column with `ignore_data`"
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{self.where}: a value is missing {_row((int(self.missing.argmax()),))}, expected {expected}",
                fix=f"fill it, leave the row out, or {fix}",
            )
        if given is None:
            return self.values
        if text:
            return fit_text(self.values, self.where, _row, shows=shows)
        if self.values.dtype.kind in "iu":
            check_whole(np.where(self.missing, 0, self.values), given, self.where, _row, shows=shows)
        return np.where(self.missing, np.nan, self.values) if floats and self.missing.any() else self.values


def from_objects(values: Array, missing: npt.NDArray[np.bool_], where: str) -> TypedColumn:
    """A column of Python objects, in the dtype that fits all of them."""
    there = values[~missing]
    kinds: list[tuple[tuple[type, ...], Any, Any]] = [
        ((bool, np.bool_), bool, False),
        ((int, np.integer), np.int64, 0),
        ((int, float, np.integer, np.floating, decimal.Decimal), np.float64, 0.0),
        ((str,), object, ""),
    ]
    for types, dtype, nothing in kinds:
        if all(isinstance(value, types) and (dtype is bool or not isinstance(value, bool)) for value in there):
            filled = values.copy()
            filled[missing] = nothing
            try:
                return TypedColumn(where=where, values=filled.astype(dtype), missing=missing)
            except OverflowError:
                continue
    other = next(value for value in there if not isinstance(value, str))
    raise not_readable(where, f"values of the type {type(other).__name__}")


def not_readable(where: str, what: str) -> CannotJudge:
    """The error for a column that no input can take."""
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{where}: it holds {what}, expected numbers, text, or true and false",
        fix=f"turn it into one of those where the data is made; or {_LEAVE_OUT}",
    )


def _row(index: tuple[int, ...]) -> str:
    return f"in row {index[0]} (counted from 0)"


def _integers(numbers: list[int]) -> Array:
    """The numbers as int64; if they don't fit, in the dtype that numpy chooses."""
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        return np.array(numbers)


def _kind(text: str) -> str:
    """What a field holds, without its value."""
    if not text.strip():
        return "nothing"
    return "a number" if _is_float(text) else f"text of {plural(len(text), 'character')}"


def _truth(text: str) -> bool:
    return _TRUTH[text]


def _fix_field(text: str, given: InputSpec) -> str:
    """How to fix a field that can't be parsed as the input's dtype."""
    if given.dtype == "bool":
        return f"write true or false, or declare {given.name!r} as `string`"
    if not text:
        return f"fill it, or declare {given.name!r} as `float32` or `float64`, where an empty field is NaN"
    if _is_float(text):
        return f"write a whole number, or declare {given.name!r} as `float32` or `float64`"
    return f"correct it, or declare {given.name!r} as `string`; or {_LEAVE_OUT}"


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(text: str) -> int:
    """A whole number, parsed as an integer if possible: parsing as a float would change large ids."""
    try:
        return int(text)
    except ValueError:
        if not float(text).is_integer():
            raise
        return int(float(text))


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _float(text: str) -> float:
    return float(text) if text else float("nan")
