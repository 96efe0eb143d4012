"""Finds rows that reach a changed place in a tree: solves for them exactly and traces them back to the inputs.

Each ensemble is reduced to the paths to its changed places, with one tree per path. The analysis that finds rows for
all leaves then finds rows for these places.
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
"""Nodes of a path from the root, each with whether its comparison holds on the path."""


def boxes_for(model: Any, spots: Iterable[TreeSpot], inputs: Sequence[InputSpec]) -> Domains:
    """The domains of the inputs if only these places in trees count; their boxes describe the rows that reach them."""
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
    """The attributes of an ensemble with one small tree per place."""
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
    """Node → its parent, and whether the parent's comparison holds on the way to the node."""
    found = {}
    for place in ensemble.inner.tolist():
        (yes, yes_ends), (no, no_ends) = ensemble.children(place)
        if not (ensemble.new and no_ends):
            found[no] = (place, False)
        if not (ensemble.new and yes_ends):
            found[yes] = (place, True)
    return found


def _tree(ensemble: Ensemble, spot: TreeSpot, parents: Mapping[int, tuple[int, bool]]) -> Iterator[dict[str, Any]]:
    """The path to a place, node by node; branches that leave the path end in a leaf."""
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
            # For values between the old threshold and the new one, the two models take different branches.
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
    # All branches that leave the path end in one leaf, so the analysis has only this leaf and the last one to look at.
    yield _leaf(away)
    yield _leaf(last)


def _leaf(number: int) -> dict[str, Any]:
    return {"nodeids": number, "featureids": 0, "values": 0.0, "modes": "LEAF", "truenodeids": 0, "falsenodeids": 0}


def _replace(node: Any, attributes: Mapping[str, Any]) -> None:
    """Replace the ensemble by one in the older form, which the analysis also reads. It is never run."""
    del node.attribute[:]
    node.op_type = "TreeEnsembleRegressor"
    node.attribute.extend(helper.make_attribute(name, values) for name, values in attributes.items() if values)
