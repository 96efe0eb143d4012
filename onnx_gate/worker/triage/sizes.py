"""Whether a divergence goes with the sizes of the dynamic dimensions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Graph, OutputDiff
from onnx_gate.vocabulary import BreachKind

Sizes = Mapping[str, Mapping[str, int]]
"""Of each case, its dynamic dimensions."""
_OF_SIZES = (BreachKind.SHAPE, BreachKind.COUNT, BreachKind.REFUSED)
"""Breaches that a size built into the file explains."""
_MOST, _FEW = 0.5, 0.1
"""Shares of wrong elements: more than that is no chance, and of rows that are right at their own size no rounding."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A dimension of an input that the manifest wants dynamic, and that has one size in the file."""

    input: str
    axis: int
    name: str
    """In the manifest."""
    size: int
    stated: bool = True
    """Whether `inputs` name it; else `batches` ask for other sizes."""


Shapes = Mapping[str, tuple[int | str | None, ...]]


def fixed_sizes(spec: ModelSpec, graph: Graph) -> tuple[Fixed, ...]:
    """All of them; where the manifest has no `inputs`, the batch is what it asks to vary."""
    shapes = {value.name: value.shape or () for value in graph.inputs}
    return _named(spec, shapes) or _batches(spec, shapes)


def _named(spec: ModelSpec, shapes: Shapes) -> tuple[Fixed, ...]:
    return tuple(
        Fixed(input=asked.name, axis=axis, name=name, size=size)
        for asked in spec.inputs or ()
        for axis, (name, size) in enumerate(zip(asked.shape, shapes.get(asked.name, ()), strict=False))
        if isinstance(name, str) and isinstance(size, int)
    )


def _batches(spec: ModelSpec, shapes: Shapes) -> tuple[Fixed, ...]:
    """First sizes that are not those of the model's own `batches`."""
    first = {name: shape[0] for name, shape in shapes.items() if shape}
    if "batches" not in spec.own or any(given.shape[:1] == ("batch",) for given in spec.inputs or ()):
        return ()
    return tuple(
        Fixed(input=name, axis=0, name="batch", size=size, stated=False)
        for name, size in first.items()
        if isinstance(size, int) and any(batch != size for batch in spec.batches)
    )


def fixed_advice(fixed: Sequence[Fixed], *, shipped: bool) -> str:
    """Which sizes are built in, and how to export the file without them."""
    told = ", ".join(f"dimension {each.axis} (`{each.name}`) of `{each.input}` is {each.size}" for each in fixed[:4])
    shapes: dict[str, list[str]] = {}
    for each in fixed:
        shapes.setdefault(each.input, []).append(f'{each.axis}: "{each.name}"')
    given = ", ".join(f'"{name}": {{{", ".join(axes)}}}' for name, axes in shapes.items())
    start = f"The ONNX file has sizes built in that the manifest wants dynamic: {told}. "
    stated = all(each.stated for each in fixed)
    otherwise = "write the number in the place of the name in `inputs`" if stated else "remove `batches`"
    if shipped or not stated:
        return (
            f"{start}It was exported for one size: name the dynamic dimensions in the export "
            f"(`dynamic_shapes={{{given}}}`, or `None` as that size where the exporter takes types of the inputs). If "
            f"the model takes no other size, {otherwise}."
        )
    places = ", ".join(dict.fromkeys(f"`x.shape[{each.axis}]`" for each in fixed))
    return (
        f"{start}Look for a number that forward() makes of that size (`int(…)` or a comparison of {places}, a fixed "
        f"reshape): use the size as it is, or -1. If the model takes no other size, {otherwise}."
    )


def right_sizes(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> str:
    """A case of other sizes at which these outputs are right; none where it isn't their shape that is wrong."""
    if any(diff.case not in sizes or not _is_about_size(diff) for diff in wrong):
        return ""
    bad, outputs = {diff.case for diff in wrong}, {diff.output for diff in wrong}
    good = (diff.case for diff in diffs if diff.output in outputs and diff.case in sizes)
    return next((case for case in good if case not in bad), "")


def _is_about_size(diff: OutputDiff) -> bool:
    return all(breach.kind in _OF_SIZES for breach in diff.breaches)


def depends_on_size(
    diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff], *, rows_asked: bool = False
) -> bool:
    """Wrong at some batch sizes and right at others, and never both at one.

    Right at one size only may come of other rows: where the same rows can be asked at that size, that decides.
    """
    bad, good = _by_size("batch", diffs, sizes, wrong)
    if None in bad or not bad or not good or bad & good:
        return False
    refused = any(diff.contract and diff.case in sizes for diff in wrong)
    # Right at one size only, and mostly wrong at a smaller one too: more rows, or other ones, don't explain that.
    smallest = min((size for size in bad if size), default=math.inf)
    only_one = _mostly(wrong) and len(good) == 1 and smallest < max(size or 0 for size in good)
    return refused or bad == {1} or (only_one and not rows_asked)


def may_depend_on_size(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> bool:
    """Whether it is worth while to feed the same rows in other batches: no size is right and wrong at once.

    Where none is right, it has to be a matter of form: a number of rows that is built in refuses all others.
    """
    bad, good = _by_size("batch", diffs, sizes, wrong)
    if None in bad or not bad or bad & good:
        return False
    return bool(good) or all(_is_about_size(diff) for diff in wrong)


def baked_dimension(
    diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff], cuts: Collection[str] = ()
) -> str:
    """Another dimension than the batch that it goes with; empty where there is none.

    `cuts` are cases of the same rows at other sizes: that these are wrong, and the rows themselves right, says it all.
    """
    if all(diff.contract for diff in wrong):
        return ""
    only_cuts = all(diff.case in cuts and _share_wrong(diff) >= _FEW for diff in wrong)
    for dim in dict.fromkeys(name for diff in wrong for name in sizes.get(diff.case, {}) if name != "batch"):
        bad, good = _by_size(dim, diffs, sizes, wrong)
        if None in bad or not good - {None} or bad & good:
            continue
        smaller = min(size or 0 for size in bad) < max(size or 0 for size in good)
        if only_cuts or (_mostly(wrong) and len(good) == 1 and smaller):
            return dim
    return ""


def _by_size(
    dim: str, diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]
) -> tuple[set[int | None], set[int | None]]:
    """The sizes of a dimension at which it is wrong, and those at which it is right."""
    bad = {sizes[diff.case].get(dim) for diff in wrong if diff.case in sizes}
    return bad, {sizes[diff.case].get(dim) for diff in diffs if not diff.breaches and diff.case in sizes}


def _mostly(wrong: list[OutputDiff]) -> bool:
    return all(_share_wrong(diff) >= _MOST for diff in wrong)


def _share_wrong(diff: OutputDiff) -> float:
    return 1.0 if diff.contract or not diff.total else diff.mismatched / diff.total


def dimension_advice(dim: str, diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> str:
    """At which sizes it is wrong, and what to look for."""
    bad, good = (
        ", ".join(map(str, sorted(size for size in found if size is not None)))
        for found in _by_size(dim, diffs, sizes, wrong)
    )
    return (
        f"The ONNX file has a size of {dim!r} built in: it is wrong at {dim}={bad} and right at {dim}={good}. Look for "
        f"a number that forward() makes of that size (`int(x.shape[…])`, a fixed reshape, a mask or table of one "
        f"length), or for an export without a dynamic {dim!r}; if the model takes no other size, write the number "
        "instead of the name in `inputs`."
    )


def baked_advice(sizes: Sizes, wrong: list[OutputDiff], right: int | None = None) -> str:
    """At which batches it is wrong, and what to look for."""
    batches = sorted({size for diff in wrong if (size := sizes.get(diff.case, {}).get("batch"))})
    same = f", and right for the same rows at batch {right}" if right else ""
    where = f" It is wrong at batch {', '.join(map(str, batches))}{same}." if batches else ""
    return (
        "The ONNX file has a dimension built in that the manifest wants dynamic." + where + " Look for "
        "`int(x.shape[0])`, `if x.shape[0] == …` or a fixed reshape in forward(): use x.shape[0] as it is, or -1."
    )
