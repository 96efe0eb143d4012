"""All wrong models that can be made from a file: one module per family of kinds, and one table of the kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from onnx_gate.records.found import Actual
from onnx_gate.worker.onnx_files.blueprint import Blueprint, OutputForm
from onnx_gate.worker.strength.kinds.attributes import attribute_sites
from onnx_gate.worker.strength.kinds.labels import label_sites
from onnx_gate.worker.strength.kinds.mutants import Kind, Site
from onnx_gate.worker.strength.kinds.operators import operator_sites
from onnx_gate.worker.strength.kinds.outputs import output_sites
from onnx_gate.worker.strength.kinds.parts import Parts
from onnx_gate.worker.strength.kinds.shapes import shape_sites
from onnx_gate.worker.strength.kinds.trees import tree_sites
from onnx_gate.worker.strength.kinds.weights import weight_sites


@dataclass(frozen=True, kw_only=True)
class KindInfo:
    """One row of the table of kinds."""

    kind: Kind
    size: str
    """The change and its size."""
    of: str
    """The parts of a model that it is applied to."""


KINDS: Mapping[Kind, KindInfo] = {
    info.kind: info
    for info in (
        KindInfo(
            kind=Kind.SCALED,
            size="all values of one tensor × 1.5",
            of="stored floats; whole numbers that others are compared with; what linear models, scalers, imputers and "
            "support vectors have learnt",
        ),
        KindInfo(kind=Kind.NEGATED, size="all values of one tensor × −1", of="the same, without whole numbers"),
        KindInfo(
            kind=Kind.ZEROED, size="one row, column, channel or element set to 0", of="the same, without whole numbers"
        ),
        KindInfo(
            kind=Kind.REPLACED,
            size="one row becomes the row that is half a table away",
            of="tables that `Gather` looks up",
        ),
        KindInfo(
            kind=Kind.THRESHOLD,
            size="a threshold moves to the midpoint of its neighbours on the same feature",
            of="tree ensembles",
        ),
        KindInfo(kind=Kind.LEAF, size="a leaf moves by 10 % of the spread of all leaves", of="tree ensembles"),
        KindInfo(kind=Kind.BRANCH, size="a comparison is turned round", of="tree ensembles"),
        KindInfo(
            kind=Kind.MISSING,
            size="a missing value goes the other way",
            of="nodes of tree ensembles, on features that have learnt a way for missing values",
        ),
        KindInfo(
            kind=Kind.SWAPPED,
            size="two entries of a list change places",
            of="categories, words, label tables and classes",
        ),
        KindInfo(
            kind=Kind.OUTPUT,
            size="one column is set to 0, negated, or swapped with its neighbour",
            of="outputs of numbers",
        ),
        KindInfo(
            kind=Kind.OPERATOR,
            size="one operator is replaced by Identity",
            of="activations, normalisations, Softmax, Clip, rounding and other operators that keep the shape; Casts "
            "that only Casts read",
        ),
        KindInfo(
            kind=Kind.ATTRIBUTE,
            size="one attribute: epsilon × 100, alpha × 2, another axis, mode, direction, transpose or padding",
            of="operators that have one",
        ),
        KindInfo(kind=Kind.SHAPE, size="always the sizes of one feed", of="`Shape` and `Size` of dynamic values"),
        KindInfo(
            kind=Kind.PREPROCESSING,
            size="replaced by Identity",
            of="scalers, imputers, and arithmetic with constants, next to the inputs",
        ),
        KindInfo(
            kind=Kind.HALF,
            size="one tensor rounded to half precision; tried apart: the default tolerance is meant to allow it",
            of="stored floats",
        ),
    )
}
"""All kinds, in the order of the reports."""

Baked = Callable[[], Mapping[str, Actual]]
"""Returns the shapes within the graph on one feed, by the name of the value."""


def sites(blueprint: Blueprint, outputs: Mapping[str, OutputForm], baked: Baked) -> Iterator[Site]:
    """All sites of a file; `outputs` are the forms of its outputs."""
    parts = Parts(blueprint)
    yield from weight_sites(blueprint, parts)
    yield from tree_sites(parts)
    yield from label_sites(blueprint, parts)
    yield from operator_sites(parts)
    yield from attribute_sites(parts)
    yield from shape_sites(parts, baked)
    yield from output_sites(blueprint, outputs)
