"""Exchanges for a part that has other numbers of rows in its tables: it was fitted on other data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_gate.worker.place.bench import Bench, Node
from onnx_gate.worker.place.exchanges.differences import aligned, computing, kind_of, same_content
from onnx_gate.worker.place.exchanges.exchange import Several, StoredExchange


def of_other_sizes(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> list[Several]:
    """All stored tensors of a part together, if it has the operators of the other part, and tables of other sizes.

    Tables of training points and of their classes only fit together.
    """
    if not len(aligned(ours, theirs)) == len(computing(ours)) == len(computing(theirs)):
        return []
    parts = tuple(_parts(bench, right, ours, theirs))
    if not any(part.kind == "weights" and part.before.shape != part.after.shape for part in parts):
        return []
    return [Several(parts=parts)]


def _parts(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> Iterator[StoredExchange]:
    for node, other in aligned(ours, theirs):
        for name, true in zip(node.proto.input, other.proto.input, strict=False):
            before, after = bench.constant(name), right.constant(true)
            if before is None or after is None or before.dtype != after.dtype or before.ndim != after.ndim:
                continue
            if not same_content(before, after):
                yield StoredExchange(kind=kind_of(before), node=node, name=name, true=true, before=before, after=after)
