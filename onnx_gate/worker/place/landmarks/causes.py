"""Finds causes from the source's own values, if there is no right graph to exchange parts with.

Values are exchanged instead: a part is at fault if it computes a wrong value from true ones, and if the answers are
right with the true value in place of the wrong one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.precision.lowered import is_lowered
from onnx_gate.worker.place.bench import Array, Node, is_learnt, learns
from onnx_gate.worker.place.exchanges.exchange import Removal
from onnx_gate.worker.place.faults import Fault, Search
from onnx_gate.worker.place.landmarks.parts import part_of
from onnx_gate.worker.place.pairs import Pairs
from onnx_gate.worker.place.values import largest_error, layouts, nearly, noise_of, telling

MOST_STAGES = 40
"""Most other values of the source that are tried in place of a value that is right in the file."""
MOST_NAMED = 3
"""Most nodes of lower precision that are all named; of more, those that lower it."""
_ALIKE = 0.1
"""Largest change from rounding to lower precision, as a share of the largest number."""
_SAME = 0.99
"""Least share of rows in the same order, if one value follows from the other."""


def explain(search: Search, faults: Sequence[Fault]) -> list[Fault]:
    """The faults, each with its cause if one shows; unchanged if the true values don't make the answers right."""
    if not search.shown(faults):
        return list(faults)
    return [part for fault in faults for part in _apart(search, _explained(search, fault))]


def _apart(search: Search, fault: Fault) -> list[Fault]:
    """One fault per place, if nodes have to be removed in several places."""
    ways = fault.exchange.ways if isinstance(fault.exchange, Removal) else ()
    if len(ways) < 2:
        return [fault]
    bench, free = search.pairs.bench, search.pairs.free
    return [
        replace(
            fault,
            value=bench.label(end),
            starts=(start,),
            nodes=tuple(_own(bench.between(end, [start]))),
            error=largest_error(free[start], free[end]),
            noise=noise_of(free[start]),
        )
        for start, end in ways
    ]


def _explained(search: Search, fault: Fault) -> Fault:
    if is_odd(search.pairs, fault) and (fault.exchange is None or fault.exchange.kind == "structure"):
        return replace(fault, named=Cause.NAN)
    if _is_lowered(search, fault):
        lowering = tuple(node for node in fault.nodes if is_lowered(node.proto))
        few = len(fault.nodes) <= MOST_NAMED or not lowering
        return replace(fault, named=Cause.QUANTISED, nodes=fault.nodes if few else lowering)
    if fault.exchange:
        return fault
    if fault.end.value in search.pairs.bench.outputs and (last := _last(search, fault)):
        return last
    left_out = _left_out(search, fault)
    prepares = fault.first and not _learns(fault) and any(_has_learnt(node) for node in search.pairs.bench.nodes)
    if left_out and set(left_out.starts) <= set(search.pairs.bench.inputs):
        prepares = any(_has_learnt(node) for node in search.pairs.bench.nodes)
    return replace(left_out or fault, named=Cause.PREPROCESSING if prepares else Cause.OPERATOR)


def _left_out(search: Search, fault: Fault) -> Fault | None:
    """The fault as a gap without nodes, if its nodes are right when they read another value of the source.

    The file then lacks the steps that the source computes between the two values.
    """
    pairs = search.pairs
    taken = {pair.true for pair in pairs.found.values()}
    free = [name for name, value in pairs.truth.values.items() if name not in taken and telling(value)]
    tried = [(start, true) for start in fault.starts if start in pairs.free for true in free]
    for start, true in tried[:MOST_STAGES]:
        layout = next(layouts(pairs.truth.values[true].shape, pairs.free[start].shape), None)
        if layout is None or time.monotonic() > search.until:
            continue
        value = layout.of(pairs.truth.values[true]).astype(pairs.free[start].dtype, copy=False)
        seen = pairs.bench.run(pairs.feed, [fault.end.value], {**pairs.given(), start: value})
        if nearly(pairs.true(fault.end.value), seen[fault.end.value]):
            return replace(fault, nodes=(), value=pairs.bench.label(start), starts=(start,), part=part_of(pairs, true))
    return None


def is_odd(pairs: Pairs, fault: Fault) -> bool:
    """Whether a part computes NaN or infinite numbers from true values where the source has finite numbers."""
    true, own = pairs.true(fault.end.value), pairs.own.get(fault.end.value)
    if own is None or own.dtype.kind != "f" or own.shape != true.shape or true.dtype.kind != "f":
        return False
    return bool((np.isfinite(true) & ~np.isfinite(own)).any())


def _learns(fault: Fault) -> bool:
    return any(map(_has_learnt, fault.nodes))


def _has_learnt(node: Node) -> bool:
    return learns(node.proto, node.stored)


def _is_lowered(search: Search, fault: Fault) -> bool:
    """Whether a fault has nodes of lower precision, and its values are about right."""
    true = search.pairs.true(fault.end.value)
    if isinstance(fault.exchange, Removal) and any(is_lowered(node.proto) for node in fault.exchange.nodes):
        return True
    if true.dtype.kind != "f" or not any(is_lowered(node.proto) for node in fault.nodes):
        return False
    return largest_error(true, search.pairs.own[fault.end.value]) <= _ALIKE * float(np.abs(true).max(initial=0.0))


def _last(search: Search, fault: Fault) -> Fault | None:
    """The fault with its cause, if an answer is wrong though the value that it is computed from is right.

    The source then computes the answer from another value. None if that does not show.
    """
    pairs = search.pairs
    starts = [name for name in fault.starts if name not in pairs.bench.inputs and telling(pairs.true(name))]
    if len(starts) != 1:
        return None
    start = starts[0]
    made_by = pairs.bench.between(start, pairs.given())
    if stage := _other_stage(search, fault, start):
        return replace(fault, named=Cause.WEIGHTS, nodes=tuple(_own(made_by)) or fault.nodes, part=stage)
    if follows(pairs.true(fault.end.value), pairs.true(start)):
        return None
    # Trees that read the inputs answer rightly, so the source gives its own trees other inputs.
    return replace(fault, named=Cause.PREPROCESSING, nodes=(), right=()) if _holds_trees(search, start) else None


def _own(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.own]


def _other_stage(search: Search, fault: Fault, start: str) -> str:
    """The name of an earlier value of the source that makes the answers right in place of this one; empty if none does.

    Only for a node that holds all learnt parameters and reads the inputs directly, such as an ensemble of trees.
    """
    pairs = search.pairs
    if not _holds_trees(search, start):
        return ""
    shape, dtype = pairs.free[start].shape, pairs.free[start].dtype
    ends = [name for name in pairs.truth.ends if name in pairs.found and not nearly(pairs.true(name), pairs.free[name])]
    names = list(pairs.truth.values)
    earlier = names[: names.index(pairs.found[start].true)]
    others = [name for name in earlier if telling(pairs.truth.values[name])]
    for name in others[-MOST_STAGES:]:
        layout = next(layouts(pairs.truth.values[name].shape, shape), None)
        if layout is None or name in pairs.bench.inputs:
            continue
        given = {start: layout.of(pairs.truth.values[name]).astype(dtype, copy=False)}
        seen = pairs.bench.run(pairs.feed, ends, given)
        if all(nearly(pairs.true(end), seen[end]) for end in ends if end in seen):
            return name
    return ""


def _holds_trees(search: Search, start: str) -> bool:
    """Whether the nodes that make a value hold what the model has learnt, and read the inputs themselves."""
    pairs = search.pairs
    nodes = _own(pairs.bench.between(start, pairs.given()))
    holds = any(is_learnt(each.name) for node in nodes for each in node.proto.attribute)
    return holds and set(pairs.starts(start)) <= set(pairs.bench.inputs)


def follows(answer: Array, value: Array) -> bool:
    """Whether an answer may be computed from a value alone: the answer only rises, or only falls, with the value.

    In rows of several numbers, the order within each row has to be the same; for single numbers, the order of the rows.
    """
    if answer.size != value.size or answer.dtype.kind != "f" or len(answer) != len(value):
        return True
    ours, theirs = (side.astype("float64").reshape(len(side), -1) for side in (value, answer))
    if ours.shape[1] > 1:
        ordered = np.argsort(ours, axis=1, kind="stable") == np.argsort(theirs, axis=1, kind="stable")
        return bool(np.mean(ordered.all(axis=1)) >= _SAME)
    return any(_rises(ours.ravel(), sign * theirs.ravel()) for sign in (1, -1))


def _rises(ours: Array, theirs: Array) -> bool:
    order = np.lexsort((theirs, ours))
    steps = np.diff(theirs[order])
    allowed = 1e-5 * float(np.ptp(theirs)) if theirs.size else 0.0
    return bool(np.mean(steps >= -allowed) >= _SAME) if steps.size else True
