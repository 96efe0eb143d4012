"""The effect of a fitted step on each of its columns: found by calling the step, so that every class works.

A row is changed in one column at a time. An output column that changes with exactly one input column is a function
of it. It is inverted by the step itself (`inverse_transform`), or by search where the step has no inverse.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.vocabulary import Scalar
from onnx_gate.worker.domains.columns import Column, Columns, changed

Array = npt.NDArray[Any]
MOST_COLUMNS = 512
"""The limit for steps that are tested column by column."""
MOST_CODES = 512
"""The limit for categories of all columns of an encoder; the answer to more of them would be a large matrix."""
_SIZES = np.logspace(-12, 15, 1500)
_GRID = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
"""The points at which a function without an inverse is evaluated."""
_HALVINGS = 40


def follow(step: Any, columns: Columns) -> Columns | None:
    """The columns of the step's output; None where not even their number is known."""
    for way in (_selected, _imputed, _coded, _asked, _unknown):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = way(step, columns)
        except Exception:  # noqa: S112
            # Any step may fail in any way on rows that it wasn't made for: then nothing is known about it.
            continue
        if found is not None:
            return found
    return None


def width_of(step: Any) -> int | None:
    """The number of output columns of a step, if the step states it."""
    try:
        return len(step.get_feature_names_out())
    except Exception:
        return None


def ask(step: Any, rows: Array) -> Array:
    """The step's output as a plain matrix."""
    names = getattr(step, "feature_names_in_", None)
    if names is not None and len(names) == rows.shape[1]:
        import pandas as pd

        answer = step.transform(pd.DataFrame(rows, columns=names))
    else:
        answer = step.transform(rows)
    return dense(answer)


def dense(values: Any) -> Array:
    """A sparse matrix or a table as an array."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def _selected(step: Any, columns: Columns) -> Columns | None:
    if not callable(getattr(step, "get_support", None)) or not hasattr(step, "transform"):
        return None
    return [columns[number] for number in np.flatnonzero(step.get_support())]


def is_imputer(step: Any) -> bool:
    """Whether a step replaces missing values."""
    return hasattr(step, "missing_values") and hasattr(step, "transform") and hasattr(step, "keep_empty_features")


def _imputed(step: Any, columns: Columns) -> Columns | None:
    """The same columns, without those that were empty; then one for each indicator."""
    if not is_imputer(step):
        return None
    learnt = getattr(step, "statistics_", None)
    empty = [isinstance(each, float) and np.isnan(each) for each in learnt] if learnt is not None else []
    kept = [
        _without_missing(column)
        for number, column in enumerate(columns)
        if step.keep_empty_features or number >= len(empty) or not empty[number]
    ]
    indicator = getattr(step, "indicator_", None)
    return [*kept, *([None] * (len(indicator.features_) if indicator is not None else 0))]


def _without_missing(column: Column | None) -> Column | None:
    return None if column is None else replace(column, misses=False)


def _coded(step: Any, columns: Columns) -> Columns | None:
    """The columns of an encoder: its code for each category is read from its output."""
    known = getattr(step, "categories_", None)
    if not isinstance(known, list) or len(known) != len(columns) or not hasattr(step, "transform"):
        return None
    listed = [[value for value in np.asarray(each).tolist() if _is_plain(value)] for each in known]
    if sum(map(len, listed)) > MOST_CODES or not all(listed):
        return None
    base = np.array([each[0] for each in listed], dtype=object)
    rows, owners = [base], [(-1, None)]
    for number, values in enumerate(listed):
        for value in values:
            row = base.copy()
            row[number] = value
            rows.append(row)
            owners.append((number, value))
    answers = ask(step, _typed(np.array(rows, dtype=object), known)).astype(np.float64)
    return [_codes_of(answers[:, out], owners, columns) for out in range(answers.shape[1])]


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and value == value


def _typed(rows: Array, known: list[Any]) -> Array:
    """The rows as numbers where all categories are numbers: encoders compare the dtype too."""
    return rows.astype(np.float64) if all(np.asarray(each).dtype.kind in "fiub" for each in known) else rows


def _codes_of(answers: Array, owners: list[Any], columns: Columns) -> Column | None:
    """The input column that an output column depends on, with a code for each of its categories."""
    numbers = {number for (number, _), code in zip(owners, answers, strict=True) if code != answers[0]}
    if len(numbers) != 1:
        return None
    (number,) = numbers
    column = columns[number]
    if column is None or not column.is_raw:
        return None
    codes: dict[Scalar, float] = {
        raw if column.is_text else float(raw): float(code)
        for (owner, raw), code in zip(owners, answers, strict=True)
        if owner == number and (column.is_text == isinstance(raw, str))
    }
    return Column(place=column.place, dtype=column.dtype, codes=codes, misses=False) if codes else None


def _asked(step: Any, columns: Columns) -> Columns | None:
    """The columns of any other step that turns numbers into numbers."""
    if not hasattr(step, "transform") or hasattr(step, "vocabulary_") or len(columns) > MOST_COLUMNS:
        return None
    low, high = _typical(step, len(columns))
    base = ask(step, low[None]).astype(np.float64)
    answers = ask(step, _one_by_one(low, high)).astype(np.float64)
    if columns and len(answers) != len(columns):
        return None
    missing = _quietly(lambda: ask(step, _one_by_one(low, np.full(len(low), np.nan))), answers.shape)
    found: Columns = []
    for out in range(answers.shape[1]):
        owners = np.flatnonzero(answers[:, out] != base[0, out])
        number = int(owners[0]) if len(owners) == 1 else -1
        column = columns[number] if number >= 0 else None
        if column is not None:
            probe = _Probe(step=step, number=number, out=out, low=low, base=base[0])
            rising, misses = answers[number, out] > base[0, out], np.isnan(float(missing[number, out]))
            column = _one(probe, column, bool(rising), bool(misses))
        found.append(column)
    return found


def _one_by_one(low: Array, others: Array) -> Array:
    """One row per column, changed in this column alone."""
    rows = np.repeat(low[None], len(low), axis=0)
    np.fill_diagonal(rows, others)
    return rows


def _typical(step: Any, width: int) -> tuple[Array, Array]:
    """Two rows like those that the step was fitted on, different in each column."""
    for low, high in _learnt_ends(step):
        ends = np.broadcast_to(np.asarray(low, float), width), np.broadcast_to(np.asarray(high, float), width)
        if all(np.isfinite(end).all() for end in ends):
            return ends[0].copy(), np.where(ends[1] > ends[0], ends[1], ends[0] + 1.0)
    return np.ones(width), np.full(width, 2.0)


def _learnt_ends(step: Any) -> list[tuple[Any, Any]]:
    found = []
    if hasattr(step, "data_min_") and hasattr(step, "data_max_"):
        found.append((step.data_min_, step.data_max_))
    if getattr(step, "quantiles_", None) is not None:
        quantiles = np.asarray(step.quantiles_)
        found.append((quantiles[len(quantiles) // 3], quantiles[-1 - len(quantiles) // 3]))
    if hasattr(step, "bin_edges_"):
        found.append(([edges[0] for edges in step.bin_edges_], [edges[-1] for edges in step.bin_edges_]))
    if isinstance(threshold := getattr(step, "threshold", None), int | float):
        found.append((threshold - 1.0, threshold + 1.0))
    return found


@dataclass(frozen=True, kw_only=True)
class _Probe:
    """A step with one input column that is changed, and one output column that is observed."""

    step: Any
    number: int
    """The position of the column that is changed."""
    out: int
    """The position of the output column that changes with it."""
    low: Array
    """The row that is changed."""
    base: Array
    """The step's output for the row."""

    def forward(self, values: Array) -> Array:
        """The outputs of the step for values of the column."""
        rows = np.repeat(self.low[None], len(values), axis=0)
        rows[:, self.number] = values
        return _quietly(lambda: ask(self.step, rows)[:, self.out].astype(np.float64), values.shape)

    def own_inverse(self, values: Array) -> Array:
        """The values that the step's own inverse gives; NaN where they don't lead back, or there is no inverse."""
        if not hasattr(self.step, "inverse_transform"):
            return np.full(len(values), np.nan)
        rows = np.repeat(self.base[None], len(values), axis=0)
        rows[:, self.out] = values
        found = _quietly(
            lambda: dense(self.step.inverse_transform(rows))[:, self.number].astype(np.float64), values.shape
        )
        return np.where(np.isclose(self.forward(found), values, rtol=1e-6, atol=1e-9), found, np.nan)


def _one(probe: _Probe, column: Column, rising: bool, misses: bool) -> Column | None:
    """The column after the step."""
    if column.codes is not None:
        codes = dict(zip(column.codes, probe.forward(np.array(list(column.codes.values()))).tolist(), strict=True))
        return Column(place=column.place, dtype=column.dtype, codes=codes, misses=False)
    if column.is_text:
        return None
    if probe.base[probe.out] == probe.low[probe.number] and np.array_equal(probe.forward(_GRID), _GRID):
        return replace(column, misses=column.misses and misses)
    known: dict[float, float] = {}

    def inverse(values: Array) -> Array:
        # The same thresholds occur again in boxes.
        new = np.array([value for value in values.tolist() if value not in known])
        known.update(zip(new.tolist(), _inverse(probe, new, rising=rising).tolist(), strict=True))
        return np.array([known[value] for value in values.tolist()])

    return changed(column, forward=probe.forward, inverse=inverse, rising=rising, misses=misses)


def _quietly(compute: Callable[[], Array], shape: tuple[int, ...]) -> Array:
    """The result, or NaN everywhere where the step refuses the values."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return compute()
    except Exception:
        return np.full(shape, np.nan)


def _inverse(probe: _Probe, values: Array, *, rising: bool) -> Array:
    """The step's own inverse where it leads back to the same values, else the result of a search."""
    if not len(values):
        return values
    found = probe.own_inverse(values)
    lost = np.isnan(found)
    if lost.any():
        found[lost] = _search(probe.forward, values[lost], rising=rising)
    return found


def _search(forward: Callable[[Array], Array], values: Array, *, rising: bool) -> Array:
    """Bisection between two points of the grid; NaN where the function isn't monotone, or doesn't reach a value."""
    answers = forward(_GRID)
    kept = np.isfinite(answers)
    grid, sign = _GRID[kept], 1.0 if rising else -1.0
    answers, targets = sign * answers[kept], sign * values
    # Rounding of large values may make the function fall a little.
    if len(grid) < 2 or (np.diff(answers) < -1e-9 * np.maximum(1.0, np.abs(answers[1:]))).any():
        return np.full(len(values), np.nan)
    after = np.searchsorted(answers, targets)
    inside = (after > 0) & (after < len(grid))
    low, high = grid[np.clip(after - 1, 0, len(grid) - 1)], grid[np.clip(after, 0, len(grid) - 1)]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sign * forward(middle) < targets
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(inside, high, np.nan)


def _unknown(step: Any, columns: Columns) -> Columns | None:
    """As many columns as the step has output names, all of them unknown."""
    width = width_of(step)
    return None if width is None else [None] * width
