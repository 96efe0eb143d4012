"""Precision variants: how each is made, and what it is held to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from onnx_gate.manifest.schema.rules import Rule, Tolerance, with_limits
from onnx_gate.manifest.schema.section import Names, Section, Text, refuse
from onnx_gate.records.asked import OutputRule
from onnx_gate.records.asked import Tolerance as Allowed
from onnx_gate.records.limits import TOP1_OF_SCORES
from onnx_gate.vocabulary import VARIANTS
from onnx_gate.wording.hints import suggest

Kind = Literal["fp16", "int8-dynamic", "int8-static"]

_INT8 = OutputRule(
    limits={"max_mismatch": 1.0, "min_agreement": 0.95, "min_snr_db": 15.0, "min_column_snr_db": 10.0},
    for_scores={"min_top1": TOP1_OF_SCORES},
)
DEFAULTS: dict[Kind, OutputRule] = {
    "fp16": OutputRule(
        tolerance=Allowed(rtol=1e-2, atol=1e-3),
        limits={"min_agreement": 0.99, "min_snr_db": 40.0, "min_column_snr_db": 20.0},
        for_scores={"min_top1": TOP1_OF_SCORES},
    ),
    "int8-dynamic": _INT8,
    "int8-static": _INT8,
}
"""What a variant is held to where the manifest says nothing: of int8, no element for itself, but all together."""

_OPTIONS = {
    "fp16": ("keep_io", "exclude_ops", "exclude_nodes"),
    "int8-dynamic": ("per_channel", "reduce_range", "ops", "exclude_nodes", "weights"),
    "int8-static": (
        "per_channel",
        "reduce_range",
        "ops",
        "exclude_nodes",
        "calibrate",
        "data",
        "activations",
        "weights",
    ),
}


@with_limits
class Variant(Section):
    """A model of lower precision, made of the converted one and held to limits of its own."""

    name: Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$")] | None = Field(
        None, description="name shown in reports; defaults to the kind"
    )
    data: Text | None = Field(None, description="int8-static: data to calibrate with; by default the model's own feeds")
    tolerance: Tolerance | None = Field(None, description="for all outputs of the variant")
    outputs: dict[str, Rule] = Field(default_factory=dict, description="rules of the variant, by output")
    keep_io: bool | None = Field(None, description="fp16: inputs and outputs stay float32; true by default")
    per_channel: bool | None = Field(None, description="int8: a scale for each channel of the weights")
    reduce_range: bool | None = Field(None, description="int8: 7-bit weights, for CPUs without VNNI")
    activations: Literal["int8", "uint8"] | None = Field(None, description="int8-static: their type; uint8 by default")
    weights: Literal["int8", "uint8"] | None = Field(None, description="int8: their type; int8 by default")
    ops: Names | None = Field(None, description="int8: the operators to quantise")
    exclude_ops: Names | None = Field(None, description="fp16: operators that stay float32")
    exclude_nodes: Names | None = Field(None, description="nodes that stay float32")
    calibrate: Literal["minmax", "entropy", "percentile"] | None = Field(
        None, description="int8-static: how ranges are found; minmax by default"
    )

    @property
    def options(self) -> dict[str, Any]:
        """Of the tool that makes it."""
        names = {option for options in _OPTIONS.values() for option in options} - {"data"}
        return {name: given for name in sorted(names) if (given := getattr(self, name)) is not None}


def _expand(value: Any) -> Any:
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, dict) or len(value) != 1:
        raise refuse("", f"one of {', '.join(VARIANTS)}, or a mapping such as fp16: {{…}}")
    ((kind, given),) = value.items()
    if kind not in VARIANTS:
        raise refuse(f"there is no variant {kind!r}", f"one of {', '.join(VARIANTS)}", suggest(kind, VARIANTS))
    return {kind: {} if given is None else given}


def _check_options(value: dict[str, Variant]) -> dict[str, Variant]:
    ((kind, variant),) = value.items()
    every = {option for options in _OPTIONS.values() for option in options}
    for name in sorted(variant.model_fields_set & every):
        if name not in _OPTIONS[kind]:
            raise refuse(f"{name!r} is no option of {kind}", f"one of {', '.join(_OPTIONS[kind])}", "remove it")
    return value


def label_of(kind: str, variant: Variant) -> str:
    """How a variant is told apart from others of its model."""
    return variant.name or kind


def _labels_are_unique(variants: list[dict[str, Variant]]) -> list[dict[str, Variant]]:
    labels = [label_of(kind, variant).casefold() for one in variants for kind, variant in one.items()]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise refuse(
            f"two variants are called {twice[0]!r}", "a name of its own for each", "add `name:` to one of them"
        )
    return variants


_One = Annotated[dict[Kind, Variant], Field(min_length=1, max_length=1)]
_Written = Kind | Annotated[dict[Kind, Variant | None], Field(min_length=1, max_length=1)]
Variants = Annotated[
    list[Annotated[_One, BeforeValidator(_expand, json_schema_input_type=_Written), AfterValidator(_check_options)]],
    AfterValidator(_labels_are_unique),
]
