"""A variant in its place: what it is calibrated with, and what it is allowed to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_gate.inputs.cases import plan_cases
from onnx_gate.inputs.data import Dataset, load_dataset
from onnx_gate.records import Graph, ModelSpec

OWN_FEEDS = (
    "calibrated with the feeds that it is judged on ({}): give `data` to int8-static that is like what it will see"
)


def lower_precision(spec: ModelSpec, base: Path, target: Path, dataset: Dataset | None) -> list[str]:
    """Make the variant of the model at `base`; `dataset` is the model's own."""
    # Imported here: only variants need the tools.
    from onnx_gate.variants.make import make_variant

    variant = spec.variant
    notes = []
    if variant and variant.data:
        spec = replace(spec, data=variant.data)
        dataset = load_dataset(spec, ())
    elif variant and variant.kind == "int8-static":
        notes.append(OWN_FEEDS.format(f"`data: {spec.data.shown}`" if spec.data else "generated"))

    def feeds() -> Iterator[dict[str, Any]]:
        # Each row once, and no edges: a single huge value would widen every range.
        cases, _ = plan_cases(replace(spec, batches=(max(spec.batches),), edges=()), dataset)
        return (call.feed for case in cases for call in case.calls())

    return [*make_variant(spec, base, target, feeds), *notes]


def as_lowered(spec: ModelSpec, graph: Graph) -> tuple[ModelSpec, frozenset[str]]:
    """What to expect of the file: the tools raise the opset, and inputs become float16 where that was asked for."""
    if spec.variant is None:
        return spec, frozenset()
    halves = frozenset()
    if spec.variant.options.get("keep_io") is False:
        halves = frozenset(value.name for value in graph.inputs if value.dtype == "float16")
    inputs = spec.inputs and tuple(
        replace(given, dtype="float16") if given.name in halves and given.dtype == "float32" else given
        for given in spec.inputs
    )
    convert = {name: value for name, value in spec.convert.items() if name != "opset"}
    return replace(spec, inputs=inputs, convert=convert), halves
