"""Whether a divergence goes with the sizes of the dynamic dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import BreachKind

Sizes = Mapping[str, Mapping[str, int]]
"""Of each case, its dynamic dimensions."""
_OF_SIZES = (BreachKind.SHAPE, BreachKind.COUNT, BreachKind.REFUSED)
"""Breaches that a size built into the file explains."""


def right_sizes(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> str:
    """A case of other sizes at which these outputs are right; none where it isn't their shape that is wrong."""
    if any(diff.case not in sizes or not _is_about_size(diff) for diff in wrong):
        return ""
    bad, outputs = {diff.case for diff in wrong}, {diff.output for diff in wrong}
    good = (diff.case for diff in diffs if diff.output in outputs and diff.case in sizes)
    return next((case for case in good if case not in bad), "")


def _is_about_size(diff: OutputDiff) -> bool:
    return all(breach.kind in _OF_SIZES for breach in diff.breaches)


def depends_on_size(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> bool:
    """Wrong at some batch sizes and right at others, and never both at one."""
    bad = {sizes[diff.case].get("batch") for diff in wrong if diff.case in sizes}
    good = {sizes[diff.case].get("batch") for diff in diffs if not diff.breaches and diff.case in sizes}
    if None in bad or not bad or not good or bad & good:
        return False
    refused = any(diff.contract and diff.case in sizes for diff in wrong)
    # Right at one size only, and mostly wrong at a smaller one too: more rows, or other ones, don't explain that.
    mostly = all(diff.contract or 2 * diff.mismatched >= diff.total for diff in wrong)
    smallest = min((size for size in bad if size), default=math.inf)
    only_one = mostly and len(good) == 1 and smallest < max(size or 0 for size in good)
    return refused or bad == {1} or only_one


def baked_advice(sizes: Sizes, wrong: list[OutputDiff]) -> str:
    """At which batches it is wrong, and what to look for."""
    batches = sorted({size for diff in wrong if (size := sizes.get(diff.case, {}).get("batch"))})
    where = f" It is wrong at batch {', '.join(map(str, batches))}." if batches else ""
    return (
        "The ONNX file has a dimension built in that the manifest wants dynamic." + where + " Look for "
        "`int(x.shape[0])`, `if x.shape[0] == …` or a fixed reshape in forward(): use x.shape[0] as it is, or -1."
    )
