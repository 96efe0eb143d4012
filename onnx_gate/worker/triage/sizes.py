"""Checks whether a divergence depends on the sizes of the dynamic dimensions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from onnx_gate.frameworks.info import Terms
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Graph, OutputDiff
from onnx_gate.vocabulary import BreachKind

Sizes = Mapping[str, Mapping[str, int]]
"""Case → its dynamic dimensions and their sizes."""
_OF_SIZES = (BreachKind.SHAPE, BreachKind.COUNT, BreachKind.REFUSED)
"""Breaches that a size baked into the file explains."""
_MOST, _FEW = 0.5, 0.1
"""Shares of wrong elements. From the first on it is not chance. From the second on, if the same rows are right at their
own size, it is not rounding."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A dimension of an input that the manifest wants dynamic, but that has a fixed size in the file."""

    input: str
    axis: int
    name: str
    """Name of the dimension in the manifest."""
    size: int
    stated: bool = True
    """Whether `inputs` names the dimension; else `batches` asks for other sizes."""


Shapes = Mapping[str, tuple[int | str | None, ...]]


def fixed_sizes(spec: ModelSpec, graph: Graph) -> tuple[Fixed, ...]:
    """All fixed dimensions; if `inputs` names none of them, the batch dimension is checked against `batches`."""
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
    """First dimensions whose fixed size differs from a size in the model's own `batches`."""
    first = {name: shape[0] for name, shape in shapes.items() if shape}
    if "batches" not in spec.own or any(given.shape[:1] == ("batch",) for given in spec.inputs or ()):
        return ()
    return tuple(
        Fixed(input=name, axis=0, name="batch", size=size, stated=False)
        for name, size in first.items()
        if isinstance(size, int) and any(batch != size for batch in spec.batches)
    )


def fixed_advice(fixed: Sequence[Fixed], terms: Terms, *, shipped: bool) -> str:
    """Advice that names the baked-in sizes, and how to export the file without them."""
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
    look = look_for(f"`int(…)` or a comparison of {places}, a fixed reshape", terms, fixed[0].axis)
    return f"{start}{look} If the model takes no other size, {otherwise}."


def look_for(signs: str, terms: Terms, axis: int) -> str:
    """What makes a constant of a size, in the user's code; or in what made the file, where users write no such code."""
    if not terms.method:
        return "Look for that number in the code or the converter that made the file, and export it again without it."
    size = terms.size.format(axis)
    return f"Look in {terms.method} for a number that is made of that size ({signs}): use `{size}` as it is, or -1."


def right_sizes(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> str:
    """A case of other sizes at which these outputs are right; empty if none is, or if more than the shape is wrong."""
    if any(diff.case not in sizes or not _is_about_size(diff) for diff in wrong):
        return ""
    bad, outputs = {diff.case for diff in wrong}, {diff.output for diff in wrong}
    good = (diff.case for diff in diffs if diff.output in outputs and diff.case in sizes)
    return next((case for case in good if case not in bad), "")


def moved_batch(sizes: Sizes, wrong: list[OutputDiff]) -> str:
    """The output whose rows lie along another dimension than the first one, at every size; empty if there is none."""
    if not wrong or any({breach.kind for breach in diff.breaches} != {BreachKind.SHAPE} for diff in wrong):
        return ""
    return wrong[0].output if all(_lies_elsewhere(diff, sizes) for diff in wrong) else ""


def _lies_elsewhere(diff: OutputDiff, sizes: Sizes) -> bool:
    batch = sizes.get(diff.case, {}).get("batch")
    return batch is not None and batch > 1 and diff.shape[:1] != (batch,) and batch in diff.shape[1:]


def _is_about_size(diff: OutputDiff) -> bool:
    return all(breach.kind in _OF_SIZES for breach in diff.breaches)


def depends_on_size(
    diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff], *, rows_asked: bool = False
) -> bool:
    """Whether outputs are wrong at some batch sizes and right at others, and never both at one size.

    If only one size is right, other rows may be the reason. If the same rows can run at that size, that test decides.
    """
    bad, good = _by_size("batch", diffs, sizes, wrong)
    if None in bad or not bad or not good or bad & good:
        return False
    refused = any(diff.contract and diff.case in sizes for diff in wrong)
    # Right at one size only, and mostly wrong at a smaller size too: more rows, or other rows, don't explain that.
    smallest = min((size for size in bad if size), default=math.inf)
    only_one = _mostly(wrong) and len(good) == 1 and smallest < max(size or 0 for size in good)
    return refused or bad == {1} or (only_one and not rows_asked)


def may_depend_on_size(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> bool:
    """Whether it is useful to run the same rows in other batches: no size is both right and wrong.

    If no size is right, only shapes may be wrong: a model with a baked-in number of rows refuses all others.
    """
    bad, good = _by_size("batch", diffs, sizes, wrong)
    if None in bad or not bad or bad & good:
        return False
    return bool(good) or all(_is_about_size(diff) for diff in wrong)


def baked_dimension(
    diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff], cuts: Collection[str] = ()
) -> str:
    """A dimension other than the batch that the divergence depends on; empty if not found.

    `cuts` are cases of the same rows at other sizes: if only these are wrong, the size is the reason.
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


def is_apart(diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]) -> bool:
    """Whether a dimension has other sizes where outputs are wrong than where they are right."""
    for dim in dict.fromkeys(name for diff in wrong for name in sizes.get(diff.case, {})):
        bad, good = _by_size(dim, diffs, sizes, wrong)
        if good - {None} and not bad & good:
            return True
    return False


def _by_size(
    dim: str, diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff]
) -> tuple[set[int | None], set[int | None]]:
    """The sizes of a dimension at which outputs are wrong, and the sizes at which they are right."""
    bad = {sizes[diff.case].get(dim) for diff in wrong if diff.case in sizes}
    return bad, {sizes[diff.case].get(dim) for diff in diffs if not diff.breaches and diff.case in sizes}


def _mostly(wrong: list[OutputDiff]) -> bool:
    return all(_share_wrong(diff) >= _MOST for diff in wrong)


def _share_wrong(diff: OutputDiff) -> float:
    return 1.0 if diff.contract or not diff.total else diff.mismatched / diff.total


def dimension_advice(dim: str, diffs: Sequence[OutputDiff], sizes: Sizes, wrong: list[OutputDiff], terms: Terms) -> str:
    """Advice that names the sizes at which the file is wrong, and what to look for."""
    bad, good = (
        ", ".join(map(str, sorted(size for size in found if size is not None)))
        for found in _by_size(dim, diffs, sizes, wrong)
    )
    return (
        f"The ONNX file has a size of {dim!r} built in: it is wrong at {dim}={bad} and right at {dim}={good}. "
        f"{look_for('`int(x.shape[…])`, a fixed reshape, a mask or table of one length', terms, 1)} Or it was exported "
        f"without a dynamic {dim!r}. If the model takes no other size, write the number instead of the name in "
        "`inputs`."
    )


def baked_advice(sizes: Sizes, wrong: list[OutputDiff], terms: Terms, right: int | None = None) -> str:
    """Advice that names the batch sizes at which the file is wrong, and what to look for."""
    batches = sorted({size for diff in wrong if (size := sizes.get(diff.case, {}).get("batch"))})
    same = f", and right for the same rows at batch {right}" if right else ""
    where = f" It is wrong at batch {', '.join(map(str, batches))}{same}." if batches else ""
    return (
        "The ONNX file has a dimension built in that the manifest wants dynamic."
        f"{where} {look_for('`int(x.shape[0])`, `if x.shape[0] == …`, a fixed reshape', terms, 0)}"
    )
