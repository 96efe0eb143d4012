"""Values that are never fed, though the model knows them: the data doesn't contain them, or `range` excludes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.wording.hints import listed
from onnx_gate.wording.numbers import plural, scalar
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.generate import is_float

Array = npt.NDArray[Any]
_MOST_NAMED = 5


def lacking(spec: ModelSpec, domains: Domains, dataset: Dataset) -> Iterator[str]:
    """One sentence for missing values, and one for each column whose categories don't all occur."""
    if dataset.recorded:
        return
    columns = list(_columns(spec, domains, dataset))
    complete = [name for name, values, held in columns if values.missing and not _any_missing(held)]
    if complete:
        yield (
            f"none of {_rows(spec, dataset)} has a missing value in {listed(complete, _MOST_NAMED)}, and the model has "
            "learnt what to do with one: that was not compared"
        )
    absent: dict[str, list[str]] = {}
    for name, values, held in columns:
        for stand_in in _stand_ins(values, held):
            absent.setdefault(stand_in, []).append(name)
    for stand_in, names in absent.items():
        yield (
            f"none of {_rows(spec, dataset)} holds {stand_in} in {listed(names, _MOST_NAMED)}, which the model takes "
            "for a missing value: that was not compared"
        )
    for name, values, held in columns:
        if sought := [scalar(value) for value in _sought(values) if not (held == value).any()]:
            yield (
                f"none of {_rows(spec, dataset)} holds {listed(sought, _MOST_NAMED)} in {name}, and the model tests "
                "for it: what follows was not compared"
            )
    few = [told for name, values, held in columns if (told := _categories(name, values, held))]
    yield from few[:_MOST_NAMED]
    if len(few) > _MOST_NAMED:
        yield f"{len(few) - _MOST_NAMED} more columns do not hold all of their categories"


def excluded(spec: ModelSpec, domains: Domains) -> Iterator[str]:
    """One sentence for each input whose `range` or `values` exclude missing values, or one that the model tests for."""
    for given in spec.inputs or ():
        domain = domains.inputs.get(given.name)
        known = [*([domain.every] if domain.every else []), *domain.columns.values()] if domain else []
        sought = dict.fromkeys(value for values in known for value in _sought(values))
        told = listed([scalar(value) for value in sought if not _may_hold(given, value)], _MOST_NAMED)
        key = "values" if given.values is not None else "range"
        if told:
            yield (
                f"`{key}` of `{given.name}` excludes {told}, and the model tests for it: what follows was not "
                f"compared. Fix: let `{key}` contain it, or give `data` that does"
            )
        if is_float(given) and not _may_hold(given, math.nan) and any(values.missing for values in known):
            yield (
                f"`{key}` of `{given.name}` excludes missing values, and the model has learnt what to do with one: "
                f"that was not compared. Fix: remove `{key}`, or give `data` with missing values"
            )


def _may_hold(given: InputSpec, value: float) -> bool:
    if given.values is not None:
        return value in given.values or (value != value and any(each != each for each in given.values))
    return given.range is None or given.range[0] <= value <= given.range[1]


def _sought(values: Values) -> list[float]:
    """The numbers that the model tests for, except those that stand for a missing value."""
    return [] if Origin.MISSING in values.origins else list(values.exact)


def _rows(spec: ModelSpec, dataset: Dataset) -> str:
    arrays = [part.inputs.get(given.name) for part in dataset.all_parts for given in (spec.inputs or ())[:1]]
    return plural(sum(len(array) for array in arrays if isinstance(array, np.ndarray) and array.ndim), "row")


def _columns(spec: ModelSpec, domains: Domains, dataset: Dataset) -> Iterator[tuple[str, Values, Array]]:
    """Every column that the model knows something about: its name, what is known, and its data of all sizes."""
    for given in spec.inputs or ():
        domain = domains.inputs.get(given.name)
        found = [part.inputs.get(given.name) for part in dataset.all_parts]
        arrays = [array for array in found if isinstance(array, np.ndarray)]
        if domain is None or not arrays:
            continue
        if domain.every:
            yield f"`{given.name}`", domain.every, _joined(arrays)
        for column, values in domain.columns.items():
            held = [array if array.ndim < 2 else array[..., column] for array in arrays if _has(array, column)]
            if held:
                names = dataset.columns.get(given.name, spec.columns or ())
                yield _named(given, names, column, arrays[0]), values, _joined(held)


def _has(array: Array, column: int) -> bool:
    return array.ndim < 2 or column < array.shape[-1]


def _joined(arrays: list[Array]) -> Array:
    return np.concatenate([array.ravel() for array in arrays])


def _stand_ins(values: Values, held: Array) -> Iterator[str]:
    """What stands for a missing value and does not occur: a text, or a number that only the model gives this sense."""
    if values.missing_text is not None and held.dtype.kind in "OUS" and values.missing_text not in set(held.tolist()):
        yield repr(values.missing_text)
    if Origin.MISSING in values.origins and not values.missing and held.dtype.kind in "fiu":
        yield from (scalar(value) for value in values.exact if not (held == value).any())


def _named(given: InputSpec, names: Sequence[str], column: int, array: Array) -> str:
    if column < len(names):
        return f"`{names[column]}`"
    return f"`{given.name}`" if array.ndim < 2 or array.shape[-1] == 1 else f"column {column} of `{given.name}`"


def _any_missing(held: Array) -> bool:
    return held.dtype.kind != "f" or bool(np.isnan(held).any())


def _categories(name: str, values: Values, held: Array) -> str:
    if Origin.CATEGORIES not in values.origins or not values.choices:
        return ""
    seen = {str(each) if held.dtype.kind in "OUS" else float(each) for each in np.unique(held)}
    known = {str(each) if isinstance(each, str) else float(each or 0) for each in values.choices}
    occurring = len(known & seen)
    if occurring == len(known):
        return ""
    return f"{occurring:,} of {len(known):,} categories of {name} occur in the data: the others were not compared"
