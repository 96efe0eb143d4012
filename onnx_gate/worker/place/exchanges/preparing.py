"""Whether a part of a graph prepares the inputs for what is learnt."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_gate.worker.place.bench import Bench, Node, learns

_OF_SIZES = ("Shape", "Size")
_SIDE_BY_SIDE = ("Concat", "SequenceConstruct", "ConcatFromSequence")
"""Operators that put values beside each other, as a table of features has learnt ones beside given ones."""


def comes_first(bench: Bench, nodes: Sequence[Node], starts: Sequence[str]) -> bool:
    """Whether a part of a graph lies between the inputs and the first node with learnt parameters.

    What is made of sizes alone prepares no input: a table of positions is part of the model.
    """
    before: set[int] = set()
    reads_input = False
    values = [name for node in nodes if node.proto.op_type not in _OF_SIZES for name in node.reads]
    sizes = {name for node in nodes if node.proto.op_type in _OF_SIZES for name in node.reads} - set(values)
    waiting = [*(name for name in starts if name not in sizes), *values]
    while waiting:
        name = waiting.pop()
        reads_input |= name in bench.inputs
        node = bench.made_by.get(name)
        if node is None or node.at in before:
            continue
        before.add(node.at)
        waiting += () if node.proto.op_type in _OF_SIZES else node.reads
    if not reads_input:
        return False
    return not any(learns(node.proto, bench.stored) for node in bench.nodes if node.at in before)


def reaches_learnt(bench: Bench, start: str) -> bool:
    """Whether learnt nodes read what is made of a value, before it is joined with what other learnt nodes made.

    A mask is added to the scores of an attention: it prepares nothing for the layers behind them.
    """
    made = _made_by_learnt(bench)
    reached = {start}
    for node in bench.nodes:
        if not reached.intersection(node.reads):
            continue
        if learns(node.proto, bench.stored):
            return True
        if node.proto.op_type in _SIDE_BY_SIDE or not made.intersection(node.reads) - reached:
            reached.update(name for name in node.proto.output if name)
    return False


def _made_by_learnt(bench: Bench) -> set[str]:
    """The values that are computed from learnt parameters."""
    made: set[str] = set()
    for node in bench.nodes:
        if learns(node.proto, bench.stored) or (node.proto.op_type not in _OF_SIZES and made.intersection(node.reads)):
            made.update(name for name in node.proto.output if name)
    return made
