"""Trees of any framework → rows that reach their leaves, and the values at which they split."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gate.worker.domains.trees import Tree, boxes_of, cuts_of, members_of, single_cuts_of

# x0 <= 3 ? (x1 <= -2 ? leaf 3 : leaf 4) : leaf 2
SMALL = Tree(
    feature=np.array([0, 1, 0, 0, 0]),
    threshold=np.array([3.0, -2.0, 0.0, 0.0, 0.0]),
    left=np.array([1, 3, -1, -1, -1]),
    right=np.array([2, 4, -1, -1, -1]),
)
# x0 in {1, 4} ? leaf 1 : leaf 2
CATEGORIES = Tree(
    feature=np.array([0, 0, 0]),
    threshold=np.zeros(3),
    left=np.array([1, -1, -1]),
    right=np.array([2, -1, -1]),
    members={0: (1.0, 4.0)},
)


def chain(depth: int, feature: int = 0) -> Tree:
    """Thresholds 1, 2, … on one column: what isn't below goes on."""
    left = [2 * i + 1 for i in range(depth)]
    return Tree(
        feature=np.array([feature] * (2 * depth + 1)),
        threshold=np.array([float(i // 2 + 1) for i in range(2 * depth + 1)]),
        left=np.array([left[i // 2] if i % 2 == 0 and i < 2 * depth else -1 for i in range(2 * depth + 1)]),
        right=np.array([left[i // 2] + 1 if i % 2 == 0 and i < 2 * depth else -1 for i in range(2 * depth + 1)]),
    )


def test_each_leaf_has_the_intervals_of_its_way() -> None:
    """The last leaf of a chain has one bound only: the nearest."""
    inf = np.inf
    assert boxes_of([SMALL], "seed") == [
        {0: (3.0, inf)},
        {0: (-inf, 3.0), 1: (-inf, -2.0)},
        {0: (-inf, 3.0), 1: (-2.0, inf)},
    ]
    assert boxes_of([chain(3)], "seed")[-1] == {0: (3.0, inf)}
    assert cuts_of([SMALL, chain(4, feature=1)]) == {0: [3.0], 1: [-2.0, 1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize(("strict", "cut"), [(False, 3.5), (True, 2.5)])
def test_whole_numbers_are_parted_between_two_of_them(strict: bool, cut: float) -> None:
    """Else the box between 2 and 3 would hold no whole number, although 2 or 3 goes there."""
    tree = Tree(feature=SMALL.feature, threshold=SMALL.threshold, left=SMALL.left, right=SMALL.right, strict=strict)
    assert cuts_of([tree], whole={0}) == {0: [cut], 1: [-2.0]}
    assert boxes_of([tree], "seed", whole={0})[0] == {0: (cut, np.inf)}


@pytest.mark.parametrize(("strict", "cut"), [(False, 6.5), (True, 2.0)])
def test_values_that_are_listed_are_parted_between_two_of_them(strict: bool, cut: float) -> None:
    """As of a column that an encoder makes: 1, 3 and 10."""
    tree = Tree(feature=SMALL.feature, threshold=SMALL.threshold, left=SMALL.left, right=SMALL.right, strict=strict)
    assert boxes_of([tree], "seed", coded={0: [10.0, 1.0, 3.0]})[0] == {0: (cut, np.inf)}


def test_a_threshold_that_no_value_exceeds_parts_missing_values() -> None:
    """No row of numbers reaches the other side, and it is no cut."""
    tree = Tree(feature=SMALL.feature, threshold=np.array([3e38, 5, 0, 0, 0]), left=SMALL.left, right=SMALL.right)
    assert boxes_of([tree], "seed") == [
        {0: (-np.inf, np.inf), 1: (-np.inf, 5.0)},
        {0: (-np.inf, np.inf), 1: (5.0, np.inf)},
    ]
    assert cuts_of([tree]) == {0: [], 1: [5.0]}


def test_categories_are_values() -> None:
    """The right side gets one that no node looks for, where all that are known go to the left."""
    found = boxes_of([CATEGORIES], "seed")
    assert [low for low, high in (box[0] for box in found) if low == high] in ([1.0, 5.0], [4.0, 5.0])
    assert members_of([CATEGORIES]) == {0: [1.0, 4.0]}
    assert cuts_of([CATEGORIES]) == {}


def test_leaves_that_no_row_reaches_are_left_out() -> None:
    """x0 <= 3, then x0 > 5."""
    tree = Tree(feature=np.zeros(5, int), threshold=np.array([3.0, 5, 0, 0, 0]), left=SMALL.left, right=SMALL.right)
    assert len(boxes_of([tree], "seed")) == 2


def test_a_choice_spreads_over_all_trees() -> None:
    """Small trees are taken whole, the others share what is left; the same seed chooses the same."""
    trees = [chain(2, feature=9), *(chain(50, feature=i) for i in range(4))]
    found = boxes_of(trees, "seed", most=43)
    counts = [sum(column in box for box in found) for column in (9, 0, 1, 2, 3)]
    assert counts == [3, 10, 10, 10, 10]
    assert found == boxes_of(trees, "seed", most=43) != boxes_of(trees, "other", most=43)
    assert len(boxes_of(trees, "seed", most=3)) == 3


@pytest.mark.parametrize(
    ("threshold", "strict", "held"),
    [
        (31.0, False, True),
        (31.0, True, True),
        (np.nextafter(31.0, 32.0), False, True),
        (np.nextafter(31.0, 30.0), False, False),
        (np.nextafter(31.0, 32.0), True, False),
        (31.1, False, False),
        (1e-35, False, False),
        (0.0, False, True),
    ],
)
def test_thresholds_that_float32_holds(threshold: float, strict: bool, held: bool) -> None:
    """The number in float32 goes the same way at the threshold and at the threshold in float32."""
    tree = Tree(
        feature=np.array([0, 0, 0]),
        threshold=np.array([threshold, 0.0, 0.0]),
        left=np.array([1, -1, -1]),
        right=np.array([2, -1, -1]),
        strict=strict,
    )
    assert single_cuts_of([tree]) == ({0: {threshold: float(np.float32(threshold))}} if held else {})
