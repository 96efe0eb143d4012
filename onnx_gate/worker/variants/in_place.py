"""The frame around a variant: its calibration data, and the changes that it may make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_gate.records.asked import ModelSpec, ProviderSpec
from onnx_gate.records.found import Graph
from onnx_gate.vocabulary import EDGES
from onnx_gate.wording.numbers import plural
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.inputs.cases import plan_cases
from onnx_gate.worker.inputs.data import Dataset, load_dataset
from onnx_gate.worker.onnx_files.precision.lowered import computing_in_half
from onnx_gate.worker.runtime.session import Session

Feed = dict[str, Any]
OWN_FEEDS = (
    "calibrated with the feeds that it is judged on ({}): give `data` to int8-static that is like what it will see"
)

IN_HALF = (
    "computed in half precision: every value was rounded to float16 after the node that answers it; by itself this CPU "
    "computes in float32"
)
NOT_IN_HALF = (
    "not computed in half precision: this CPU computes most of it in float32, so that the differences on a GPU are "
    "larger. Rounding to float16 after each node was not possible: {}"
)
FILE_NOT_IN_HALF = (
    "not computed in half precision: {} of the file {} in float16, and this CPU computes most of that in float32, so "
    "that the differences on a GPU are larger. Judge the file on the provider that serves it"
)
HALF = "half"
"""The folder inside the worker's own, for a copy of the model that rounds like float16."""

_RANGES = ("tiny", "huge", "denormal")
_BEYOND = {
    "fp16": _RANGES,
    "int8-dynamic": (*_RANGES, "nan", "infinity", "negative-infinity"),
    # It is calibrated for the values in the data, and no edge case is in the data.
    "int8-static": EDGES,
}
"""Edge cases that lower precision can't hold by its nature: only the model itself gets them."""


def takes_landmarks(spec: ModelSpec) -> bool:
    """Whether a model gets the extreme values that it knows: int8 is made for the ordinary values of its inputs."""
    return spec.variant is None or not spec.variant.kind.startswith("int8")


def fitting_cases(spec: ModelSpec, cases: list[Case]) -> tuple[list[Case], list[str]]:
    """The cases that are meaningful for a variant, and a note on the others."""
    if spec.variant:
        # Sizes that are built in show in the model itself, and the loss of precision doesn't depend on the size.
        cases = [case for case in cases if not (case.cut and case.optional)]
    beyond = _BEYOND[spec.variant.kind] if spec.variant else ()
    left_out = [case.edge for case in cases if case.edge in beyond]
    if not left_out:
        return cases, []
    kept = [case for case in cases if case.edge not in beyond]
    return kept, [f"edges beyond what the variant is made for were not fed to it: {', '.join(left_out)}"]


def overflow_warning(onnx: str, base: str, feed: Feed, half_feed: Feed) -> str:
    """The node that gives Inf in half precision, as a warning; empty where there is none."""
    from onnx_gate.worker.variants.half import first_overflow

    try:
        found = first_overflow(Path(base), Path(onnx), feed, half_feed)
    except Exception:
        # Some values can't be shown, such as those of a custom operator: nothing is known about them.
        return ""
    if found is None:
        return ""
    return (
        f"float16 ends at 65,504, and {found.node} ({found.op}) goes beyond it: in half precision it answers Inf; keep "
        f"it in float32 with `exclude_ops: [{found.op}]` or `exclude_nodes: [{found.node}]`"
    )


def half_session(
    spec: ModelSpec, onnx: str, provider: ProviderSpec, read_log: Callable[[], str], scratch: Path
) -> tuple[Session | None, str]:
    """The session for an fp16 variant on a CPU, and a note for the reader.

    Other files run as they are, so that what is shipped is judged: if they compute in float16, there is only the note.
    """
    if provider.name != "cpu":
        return None, ""
    if spec.variant is None or spec.variant.kind != "fp16":
        count = computing_in_half(onnx).total()
        return None, FILE_NOT_IN_HALF.format(
            plural(count, "node"), "computes" if count == 1 else "compute"
        ) if count else ""
    from onnx_gate.worker.variants.emulation import NotEmulated, open_in_half

    try:
        return open_in_half(Path(onnx), scratch / HALF, provider, read_log, spec.ort_custom_ops), IN_HALF
    except NotEmulated as error:
        return None, NOT_IN_HALF.format(error)


def lower_precision(spec: ModelSpec, base: Path, target: Path, dataset: Dataset | None) -> list[str]:
    """Make the variant of the model at `base`; `dataset` is the model's own."""
    # Imported here, because only variants need the tools.
    from onnx_gate.worker.variants.make import make_variant

    variant = spec.variant
    notes = []
    if variant and variant.data:
        # Columns that the model ignores in its own data need not be in this data.
        spec = replace(spec, data=variant.data, own=spec.own - {"ignore_data"})
        dataset = load_dataset(spec, ())
    elif variant and variant.kind == "int8-static":
        notes.append(OWN_FEEDS.format(f"`data: {spec.data.shown}`" if spec.data else "generated"))

    def feeds() -> Iterator[dict[str, Any]]:
        # Each row once, and no edge cases: a single huge value would widen every range.
        cases, _ = plan_cases(replace(spec, batches=(max(spec.batches),), edges=()), dataset)
        return (call.feed for case in cases if not case.cut for call in case.calls())

    return [*make_variant(spec, base, target, feeds), *notes]


def as_lowered(spec: ModelSpec, graph: Graph) -> tuple[ModelSpec, frozenset[str]]:
    """The expected form of the file: the tools raise the opset, and inputs become float16 if the variant says so."""
    if spec.variant is None:
        return spec, frozenset()
    halves: frozenset[str] = frozenset()
    if spec.variant.options.get("keep_io") is False:
        halves = frozenset(value.name for value in graph.inputs if value.dtype == "float16")
    inputs = spec.inputs and tuple(
        replace(given, dtype="float16") if given.name in halves and given.dtype == "float32" else given
        for given in spec.inputs
    )
    convert = {name: value for name, value in spec.convert.items() if name != "opset"}
    return replace(spec, inputs=inputs, convert=convert), halves
