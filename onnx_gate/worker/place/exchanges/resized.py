"""Exchanges for a part that has other numbers of rows in its tables: it was fitted on other data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_gate.worker.place.bench import Bench, Node
from onnx_gate.worker.place.exchanges.differences import aligned, kind_of
from onnx_gate.worker.place.exchanges.exchange import Several, StoredExchange
from onnx_gate.worker.place.values import same_content


def of_other_sizes(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> list[Several]:
    """All stored tensors of the nodes that both parts have, if some of them are tables of other sizes.

    Tables of training points and of their classes only fit together.
    """
    parts = tuple(_parts(bench, right, ours, theirs))
    if not any(part.kind == "weights" and part.before.shape != part.after.shape for part in parts):
        return []
    return [Several(parts=parts)]


def _parts(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> Iterator[StoredExchange]:
    stored = (right.constant(name) for node in theirs for name in node.stored)
    known = [array for array in stored if array is not None]
    for node, other in aligned(ours, theirs):
        for name, true in zip(node.proto.input, other.proto.input, strict=False):
            before, after = bench.constant(name), right.constant(true)
            if before is None or after is None or before.dtype != after.dtype or before.ndim != after.ndim:
                continue
            # Both parts may have their nodes in another order: a tensor that the other part has, too, is right.
            if not any(same_content(before, one) for one in known):
                yield StoredExchange(kind=kind_of(before), node=node, name=name, true=true, before=before, after=after)
