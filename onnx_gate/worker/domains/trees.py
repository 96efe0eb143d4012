"""Decision trees of any library → the rows that reach their leaves, and the values at which they split.

The leaves are chosen before their paths are computed, so that a large forest costs no more than its rows that are fed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onnx_gate.records.domain import MOST_BOXES
from onnx_gate.worker.domains.seeds import rng_for

Array = npt.NDArray[Any]
Interval = tuple[float, float]
_ANYTHING = (-np.inf, np.inf)
_BEYOND = 1e38
"""A larger threshold is compared with no value that a float32 input can hold."""
_TINY = 1e-30
"""A smaller threshold, other than 0, separates 0 from all numbers above it."""
_LAST_BITS = 4
"""The middle of two numbers, or the next number in float64, lies at most so many units beside the number meant."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """One binary tree as arrays, with one entry per node; the first node is the root."""

    feature: Array
    """The column that a node compares; it has no meaning in a leaf."""
    threshold: Array
    """The value that the column is compared with; no meaning in a leaf, or where the node has `members`."""
    left: Array
    """The next node where the comparison holds; negative in a leaf."""
    right: Array
    """The next node where the comparison doesn't hold."""
    strict: bool | Array = False
    """Whether `<` leads to the left; else `<=` does. One value for all nodes, or one per node."""
    members: Mapping[int, Collection[float]] = field(default_factory=dict)
    """For nodes that test a category: the values that lead to the left."""


class _Step(NamedTuple):
    """One decision on the path to a leaf."""

    feature: int
    at: float
    goes_left: bool
    members: Collection[float] | None


def boxes_of(
    trees: Sequence[Tree],
    seed: str,
    *,
    whole: Collection[int] = (),
    coded: Mapping[int, Sequence[float]] | None = None,
    most: int = MOST_BOXES,
) -> list[dict[int, Interval]]:
    """Boxes that lead to leaves: column → the interval that leads there, ±inf where one side is open.

    Both ends are the same where the column is a category. All leaves are used if they are at most `most`, else an equal
    number of each tree, by a seeded choice. Columns in `whole` hold integers, those in `coded` the listed values: the
    ends of their intervals lie between two values. Leaves that no row, or only a missing value, reaches are left out.
    """
    rng = rng_for(seed)
    known = _known_members(trees)
    found = []
    for tree, leaves in zip(trees, _chosen_leaves(trees, most, rng), strict=True):
        for steps in _ways(tree, leaves, _thresholds(tree, whole, coded or {})):
            if (box := _box(steps, known, rng)) is not None:
                found.append(box)
    return found


def cuts_of(trees: Sequence[Tree], *, whole: Collection[int] = ()) -> dict[int, list[float]]:
    """Column → all values that it is compared with, in order; values of `members` are not cuts."""
    columns: dict[int, list[Array]] = {}
    for tree in trees:
        inner = np.asarray(tree.left) >= 0
        inner[list(tree.members)] = False
        features, thresholds = np.asarray(tree.feature)[inner], _thresholds(tree, whole, {})[inner]
        for feature in np.unique(features):
            columns.setdefault(int(feature), []).append(thresholds[features == feature])
    merged = {feature: np.unique(np.concatenate(parts)) for feature, parts in sorted(columns.items())}
    return {feature: values[np.isfinite(values)].tolist() for feature, values in merged.items()}


def single_cuts_of(trees: Sequence[Tree]) -> dict[int, dict[float, float]]:
    """Column → the thresholds that float32 holds, each with its number in float32.

    An input that holds this number takes the same way before and after the threshold is rounded to float32.
    """
    found: dict[int, dict[float, float]] = {}
    for tree in trees:
        inner = np.asarray(tree.left) >= 0
        inner[list(tree.members)] = False
        thresholds = np.asarray(tree.threshold, dtype=np.float64)[inner]
        singles, held = _in_single(thresholds, np.broadcast_to(np.asarray(tree.strict), inner.shape)[inner])
        features = np.asarray(tree.feature)[inner]
        for feature, at, single in zip(features[held], thresholds[held].tolist(), singles[held].tolist(), strict=True):
            found.setdefault(int(feature), {})[at] = single
    return found


def single_cuts(values: Iterable[float]) -> dict[float, float]:
    """The values that float32 holds, each with its number in float32; for comparisons other than `<`."""
    given = np.array(sorted(set(values)), dtype=np.float64)
    singles, held = _in_single(given, np.zeros(given.shape, dtype=bool))
    return dict(zip(given[held].tolist(), singles[held].tolist(), strict=True))


def _in_single(thresholds: Array, strict: Array) -> tuple[Array, Array]:
    """The thresholds in float32, and which of them float32 holds, up to the last bits of float64."""
    with np.errstate(all="ignore"):
        singles = thresholds.astype(np.float32).astype(np.float64)
        gap = np.where(strict, singles - thresholds, thresholds - singles)
        held = (gap >= 0) & (gap <= _LAST_BITS * np.spacing(np.abs(thresholds)))
    return singles, held & np.isfinite(singles) & ((np.abs(singles) > _TINY) | (thresholds == 0))


def members_of(trees: Sequence[Tree]) -> dict[int, list[float]]:
    """Column → all categories that a node tests, in order."""
    return {feature: sorted(values) for feature, values in _known_members(trees).items()}


def deal(sizes: Sequence[int], most: int, rng: np.random.Generator) -> list[int]:
    """The number to take from each group, at most `most` in all: dealt in rounds, so that small groups are complete."""
    shares = np.zeros(len(sizes), dtype=int)
    room = np.array(sizes, dtype=int)
    while (left := most - int(shares.sum())) > 0 and room.any():
        wanting = np.flatnonzero(room)
        each = left // len(wanting)
        given = rng.choice(wanting, left, replace=False) if each == 0 else wanting
        amount = np.minimum(room[given], max(1, each))
        shares[given] += amount
        room[given] -= amount
    return [int(share) for share in shares]


def _known_members(trees: Sequence[Tree]) -> dict[int, set[float]]:
    known: dict[int, set[float]] = {}
    for tree in trees:
        for node, values in tree.members.items():
            known.setdefault(int(tree.feature[node]), set()).update(values)
    return known


def _chosen_leaves(trees: Sequence[Tree], most: int, rng: np.random.Generator) -> list[Array]:
    """All leaves, or an equal number of each tree, at most `most` together; with more trees, only of some trees."""
    leaves = [np.flatnonzero(np.asarray(tree.left) < 0) for tree in trees]
    if sum(map(len, leaves)) <= most:
        return leaves
    shares = deal([len(each) for each in leaves], most, rng)
    return [np.sort(rng.choice(each, share, replace=False)) for each, share in zip(leaves, shares, strict=True)]


def _ways(tree: Tree, leaves: Array, at: Array) -> Iterator[list[_Step]]:
    """For each leaf, the decisions that lead to it."""
    left, right = np.asarray(tree.left), np.asarray(tree.right)
    inner = np.flatnonzero(left >= 0)
    parent, is_left = np.full(len(left), -1), np.zeros(len(left), dtype=bool)
    parent[left[inner]], parent[right[inner]], is_left[left[inner]] = inner, inner, True
    above, lefts = parent.tolist(), is_left.tolist()
    features, thresholds = np.asarray(tree.feature).tolist(), at.tolist()
    members = tree.members
    for leaf in leaves.tolist():
        steps, node = [], leaf
        while (higher := above[node]) >= 0:
            steps.append(_Step(features[higher], thresholds[higher], lefts[node], members.get(higher)))
            node = higher
        yield steps


def _thresholds(tree: Tree, whole: Collection[int], coded: Mapping[int, Sequence[float]]) -> Array:
    """The thresholds; those of whole and of coded columns are moved between the two values that they separate."""
    thresholds, features = np.array(tree.threshold, dtype=np.float64), np.asarray(tree.feature)
    # A threshold beyond all inputs separates missing values from all others.
    thresholds = np.where(np.abs(thresholds) > _BEYOND, np.copysign(np.inf, thresholds), thresholds)
    strict = np.broadcast_to(np.asarray(tree.strict), thresholds.shape)
    if whole:
        moved = np.where(strict, np.ceil(thresholds) - 0.5, np.floor(thresholds) + 0.5)
        thresholds = np.where(np.isin(features, list(whole)), moved, thresholds)
    for number, values in coded.items():
        if (here := features == number).any():
            thresholds[here] = _between(np.unique(values), thresholds[here], strict[here])
    return thresholds


def _between(values: Array, thresholds: Array, strict: Array) -> Array:
    """The middle of the two values that a threshold separates. Strict comparisons are made in float32."""
    below = np.searchsorted(values.astype(np.float32), thresholds.astype(np.float32), side="left")
    places = np.where(strict, below, np.searchsorted(values, thresholds, side="right"))
    fenced = np.concatenate([[values[0] - 1.0], values, [values[-1] + 1.0]])
    return np.asarray((fenced[places] + fenced[places + 1]) / 2)


def _box(steps: list[_Step], known: Mapping[int, set[float]], rng: np.random.Generator) -> dict[int, Interval] | None:
    """The box that all decisions allow together, or None where it is empty."""
    box: dict[int, Interval] = {}
    for feature, at, goes_left, members in steps:
        low, high = box.get(feature, _ANYTHING)
        if members is None:
            box[feature] = (low, min(high, at)) if goes_left else (max(low, at), high)
    if any(low >= high for low, high in box.values()):
        return None
    for feature in {step.feature for step in steps if step.members is not None}:
        decisions = [step for step in steps if step.feature == feature]
        left = sorted(_allowed(decisions, box.get(feature, _ANYTHING), known[feature]))
        if not left:
            return None
        value = float(rng.choice(left))
        box[feature] = (value, value)
    return box


def _allowed(steps: list[_Step], between: Interval, known: set[float]) -> set[float]:
    """The categories that take this path; if there are none, an unknown category that takes it."""
    low, high = between
    names = [step for step in steps if step.members is not None]

    def fits(value: float) -> bool:
        return low < value < high and all((value in (step.members or ())) == step.goes_left for step in names)

    other = max(known, default=-1.0) + 1.0
    return {value for value in known if fits(value)} or {value for value in (other,) if fits(value)}
