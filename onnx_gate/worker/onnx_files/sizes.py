"""Comparison of the sizes that a shipped .onnx fixes with those that the manifest asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Breach, Graph, GraphValue, OutputDiff
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.worker.onnx_files.checks import structural_breaches


@dataclass(frozen=True, kw_only=True)
class FixedSizes:
    """The sizes that a file can't run."""

    spec: ModelSpec
    """The model, with only the sizes that the file can run."""
    breaches: tuple[OutputDiff, ...] = ()
    """Sizes that the file can't run, though the model's own keys ask for them."""
    warnings: tuple[str, ...] = ()
    """Sizes that the file can't run and that the model's own keys don't ask for: they were not compared."""


def fixed_sizes(spec: ModelSpec, graph: Graph) -> FixedSizes:
    """For a model with the schema of the file: a size that its own keys ask for, but the file fixes, is a breach."""
    batch = _fixed_batch(graph)
    dims, lacking = _fixed_dims(spec, graph)
    own = "dims" in spec.own
    breaches = [_breach(*each) for each in lacking] if own else []
    if batch and "batches" in spec.own and any(size != batch[1] for size in spec.batches):
        asked = ", ".join(map(str, spec.batches))
        text = f"`batches: [{asked}]` is asked for, and dimension 0 is fixed at {batch[1]} in the file"
        breaches.append(_breach(f"input {batch[0]}", text))
    warnings = [_batch_warning(*batch)] if batch and "batches" not in spec.own else []
    warnings += [] if own else [f"{text}: these sizes were not compared" for _, text in lacking]
    return FixedSizes(spec=replace(spec, dims=dims), breaches=tuple(breaches), warnings=tuple(warnings))


def stated_sizes(spec: ModelSpec, graph: Graph) -> FixedSizes | None:
    """For a file that is its own source: if it fixes a size that is dynamic in `inputs`, only that size is run."""
    breaches = [found for found, cause in structural_breaches(spec, graph) if cause is Cause.BATCH_BAKED]
    if not breaches:
        return None
    sizes = {value.name: value.shape for value in graph.inputs}
    inputs = tuple(replace(given, shape=_as_fixed(given.shape, sizes.get(given.name))) for given in spec.inputs or ())
    named = {size for given in inputs for size in given.shape}
    dims = {dim: asked for dim, asked in spec.dims.items() if dim in named}
    return FixedSizes(spec=replace(spec, inputs=inputs, dims=dims), breaches=tuple(breaches))


def _as_fixed(asked: tuple[int | str, ...], has: tuple[int | str | None, ...] | None) -> tuple[int | str, ...]:
    if has is None or len(has) != len(asked):
        return asked
    return tuple(got if isinstance(got, int) else wanted for wanted, got in zip(asked, has, strict=True))


def _fixed_batch(graph: Graph) -> tuple[str, int] | None:
    """An input and its fixed first size; None unless all inputs fix theirs."""
    first = {value.name: value.shape[0] for value in graph.inputs if value.shape}
    fixed = [(name, size) for name, size in first.items() if isinstance(size, int)]
    unknown = any(value.shape is None for value in graph.inputs)
    return fixed[0] if fixed and len(fixed) == len(first) and not unknown else None


def _batch_warning(name: str, size: int) -> str:
    return (
        f"the .onnx fixes the batch at {size} (dimension 0 of {name!r}): only that size was compared. Export it with a "
        f"dynamic batch, or write `batches: [{size}]` beside it if {size} is all that it has to take"
    )


def _fixed_dims(spec: ModelSpec, graph: Graph) -> tuple[dict[str, tuple[int, ...]], list[tuple[str, str]]]:
    """The dimensions under `dims` that the file has; for each one that it fixes, the input and what is asked for.

    If the file has another named dimension that `dims` doesn't mention, or has the only size that is asked for, an
    unknown name is a spelling mistake, which is reported elsewhere.
    """
    named = {size for value in graph.inputs for axis, size in enumerate(value.shape or ()) if _is_open(size, axis)}
    fixed = [value for value in graph.inputs if any(isinstance(size, int) for size in (value.shape or ())[1:])]
    has = {size for value in fixed for size in (value.shape or ())[1:]}
    unknown = [dim for dim in spec.dims if dim not in named]
    if named - set(spec.dims) or not any(_is_lacking(has, set(spec.dims[dim])) for dim in unknown):
        return dict(spec.dims), []
    known = {dim: sizes for dim, sizes in spec.dims.items() if dim not in unknown}
    return known, [_asked(dim, spec.dims[dim], fixed[0]) for dim in unknown]


def _is_lacking(has: set[int | str | None], asked: set[int]) -> bool:
    """Whether no dimension of these fixed sizes can be what is asked for: a fixed dimension has one size."""
    return bool(has) and (len(asked) > 1 or not asked <= has)


def _is_open(size: int | str | None, axis: int) -> bool:
    return not isinstance(size, int) and axis > 0


def _asked(dim: str, sizes: tuple[int, ...], value: GraphValue) -> tuple[str, str]:
    shape = "[" + ", ".join("?" if size is None else str(size) for size in value.shape or ()) + "]"
    text = (
        f"`dims: {{{dim}: [{', '.join(map(str, sizes))}]}}` is asked for, and the file leaves no dimension beside the "
        f"batch open: its shape is {shape}"
    )
    return f"input {value.name}, {dim}", text


def _breach(what: str, text: str) -> OutputDiff:
    return OutputDiff(
        provider="graph", case="structure", output=what, breaches=(Breach(kind=BreachKind.SHAPE, text=text),)
    )
