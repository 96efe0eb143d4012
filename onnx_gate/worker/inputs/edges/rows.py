"""Edge cases about rows: how many there are, which ones, and in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.worker.inputs.calls import Call, Feed
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import example_sizes, has_batch
from onnx_gate.worker.inputs.known import generate

ODD_BATCH = 13
LARGE_BATCH = 257
REPEATED, PERMUTED, CONSISTENT = 5, 7, 5
MOST_ELEMENTS = 1 << 22
"""Most elements of all inputs in one call of the large batch: the model's own values take many times that."""


class Supply:
    """Ordinary rows: those of the data if there is any, else generated ones."""

    def __init__(self, spec: ModelSpec, dataset: Dataset | None, domains: Domains = NOTHING_KNOWN) -> None:
        self.spec = spec
        self.domains = domains
        self._dataset = dataset
        self._axes = {given.name: given.shape.index("batch") for given in spec.inputs or () if "batch" in given.shape}
        self.has_rows = has_batch(spec) and (dataset is None or dataset.rows is not None)
        self.dims = {name: size for name, size in example_sizes(spec).items() if name != "batch"}
        if dataset is not None:
            self.dims |= dataset.sizes

    def take(self, count: int, seed: str) -> Feed:
        """`count` rows, spread over the data; the whole feed if the schema has no batch."""
        data = self._dataset
        if data is None:
            sizes = {**self.dims, "batch": count}
            return generate(self.spec.inputs or (), sizes, seed=f"{self.spec.base}/edges/{seed}", domains=self.domains)
        if not self.has_rows:
            return data.slice(0, data.fixed_batch) if data.fixed_batch else data.inputs
        rows = data.rows or 0
        spread = [i * rows // count for i in range(count)] if count <= rows else [i % rows for i in range(count)]
        return self.pick(data.inputs, spread)

    def pick(self, feed: Feed, rows: Sequence[int]) -> Feed:
        """Some rows of a feed; inputs without a batch dimension stay whole."""
        indices = np.array(rows, dtype=np.intp)
        return {
            name: np.take(array, indices, axis=self._axes[name]) if name in self._axes else array
            for name, array in feed.items()
        }

    def row_elements(self) -> int:
        """The number of elements in one row of all inputs."""
        return sum(math.prod(array.shape) for array in self.take(1, "single-row").values())


RowEdge = tuple[Callable[[Supply], int], Callable[[Supply, int], Call]]


def _plain(name: str) -> Callable[[Supply, int], Call]:
    return lambda supply, count: Call(feed=supply.take(count, name))


def _large(supply: Supply) -> int:
    """The largest allowed number of rows; 0 if that is no more than in other cases."""
    count = min(LARGE_BATCH, MOST_ELEMENTS // max(1, supply.row_elements()))
    return count if count > ODD_BATCH else 0


def _repeated(supply: Supply, count: int) -> Call:
    return Call(feed=supply.pick(supply.take(1, "repeated-rows"), [0] * count))


def _permuted(supply: Supply, count: int) -> Call:
    """A call with permuted rows; its answers must be those to the original order, permuted in the same way."""
    # Reversed, and shifted by two.
    order = tuple((count + 2 - i) % count for i in range(count))
    rows = supply.take(count, "permuted-rows")
    return Call(feed=supply.pick(rows, order), asked=(rows,), order=order)


def _consistent(supply: Supply, count: int) -> Call:
    """A call whose answers must be the same as those to each row alone."""
    rows = supply.take(count, "row-consistency")
    return Call(feed=rows, asked=tuple(supply.pick(rows, [i]) for i in range(count)))


BY_ROWS: dict[str, RowEdge] = {
    "empty-batch": (lambda _: 0, _plain("empty-batch")),
    "single-row": (lambda _: 1, _plain("single-row")),
    "odd-batch": (lambda _: ODD_BATCH, _plain("odd-batch")),
    "large-batch": (_large, _plain("large-batch")),
    "repeated-rows": (lambda _: REPEATED, _repeated),
    "permuted-rows": (lambda _: PERMUTED, _permuted),
    "row-consistency": (lambda _: CONSISTENT, _consistent),
}
"""Edge case → the number of its rows, and the call with them."""
