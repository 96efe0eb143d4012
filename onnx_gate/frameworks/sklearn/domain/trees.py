"""scikit-learn's own trees as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.worker.domains.columns import Columns
from onnx_gate.worker.domains.facts import Facts
from onnx_gate.worker.domains.trees import Tree

Array = npt.NDArray[Any]


def add_trees(facts: Facts, models: list[Any], columns: Columns) -> None:
    """Add trees that see the same columns."""
    inner = [model.tree_ for model in models]
    trees = [
        Tree(feature=tree.feature, threshold=tree.threshold, left=tree.children_left, right=tree.children_right)
        for tree in inner
    ]
    for number in sorted(set().union(*map(_learnt_missing, inner))):
        if number < len(columns):
            facts.add_missing(columns[number])
    facts.add_trees(trees, columns)


def _learnt_missing(tree: Any) -> set[int]:
    """The columns that had missing values in training.

    If there were none, a tree sends them to its larger side; a different direction must have been learnt.
    """
    to_left = getattr(tree, "missing_go_to_left", None)
    if to_left is None:
        return set()
    inner = np.flatnonzero(tree.children_left >= 0)
    left, right = tree.n_node_samples[tree.children_left[inner]], tree.n_node_samples[tree.children_right[inner]]
    learnt = (np.asarray(to_left)[inner].astype(bool) != (left > right)) | ~np.isfinite(tree.threshold[inner])
    return {int(number) for number in tree.feature[inner][learnt]}


def add_histogram_trees(facts: Facts, model: Any, columns: Columns) -> None:
    """Add trees that keep their nodes in one table, and have a direction for missing values at each node."""
    trees = [_from_nodes(predictor) for stage in model._predictors for predictor in stage]
    for number in sorted({int(number) for tree in trees for number in tree.feature[tree.left >= 0]}):
        if number < len(columns):
            facts.add_missing(columns[number])
    facts.add_trees(trees, columns)


def _from_nodes(predictor: Any) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    sets = predictor.raw_left_cat_bitsets
    named = np.flatnonzero(~leaf & nodes["is_categorical"].astype(bool))
    return Tree(
        feature=nodes["feature_idx"].astype(np.int64),
        threshold=nodes["num_threshold"],
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        members={int(node): _members(sets[nodes["bitset_idx"][node]]) for node in named},
    )


def _members(words: Array) -> tuple[float, ...]:
    """The positions of the bits that are set, 32 per word."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return tuple(float(number) for number in np.flatnonzero(bits))
