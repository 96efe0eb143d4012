"""Exchanges for layers into which an exporter has computed a normalisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onnx_gate.worker.place.bench import Array, Bench, Node
from onnx_gate.worker.place.exchanges.differences import MOST_TRIED, kind_of
from onnx_gate.worker.place.exchanges.exchange import Several, StoredExchange
from onnx_gate.worker.place.values import layouts

Fold = Mapping[str, Array]


def of_folds(bench: Bench, ours: Sequence[Node], folds: Sequence[Fold]) -> list[Several]:
    """Exchanges of all weights of a layer for those of the source, which have a normalisation computed into them."""
    found = [
        Several(parts=tuple(parts))
        for node in ours
        for fold in folds
        if (parts := list(_parts(bench, node, fold))) and len(parts) == len(fold)
    ]
    return found[:MOST_TRIED]


def _parts(bench: Bench, node: Node, fold: Fold) -> Iterator[StoredExchange]:
    taken: set[str] = set()
    for true, after in fold.items():
        for name in node.stored:
            before = bench.constant(name)
            if name in taken or before is None or before.dtype.kind != "f" or before.ndim != after.ndim:
                continue
            if (layout := next(layouts(after.shape, before.shape), None)) is not None:
                yield StoredExchange(
                    kind=kind_of(before), node=node, name=name, true=true, before=before, after=layout.of(after)
                )
                taken.add(name)
                break
