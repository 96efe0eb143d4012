"""Trees and support vectors: rows that reach each leaf and each vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onnx_gate.records.domain import MOST_BOXES, Box, Place
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.trees import Interval, Tree, boxes_of, cuts_of, members_of
from onnx_gate.worker.onnx_files.domain.findings import Findings
from onnx_gate.worker.onnx_files.domain.flow import Flow, Lookup, Part
from onnx_gate.worker.onnx_files.domain.operators.points import note_points
from onnx_gate.worker.onnx_files.domain.step import Handlers, Known, Step, lose
from onnx_gate.worker.onnx_files.domain.stored import Beside, of_tensor

MOST_NODES = 2_000_000
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def _old_trees(step: Step) -> Iterator[Tree]:
    """Trees in the old format, where each node has a tree id and a node id."""
    trees, ids = (np.array(step.attribute(f"nodes_{name}") or []) for name in ("treeids", "nodeids"))
    features, yes, no = (
        np.array(step.attribute(f"nodes_{name}") or []) for name in ("featureids", "truenodeids", "falsenodeids")
    )
    values = _numbers(step, "nodes_values")
    modes = np.array([str(mode) for mode in step.attribute("nodes_modes") or []])
    order = np.lexsort((ids, trees))
    for own in np.split(order, np.flatnonzero(np.diff(trees[order])) + 1):
        places = np.full(int(ids[own].max()) + 1, -1)
        places[ids[own]] = np.arange(len(own))
        leaf = modes[own] == "LEAF"
        yield _tree(
            features=features[own],
            values=values[own],
            modes=modes[own],
            yes=np.where(leaf, -1, places[np.where(leaf, 0, yes[own])]),
            no=np.where(leaf, -1, places[np.where(leaf, 0, no[own])]),
            members={},
        )


def _tree(*, features: Any, values: Any, modes: Any, yes: Any, no: Any, members: dict[int, Any]) -> Tree:
    """A tree with `<` or `<=` in every node: if a node tests the opposite, its branches are swapped."""
    turned = np.isin(modes, ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"))
    named = np.flatnonzero(np.isin(modes, ("BRANCH_EQ", "BRANCH_NEQ")))
    return Tree(
        feature=features,
        threshold=values.astype(np.float64),
        left=np.where(turned, no, yes),
        right=np.where(turned, yes, no),
        strict=np.isin(modes, ("BRANCH_LT", "BRANCH_GTE")),
        members={**{int(node): (float(values[node]),) for node in named}, **members},
    )


def _numbers(step: Step, name: str) -> Any:
    tensor = step.attribute(f"{name}_as_tensor")
    if tensor is not None:
        array = of_tensor(tensor, Beside(None, None)).array
        return np.array([]) if array is None else array.reshape(-1)
    return np.array(step.attribute(name) or [], dtype=np.float32)


def _new_trees(step: Step) -> Iterator[Tree]:
    """Trees in the new format: nodes and leaves are in separate lists, and `tree_roots` says where each tree begins."""
    tensors = {name: step.attribute(name) for name in ("nodes_modes", "nodes_splits", "membership_values")}
    arrays = {
        name: None if tensor is None else of_tensor(tensor, Beside(None, None)).array
        for name, tensor in tensors.items()
    }
    modes, splits = arrays["nodes_modes"], arrays["nodes_splits"]
    if modes is None or splits is None:
        return
    lists = {
        name: list(step.attribute(f"nodes_{name}") or [])
        for name in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    }
    groups = _groups(modes.tolist(), arrays["membership_values"])
    for root in step.attribute("tree_roots") or ():
        yield _grown(int(root), lists, modes.tolist(), splits.tolist(), groups)


def _groups(modes: list[int], values: Any) -> dict[int, list[float]]:
    """Node → its members; the file stores all member lists in a row, separated by NaN."""
    lists: list[list[float]] = [[]]
    for value in [] if values is None else values.reshape(-1).tolist():
        lists[-1].append(value) if value == value else lists.append([])
    nodes = [node for node, mode in enumerate(modes) if mode == 6]
    return dict(zip(nodes, lists, strict=False))


def _grown(
    root: int,
    lists: dict[str, list[int]],
    modes: list[int],
    splits: list[float],
    groups: dict[int, list[float]],
) -> Tree:
    """One tree, with its leaves as separate nodes. In a tree of a single leaf, both branches lead to it."""
    nodes, rows = [root], []
    for place, node in enumerate(nodes):
        row = [node, place]
        for way in ("true", "false"):
            following = lists[f"{way}nodeids"][node]
            is_leaf = bool(lists[f"{way}leafs"][node])
            row.append(-1 if is_leaf else len(nodes))
            if not is_leaf:
                nodes.append(following)
            if len(nodes) > len(modes):
                raise ValueError("a tree that runs in a circle")
        rows.append(row)
    count = len(rows)
    yes, no, ends = [], [], count
    for _, _, left, right in rows:
        yes.append(left if left >= 0 else ends)
        ends += left < 0
        no.append(right if right >= 0 else ends)
        ends += right < 0
    leaves = ends - count
    names = [_MODES[modes[node]] if modes[node] < len(_MODES) else "BRANCH_MEMBER" for node in nodes]
    return _tree(
        features=np.array([*(lists["featureids"][node] for node in nodes), *[0] * leaves]),
        values=np.array([*(splits[node] for node in nodes), *[0.0] * leaves]),
        modes=np.array([*names, *["LEAF"] * leaves]),
        yes=np.array([*yes, *[-1] * leaves]),
        no=np.array([*no, *[-1] * leaves]),
        members={place: groups[node] for place, node in enumerate(nodes) if node in groups},
    )


def _ensemble(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None or not flow.known:
        return lose(step)
    ids = step.attribute("nodes_featureids") or []
    if len(ids) <= MOST_NODES:
        trees = list(_new_trees(step) if step.op == "TreeEnsemble" else _old_trees(step))
        _note_trees(step, flow, trees)
    return [None] * len(step.node.output)


def _note_trees(step: Step, flow: Flow, trees: list[Tree]) -> None:
    findings = step.findings
    for column, thresholds in cuts_of(trees).items():
        for part in flow.at(column):
            for threshold in thresholds:
                findings.cut(part, threshold)
    for column, values in members_of(trees).items():
        for part in flow.at(column):
            findings.mark(part, [*values, max(values) + 1], Origin.CATEGORIES)
    for column in _answering_missing(step):
        for part in flow.at(column):
            findings.missing(part)
    boxes = (fed_box(findings, flow, box, number) for number, box in enumerate(boxes_of(trees, step.op)))
    leaves = sum(int((np.asarray(tree.left) < 0).sum()) for tree in trees)
    beyond = max(0, leaves - MOST_BOXES)
    findings.boxes((box for box in boxes if box is not None), Origin.LEAVES, beyond=beyond)


def _answering_missing(step: Step) -> set[int]:
    """The columns for which some node sends a missing value to its true branch."""
    columns = step.attribute("nodes_featureids") or ()
    tracked = step.attribute("nodes_missing_value_tracks_true") or ()
    return {int(column) for column, tracks in zip(columns, tracked, strict=False) if tracks}


def fed_box(findings: Findings, flow: Flow, box: dict[int, Interval], number: int) -> Box | None:
    """The path to a leaf as ranges of input values; None if no input value follows that path."""
    between: dict[Place, tuple[Scalar, Scalar]] = {}
    allowed: dict[Place, set[Scalar]] = {}
    for column, (low, high) in box.items():
        cell = flow.at(column)
        place = findings.place(cell[0]) if len(cell) == 1 else None
        if place is None or not cell[0].factor:
            continue
        ends = _raw_ends(cell[0], low, high)
        if cell[0].lookup is not None:
            led = _led(cell[0].lookup, ends)
            allowed[place] = allowed[place] & led if place in allowed else led
        elif (met := _met(between.get(place), ends)) is not None:
            between[place] = met
        else:
            return None
    for place, keys in allowed.items():
        if not keys:
            return None
        ordered = sorted(keys, key=repr)
        between[place] = (chosen := ordered[number % len(ordered)], chosen)
    return between


def _led(lookup: Lookup, ends: Interval) -> set[Scalar]:
    low, high = ends
    # A split on a category has one value, not a range.
    return lookup.led(low, high) if low < high else lookup.led(low - 0.5, high)


def _raw_ends(part: Part, low: float, high: float) -> Interval:
    ends = sorted((part.raw(low), part.raw(high)))
    return ends[0], ends[1]


def _met(known: tuple[Scalar, Scalar] | None, ends: Interval) -> Interval | None:
    """The intersection of two intervals; None if it is empty."""
    if known is None:
        return ends
    low, high = max(float(known[0] or 0), ends[0]), min(float(known[1] or 0), ends[1])
    return (low, high) if low < high or (low == high and ends[0] == ends[1]) else None


def _support(step: Step) -> Sequence[Known]:
    flow, listed = step.flow(), step.attribute("support_vectors")
    count = sum(step.attribute("vectors_per_class") or [int(step.attribute("n_supports", 0))])
    if flow is not None and listed and count:
        vectors = np.array(listed, dtype=np.float64).reshape(count, -1)
        note_points(step, flow, vectors)
    return lose(step)


def _distances(step: Step) -> Sequence[Known]:
    """CDist: note the rows that the model kept to compute distances to them."""
    flow, points = step.flow(), step.array(1)
    if flow is not None and points is not None and points.ndim == 2:
        note_points(step, flow, points.astype(np.float64))
    return lose(step)


ENSEMBLES_ML: Handlers = {
    "TreeEnsembleRegressor": _ensemble,
    "TreeEnsembleClassifier": _ensemble,
    "TreeEnsemble": _ensemble,
    "SVMRegressor": _support,
    "SVMClassifier": _support,
}
ENSEMBLES_CONTRIB: Handlers = {"CDist": _distances}
