"""The rows that reach a changed place in a tree, solved exactly and followed back to the inputs.

Of each ensemble, only the way to the changed places is left, as a tree of its own. The analysis that finds the rows to
all leaves then finds these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import Domains
from onnx_gate.worker.onnx_files.blueprint import NodePath, node_at
from onnx_gate.worker.onnx_files.domain.analysis import domains_of
from onnx_gate.worker.strength.kinds.mutants import TreeSpot
from onnx_gate.worker.strength.kinds.trees import Ensemble

_Way = list[tuple[int, bool]]
"""Nodes from the root on, each with the side that is taken."""


def boxes_for(model: Any, spots: Iterable[TreeSpot], inputs: Sequence[InputSpec]) -> Domains:
    """What is known of the inputs if only these places of the trees count; its boxes are the rows that reach them."""
    wanted: dict[NodePath, list[TreeSpot]] = {}
    for spot in spots:
        wanted.setdefault(spot.node, []).append(spot)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for place, own in wanted.items():
        node = node_at(copy.graph, place)
        pruned = _pruned(Ensemble(node), own)
        _replace(node, pruned)
    return domains_of(copy, inputs)


def _pruned(ensemble: Ensemble, spots: Sequence[TreeSpot]) -> Mapping[str, Any]:
    """The attributes of an ensemble that has one small tree for each place."""
    parents = _parents(ensemble)
    lists: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    for tree, spot in enumerate(spots):
        for row in _tree(ensemble, spot, parents):
            lists["treeids"].append(tree)
            for name, value in row.items():
                lists[name].append(value)
    return {f"nodes_{name}": values for name, values in lists.items()}


def _parents(ensemble: Ensemble) -> dict[int, tuple[int, bool]]:
    """Node → the one above it, and whether its comparison holds on the way."""
    found = {}
    for place in ensemble.inner.tolist():
        (yes, yes_ends), (no, no_ends) = ensemble.children(place)
        if not (ensemble.new and no_ends):
            found[no] = (place, False)
        if not (ensemble.new and yes_ends):
            found[yes] = (place, True)
    return found


def _tree(ensemble: Ensemble, spot: TreeSpot, parents: Mapping[int, tuple[int, bool]]) -> Iterator[dict[str, Any]]:
    """The way to a place, node by node; what leaves it ends in a leaf."""
    way: _Way = []
    place = spot.index
    while place in parents and len(way) <= len(parents):
        above, holds = parents[place]
        way.append((above, holds))
        place = above
    way.reverse()
    steps = [(ensemble.modes[at], ensemble.thresholds[at], int(ensemble.features[at]), holds) for at, holds in way]
    if ensemble.modes[spot.index] != "LEAF":
        mode, at = ensemble.modes[spot.index], ensemble.thresholds[spot.index]
        feature = int(ensemble.features[spot.index])
        if spot.moved_to is not None:
            # Between the old threshold and the new one both models go different ways.
            low, high = sorted((float(at), spot.moved_to))
            steps += [("BRANCH_LEQ", low, feature, False), ("BRANCH_LEQ", high, feature, True)]
        else:
            steps.append((mode, at, feature, True))
    away, last = len(steps), len(steps) + 1
    for number, (mode, value, feature, holds) in enumerate(steps):
        onward = number + 1 if number + 1 < len(steps) else last
        yield {
            "nodeids": number,
            "featureids": feature,
            "values": float(value),
            "modes": mode,
            "truenodeids": onward if holds else away,
            "falsenodeids": away if holds else onward,
        }
    # All that leaves the way ends in one leaf: of these the analysis then looks at the last alone.
    yield _leaf(away)
    yield _leaf(last)


def _leaf(number: int) -> dict[str, Any]:
    return {"nodeids": number, "featureids": 0, "values": 0.0, "modes": "LEAF", "truenodeids": 0, "falsenodeids": 0}


def _replace(node: Any, attributes: Mapping[str, Any]) -> None:
    """The ensemble in its older form, which the analysis reads alike. Nobody runs it."""
    del node.attribute[:]
    node.op_type = "TreeEnsembleRegressor"
    node.attribute.extend(helper.make_attribute(name, values) for name, values in attributes.items() if values)
