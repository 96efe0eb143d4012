"""Precision variants: how each is made, and what it is held to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from onnx_gate.manifest.rules import Rule, Tolerance
from onnx_gate.manifest.section import Fraction, Names, NonNegative, Section, Text, refuse, suggest, unique
from onnx_gate.records import VARIANTS, OutputRule
from onnx_gate.records import Tolerance as Allowed

DEFAULTS = {
    "fp16": OutputRule(tolerance=Allowed(rtol=1e-2, atol=1e-3), min_agreement=0.99, min_snr_db=40.0),
    "int8-dynamic": OutputRule(max_mismatch=1.0, min_agreement=0.95, min_snr_db=15.0),
    "int8-static": OutputRule(max_mismatch=1.0, min_agreement=0.95, min_snr_db=15.0),
}
"""What a variant is held to where the manifest says nothing: of int8, no element for itself, but all together."""

_OPTIONS = {
    "fp16": ("keep_io", "exclude_ops", "exclude_nodes"),
    "int8-dynamic": ("per_channel", "reduce_range", "ops", "exclude_nodes"),
    "int8-static": ("per_channel", "reduce_range", "ops", "exclude_nodes", "calibrate", "data"),
}


class Variant(Section):
    """A model of lower precision, made of the converted one and held to limits of its own."""

    kind: SkipJsonSchema[Literal["fp16", "int8-dynamic", "int8-static"]] = "fp16"
    name: Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$")] | None = Field(
        None, description="told apart by it in the reports; the kind unless given"
    )
    data: Text | None = Field(None, description="int8-static: data to calibrate with; else the model's own feeds")
    tolerance: Tolerance | None = Field(None, description="for all outputs of the variant")
    outputs: dict[str, Rule] = Field(default_factory=dict, description="rules of the variant, by output")
    max_mismatch: Fraction | None = Field(None, description="fraction of elements that may be out of tolerance")
    min_agreement: Fraction | None = Field(None, description="fraction of labels that must agree")
    min_cosine: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = Field(
        None, description="smallest cosine similarity"
    )
    min_snr_db: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        None, description="smallest signal-to-noise ratio, in decibels"
    )
    min_top1: Fraction | None = Field(None, description="fraction of rows whose largest element must be the same")
    max_abs: NonNegative | None = Field(None, description="largest absolute difference allowed")
    keep_io: bool | None = Field(None, description="fp16: inputs and outputs stay float32; true by default")
    per_channel: bool | None = Field(None, description="int8: a scale for each channel of the weights")
    reduce_range: bool | None = Field(None, description="int8: 7-bit weights, for CPUs without VNNI")
    ops: Names | None = Field(None, description="int8: the operators to quantise")
    exclude_ops: Names | None = Field(None, description="fp16: operators that stay float32")
    exclude_nodes: Names | None = Field(None, description="nodes that stay float32")
    calibrate: Literal["minmax", "entropy", "percentile"] | None = Field(
        None, description="int8-static: how ranges are found; minmax by default"
    )

    @property
    def label(self) -> str:
        """How it is told apart from others of the model."""
        return self.name or self.kind

    @property
    def options(self) -> dict[str, Any]:
        """Of the tool that makes it."""
        names = ("keep_io", "per_channel", "reduce_range", "ops", "exclude_ops", "exclude_nodes", "calibrate")
        return {name: given for name in names if (given := getattr(self, name)) is not None}


def _expand(value: Any) -> Any:
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, dict) or len(value) != 1:
        raise refuse("", f"one of {', '.join(VARIANTS)}, or a mapping such as fp16: {{…}}")
    (kind, given), *_ = value.items()
    if kind not in VARIANTS:
        raise refuse(f"there is no variant {kind!r}", f"one of {', '.join(VARIANTS)}", suggest(kind, VARIANTS))
    if given is not None and not isinstance(given, dict):
        raise refuse("", f"limits and options, such as {kind}: {{min_snr_db: 30}}")
    given = given or {}
    for name in ("kind", *(option for options in _OPTIONS.values() for option in options)):
        if name in given and name not in _OPTIONS[kind]:
            raise refuse(f"{name!r} is no option of {kind}", f"one of {', '.join(_OPTIONS[kind])}", "remove it")
    return {"kind": kind, **given}


def _names_are_unique(variants: list[Variant]) -> list[Variant]:
    unique([variant.label.casefold() for variant in variants])
    return variants


_Kind = Literal["fp16", "int8-dynamic", "int8-static"]
_Written = _Kind | Annotated[dict[_Kind, Variant | None], Field(min_length=1, max_length=1)]
Variants = Annotated[
    list[Annotated[Variant, BeforeValidator(_expand, json_schema_input_type=_Written)]],
    Field(min_length=1),
    AfterValidator(_names_are_unique),
]
