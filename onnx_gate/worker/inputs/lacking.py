"""Values that the user's data doesn't contain, though the model has learnt how to handle them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.wording.hints import listed
from onnx_gate.wording.numbers import plural
from onnx_gate.worker.inputs.data import Dataset

Array = npt.NDArray[Any]
_MOST_NAMED = 5


def lacking(spec: ModelSpec, domains: Domains, dataset: Dataset) -> Iterator[str]:
    """One sentence for missing values, and one for each column whose categories don't all occur."""
    if dataset.recorded:
        return
    columns = list(_columns(spec, domains, dataset))
    complete = [name for name, values, held in columns if values.missing and not _any_missing(held)]
    if complete:
        rows = plural(len(columns[0][2]), "row")
        yield (
            f"none of {rows} has a missing value in {listed(complete, _MOST_NAMED)}, and the model has learnt what to "
            "do with one: that was not compared"
        )
    few = [told for name, values, held in columns if (told := _categories(name, values, held))]
    yield from few[:_MOST_NAMED]
    if len(few) > _MOST_NAMED:
        yield f"{len(few) - _MOST_NAMED} more columns do not hold all of their categories"


def _columns(spec: ModelSpec, domains: Domains, dataset: Dataset) -> Iterator[tuple[str, Values, Array]]:
    """Every column that the model knows something about: its name, what is known, and its data."""
    for given in spec.inputs or ():
        domain, array = domains.inputs.get(given.name), dataset.inputs.get(given.name)
        if domain is None or not isinstance(array, np.ndarray):
            continue
        if domain.every:
            yield f"`{given.name}`", domain.every, array
        for column, values in domain.columns.items():
            flat = array.ndim < 2
            if flat or column < array.shape[-1]:
                yield _named(given, dataset, column, array), values, array if flat else array[..., column]


def _named(given: InputSpec, dataset: Dataset, column: int, array: Array) -> str:
    names = dataset.columns.get(given.name, ())
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
