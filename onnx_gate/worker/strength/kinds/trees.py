"""Wrong trees: changed thresholds, leaves or branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

from onnx_gate.worker.onnx_files.blueprint import NodePath
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, Site, TreeSpot
from onnx_gate.worker.strength.kinds.parts import Parts

Array = npt.NDArray[Any]
ENSEMBLES = ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble")
_TURNED = {
    "BRANCH_LEQ": "BRANCH_GT",
    "BRANCH_GT": "BRANCH_LEQ",
    "BRANCH_LT": "BRANCH_GTE",
    "BRANCH_GTE": "BRANCH_LT",
    "BRANCH_EQ": "BRANCH_NEQ",
    "BRANCH_NEQ": "BRANCH_EQ",
}
_NAMES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_COMPARED: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
    "BRANCH_MEMBER": np.equal,
}
_BLOCKS = 10
"""Most parts of an ensemble."""
SHARE = 0.1
"""Share of the spread of all leaves by which a leaf is moved."""


@dataclass(frozen=True)
class Ensemble:
    """The nodes of an ensemble as arrays, in the order of the file; for both forms of ensembles in ONNX."""

    node: Any

    @cached_property
    def new(self) -> bool:
        """Whether the ensemble has the newer form, in which leaves are stored separately."""
        return str(self.node.op_type) == "TreeEnsemble"

    def array(self, name: str) -> Array:
        """An attribute as an array; empty if it isn't there."""
        for each in self.node.attribute:
            if each.name in (name, f"{name}_as_tensor"):
                value = helper.get_attribute_value(each)
                return numpy_helper.to_array(value).reshape(-1) if hasattr(value, "dims") else np.array(value)
        return np.array([])

    @cached_property
    def features(self) -> Array:
        """The feature of each node."""
        return self.array("nodes_featureids").astype(np.int64)

    @cached_property
    def modes(self) -> list[str]:
        """The comparison of each node."""
        if self.new:
            return [_NAMES[int(mode)] for mode in self.array("nodes_modes")]
        return [mode.decode() if isinstance(mode, bytes) else str(mode) for mode in self.array("nodes_modes")]

    @cached_property
    def thresholds(self) -> Array:
        """The threshold of each node."""
        return self.array("nodes_splits" if self.new else "nodes_values").astype(np.float64)

    @cached_property
    def inner(self) -> Array:
        """The nodes that compare."""
        return np.array([place for place, mode in enumerate(self.modes) if mode != "LEAF"], dtype=np.int64)

    @cached_property
    def trees(self) -> Array:
        """The tree of each node."""
        if not self.new:
            return self.array("nodes_treeids").astype(np.int64)
        return self._reached

    @cached_property
    def _reached(self) -> Array:
        found = np.full(len(self.features), -1, dtype=np.int64)
        for tree, root in enumerate(self.array("tree_roots").astype(np.int64).tolist()):
            waiting = [int(root)]
            while waiting:
                place = waiting.pop()
                if not 0 <= place < len(found) or found[place] >= 0:
                    continue
                found[place] = tree
                waiting += [child for child, is_leaf in self.children(place) if not is_leaf]
        return found

    def children(self, place: int) -> list[tuple[int, bool]]:
        """The child if the comparison of a node holds, and the child if not; each with whether it is a leaf."""
        yes, no = self._ways
        return [(int(yes[place]), bool(self._ends[0][place])), (int(no[place]), bool(self._ends[1][place]))]

    @cached_property
    def _ways(self) -> tuple[Array, Array]:
        yes, no = (self.array(f"nodes_{way}nodeids").astype(np.int64) for way in ("true", "false"))
        if self.new:
            return yes, no
        ids = self.array("nodes_nodeids").astype(np.int64)
        places = {(int(tree), int(each)): place for place, (tree, each) in enumerate(zip(self.trees, ids, strict=True))}
        found = [
            [places.get((int(tree), int(way)), -1) for tree, way in zip(self.trees, ways, strict=True)]
            for ways in (yes, no)
        ]
        return np.array(found[0], dtype=np.int64), np.array(found[1], dtype=np.int64)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        if self.new:
            return self.array("nodes_trueleafs").astype(bool), self.array("nodes_falseleafs").astype(bool)
        leaf = np.array([mode == "LEAF" for mode in self.modes])
        return leaf[self._ways[0]], leaf[self._ways[1]]

    def walk(self, tree: int, rows: Array) -> tuple[set[tuple[int, bool]], int]:
        """The leaves that rows reach, each as its parent node and side, and the number of leaves of the tree."""
        own = np.flatnonzero(self.trees == tree)
        inner = [place for place in own.tolist() if self.modes[place] != "LEAF"]
        leaves = sum(is_leaf for place in inner for _, is_leaf in self.children(place))
        roots = self.array("tree_roots").astype(np.int64) if self.new else own[:1]
        place = int(roots[tree]) if self.new else self._root(own)
        reached: set[tuple[int, bool]] = set()
        waiting = [(place, np.arange(len(rows)))] if inner else []
        while waiting:
            place, here = waiting.pop()
            holds = self._holds(place, rows[here, self.features[place]])
            for (child, is_leaf), chosen, side in zip(
                self.children(place), (here[holds], here[~holds]), (True, False), strict=True
            ):
                if len(chosen) and is_leaf:
                    reached.add((place, side))
                elif len(chosen):
                    waiting.append((child, chosen))
        return reached, leaves

    def _root(self, own: Array) -> int:
        """The node of a tree that has no parent."""
        led = {child for place in own.tolist() if self.modes[place] != "LEAF" for child, _ in self.children(place)}
        return next(int(place) for place in own.tolist() if place not in led)

    def _holds(self, place: int, values: Array) -> Array:
        """Whether the comparison of a node holds for each value, in float32 as in the runtime."""
        at, given = np.float32(self.thresholds[place]), values.astype(np.float32)
        with np.errstate(invalid="ignore"):
            holds = _COMPARED[self.modes[place]](given, at)
        return np.asarray(np.where(np.isnan(given), bool(self.missing[place]), holds), dtype=bool)

    @cached_property
    def weights(self) -> Array:
        """The weights of the leaves."""
        return self.array(self.weights_name).astype(np.float64)

    @cached_property
    def weights_name(self) -> str:
        """The attribute that holds the weights of the leaves."""
        if self.new:
            return "leaf_weights"
        return "class_weights" if self.node.op_type == "TreeEnsembleClassifier" else "target_weights"

    @cached_property
    def leaf_nodes(self) -> Array:
        """The node of each weight: the leaf itself, or in the newer form its parent."""
        if self.new:
            return self._leading
        prefix = self.weights_name.removesuffix("_weights")
        trees, ids = (self.array(f"{prefix}_{what}").astype(np.int64) for what in ("treeids", "nodeids"))
        own = self.array("nodes_nodeids").astype(np.int64)
        places = {(int(tree), int(each)): place for place, (tree, each) in enumerate(zip(self.trees, own, strict=True))}
        return np.array([places.get((int(tree), int(each)), -1) for tree, each in zip(trees, ids, strict=True)])

    @cached_property
    def _leading(self) -> Array:
        found = np.full(len(self.weights), -1, dtype=np.int64)
        for place in range(len(self.features)):
            for child, is_leaf in self.children(place):
                if is_leaf and 0 <= child < len(found):
                    found[child] = place
        return found

    @cached_property
    def missing(self) -> Array:
        """For each node, whether a missing value takes the same branch as a comparison that holds."""
        listed = self.array("nodes_missing_value_tracks_true").astype(bool)
        return listed if len(listed) == len(self.features) else np.zeros(len(self.features), dtype=bool)

    @cached_property
    def sorted_thresholds(self) -> dict[int, Array]:
        """Feature → all its thresholds, sorted."""
        return {
            int(feature): np.unique(self.thresholds[self.inner][self.features[self.inner] == feature])
            for feature in np.unique(self.features[self.inner])
        }

    def moved(self, place: int) -> float | None:
        """A threshold half way between the neighbours of this one; None if it would be the same."""
        at = self.thresholds[place]
        known = self.sorted_thresholds[int(self.features[place])]
        own = int(np.searchsorted(known, at))
        near = [float(known[i]) for i in (own - 1, own + 1) if 0 <= i < len(known)]
        if not near:
            return float(np.float32(at + SHARE * max(1.0, abs(at))))
        middle = sum(near) / 2 if len(near) == 2 else (near[0] + at) / 2
        if np.float32(middle) == np.float32(at):
            middle = (near[-1] + at) / 2
        return None if np.float32(middle) == np.float32(at) else float(np.float32(middle))


def tree_sites(parts: Parts) -> Iterator[Site]:
    """Sites for every ensemble, in blocks of trees."""
    for path, node in parts.nodes:
        if node.op_type in ENSEMBLES:
            ensemble = Ensemble(node)
            name = node.name or node.op_type
            yield from _ensemble(path, name, ensemble)


def _ensemble(path: NodePath, name: str, ensemble: Ensemble) -> Iterator[Site]:
    trees = np.unique(ensemble.trees[ensemble.trees >= 0])
    size = -(-len(trees) // _BLOCKS) or 1
    learnt = set(ensemble.features[ensemble.missing].tolist())
    turned = [place for place in ensemble.inner.tolist() if ensemble.modes[place] in _TURNED]
    inner, leaves = np.array(turned, dtype=np.int64), np.arange(len(ensemble.weights))
    asked = inner[np.isin(ensemble.features[inner], list(learnt))] if len(inner) else inner
    compared = np.array(
        [place for place in turned if ensemble.modes[place] not in ("BRANCH_EQ", "BRANCH_NEQ")], dtype=np.int64
    )
    for start in range(0, len(trees), size):
        block = trees[start : start + size]
        part = f"{name}, tree{'s' if len(block) > 1 else ''} {_between(block)}"
        for kind, places, of in (
            (Kind.THRESHOLD, compared, ensemble.trees),
            (Kind.BRANCH, inner, ensemble.trees),
            (Kind.MISSING, asked, ensemble.trees),
        ):
            own = places[np.isin(of[places], block)] if len(places) else places
            if len(own):
                yield _nodes(kind, part, path, name, ensemble, own)
        of_leaf = ensemble.trees[ensemble.leaf_nodes]
        if len(own := leaves[np.isin(of_leaf, block)]):
            yield _leaves(part, path, name, ensemble, own)


def _between(block: Array) -> str:
    return f"{block[0]} to {block[-1]}" if len(block) > 1 else str(block[0])


def _nodes(kind: Kind, part: str, path: NodePath, name: str, ensemble: Ensemble, places: Array) -> Site:
    def make(number: int) -> Mutant | None:
        place = int(places[number])
        moved = ensemble.moved(place) if kind is Kind.THRESHOLD else None
        if kind is Kind.THRESHOLD and moved is None:
            return None
        tree = int(ensemble.trees[place])
        return Mutant(
            kind=kind,
            part=part,
            place=f"tree {tree} of {name} (node {place})",
            change=lambda draft: _change_node(draft.node(path), kind, place, moved),
            aim=TreeSpot(node=path, tree=tree, index=place, moved_to=moved, missing=kind is Kind.MISSING),
        )

    return Site(kind=kind, part=part, count=len(places), make=make)


def _leaves(part: str, path: NodePath, name: str, ensemble: Ensemble, own: Array) -> Site:
    spread = float(np.ptp(ensemble.weights)) or abs(float(ensemble.weights[0])) or 1.0

    def make(number: int) -> Mutant:
        weight = int(own[number])
        place = int(ensemble.leaf_nodes[weight])
        tree = int(ensemble.trees[place])
        value = float(ensemble.weights[weight]) + SHARE * spread
        return Mutant(
            kind=Kind.LEAF,
            part=part,
            place=f"tree {tree} of {name} (leaf {weight})",
            change=lambda draft: _set(draft.node(path), ensemble.weights_name, weight, value),
            aim=TreeSpot(node=path, tree=tree, index=place),
        )

    return Site(kind=Kind.LEAF, part=part, count=len(own), make=make)


def _change_node(node: Any, kind: Kind, place: int, moved: float | None) -> None:
    ensemble = Ensemble(node)
    if kind is Kind.THRESHOLD and moved is not None:
        _set(node, "nodes_splits" if ensemble.new else "nodes_values", place, moved)
    elif kind is Kind.BRANCH:
        turned = _TURNED[ensemble.modes[place]]
        _set(node, "nodes_modes", place, _NAMES.index(turned) if ensemble.new else turned.encode())
    else:
        flags = ensemble.missing.astype(int)
        flags[place] = 1 - flags[place]
        kept = [each for each in node.attribute if each.name != "nodes_missing_value_tracks_true"]
        copies = [type(each).FromString(each.SerializeToString()) for each in kept]
        del node.attribute[:]
        node.attribute.extend([*copies, helper.make_attribute("nodes_missing_value_tracks_true", flags.tolist())])


def _set(node: Any, name: str, place: int, value: Any) -> None:
    """Set one entry of a list, or of the tensor in its place."""
    attribute = next(each for each in node.attribute if each.name in (name, f"{name}_as_tensor"))
    if attribute.HasField("t"):
        array = numpy_helper.to_array(attribute.t).copy()
        array.reshape(-1)[place] = value
        attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
        return
    values = next(each for each in (attribute.strings, attribute.floats, attribute.ints) if len(each))
    values[place] = value
