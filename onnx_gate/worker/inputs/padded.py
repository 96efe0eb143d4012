"""The case `padded`: rows of different lengths in one batch, each filled up to its end as real batches are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import Domain, Domains, Values
from onnx_gate.vocabulary import PADDED_CASE, Origin
from onnx_gate.worker.inputs.calls import Call, Case, Feed
from onnx_gate.worker.inputs.dims import has_batch, named_dims
from onnx_gate.worker.inputs.generate import dtype_of, is_float, shape_of
from onnx_gate.worker.inputs.known import can_hold, draws_known, generate

Array = npt.NDArray[Any]
_MOST_FILLERS = 4
"""Most values of one input that are tried as padding, each in a call of its own."""
_MOST_CELLS = 1 << 22
_MASK = {0, 1}


@dataclass(frozen=True, kw_only=True)
class _Padded:
    """An input with values that can fill the end of its rows."""

    given: InputSpec
    values: Values
    fillers: tuple[float, ...]
    axis: int
    """The axis along which the rows have a length."""

    @property
    def is_mask(self) -> bool:
        """Whether the input says which elements count: then all elements before the end count."""
        return _is_mask(self.values)

    @property
    def side_known(self) -> bool:
        """Whether it is known which value leaves an element out."""
        return not self.is_mask or len(self.fillers) == 1


def plan_padded(spec: ModelSpec, domains: Domains) -> Case | None:
    """The case; None if the model knows no value that stands for padding, or has no room for one."""
    sizes = {name: max(spec.dims[name]) for name in named_dims(spec) if name in spec.dims}
    if any(given.form != "tensor" for given in spec.inputs or ()) or len(sizes) < len(named_dims(spec)):
        return None
    if has_batch(spec):
        sizes = {"batch": max(spec.batches), **sizes}
    cells = sum(math.prod(shape_of(given, sizes)) for given in spec.inputs or ())
    found = list(_padded(spec, domains, sizes))
    if not found or cells > _MOST_CELLS:
        return None

    def calls() -> Iterator[Call]:
        for number in range(max(len(each.fillers) for each in found)):
            seed = f"{spec.base}/{PADDED_CASE}/{number}"
            feed = generate(spec.inputs or (), sizes, seed=seed, domains=domains)
            _fill(feed, found, number)
            yield Call(feed=feed)

    return Case(name=PADDED_CASE, calls=calls, sizes=sizes, optional=True, generated=True)


def _padded(spec: ModelSpec, domains: Domains, sizes: dict[str, int]) -> Iterator[_Padded]:
    for given in spec.inputs or ():
        domain = domains.inputs.get(given.name)
        axes = [axis for axis, size in enumerate(given.shape) if size != "batch"]
        if not axes or has_batch(spec) != ("batch" in given.shape) or not draws_known(given, domain):
            continue
        for values in _of_all(domain):
            vectors = is_float(given) and not _is_mask(values)
            if vectors and len(axes) < 2:
                continue
            # Padding fills whole vectors, and single ids.
            axis = axes[0] if vectors else axes[-1]
            fillers = tuple(_fillers(given, values))[:_MOST_FILLERS]
            if fillers and shape_of(given, sizes)[axis] > 1:
                yield _Padded(given=given, values=values, fillers=fillers, axis=axis)


def _of_all(domain: Domain | None) -> Iterator[Values]:
    """What is known of every element of an input."""
    if domain is None:
        return
    known = [domain.every] if domain.every else list(dict.fromkeys(domain.columns.values()))
    if len(known) == 1 and known[0] is not None:
        yield known[0]


def _is_mask(values: Values) -> bool:
    return Origin.MASKS in values.origins and set(values.choices) <= _MASK


def _fillers(given: InputSpec, values: Values) -> Iterator[float]:
    """The values that a model leaves out, or treats in a way of its own."""
    if _is_mask(values):
        yield from (0, 1) if values.never_empty == values.never_full else (int(values.never_full),)
        return
    if given.dtype == "string" or dtype_of(given).kind not in "iuf":
        return
    if is_float(given):
        yield from (value for value in values.exact if can_hold(given, value))
        return
    low, high = values.low, values.high
    looked_for = [*values.padding, *values.exact]
    if Origin.EMBEDDINGS in values.origins and low is not None:
        # Masks are also made with `ids > 0`.
        looked_for += [low] if any(low <= cut.at <= low + 1 for cut in values.cuts) else []
    for value in dict.fromkeys(looked_for):
        if can_hold(given, value) and (low is None or high is None or low <= value <= high):
            yield value


def _fill(feed: Feed, found: list[_Padded], number: int) -> None:
    """Give the rows of a feed different lengths; behind them stands padding, in all inputs alike."""
    every_side_known = all(each.side_known for each in found)
    for each in found:
        filler = each.fillers[min(number, len(each.fillers) - 1)]
        rows = _by_row(feed[each.given.name], each)
        _clear(rows, each, filler)
        for row, length in zip(rows, _lengths(len(rows), rows.shape[1], whole=every_side_known), strict=True):
            row[length:] = filler


def _by_row(array: Array, padded: _Padded) -> Array:
    """A view of an input: rows, positions in the row, and the rest."""
    if "batch" not in padded.given.shape:
        return np.moveaxis(array, padded.axis, 0)[None]
    return np.moveaxis(array, (padded.given.shape.index("batch"), padded.axis), (0, 1))


def _clear(rows: Array, padded: _Padded, filler: float) -> None:
    """Take the filler out of the rows: there it would be a gap, not an end."""
    if padded.is_mask:
        rows[...] = 1 - filler
        return
    high = padded.values.high
    beside = filler - 1 if high is not None and filler + 1 > high else filler + 1
    rows[rows == filler] = beside


def _lengths(rows: int, size: int, *, whole: bool) -> list[int]:
    """Lengths from the longest down to 1. A batch is as long as its longest row, so that row is whole.

    A mask of which it isn't known what leaves an element out must hold both values in each row.
    """
    longest = size if whole and rows > 1 else size - 1 if rows > 1 else math.ceil(size / 2)
    return [max(1, round(length)) for length in np.linspace(longest, 1, rows)] if rows > 1 else [longest]
