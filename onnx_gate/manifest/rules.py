"""Tolerances and limits, as the manifest has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from onnx_gate.manifest.section import Fraction, NonNegative, Section, refuse, suggest


class Tolerance(Section):
    """Where |actual − reference| ≤ atol + rtol·|reference|, an element passes."""

    rtol: NonNegative = Field(description="relative tolerance")
    atol: NonNegative = Field(description="absolute tolerance")


def _expand_rule(value: Any) -> Any:
    if value in ("exact", "ignore"):
        return {"mode": value}
    if not isinstance(value, dict):
        raise refuse(
            "",
            "`exact`, `ignore`, or limits such as {rtol: 1e-3, atol: 1e-5}",
            suggest(value, ("exact", "ignore")),
        )
    if "mode" in value:
        raise refuse("unknown key 'mode'", "`exact` or `ignore` as a word, or limits", "write `name: exact`")
    return value


class OutputRule(Section):
    """Limits of one output; `exact` and `ignore` are short forms."""

    model_config = ConfigDict(json_schema_extra={"dependentRequired": {"rtol": ["atol"], "atol": ["rtol"]}})

    mode: SkipJsonSchema[Literal["compare", "exact", "ignore"]] = "compare"
    rtol: NonNegative | None = Field(None, description="relative tolerance; needs atol")
    atol: NonNegative | None = Field(None, description="absolute tolerance; needs rtol")
    max_mismatch: Fraction | None = Field(None, description="fraction of elements that may be out of tolerance")
    min_agreement: Fraction | None = Field(None, description="fraction of labels that must agree")
    max_abs: NonNegative | None = Field(None, description="largest absolute difference allowed")
    min_cosine: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = Field(
        None, description="smallest cosine similarity"
    )
    min_snr_db: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        None, description="smallest signal-to-noise ratio, in decibels"
    )
    min_top1: Fraction | None = Field(None, description="fraction of rows whose largest element must be the same")

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.rtol is None) != (self.atol is None):
            missing = "atol" if self.atol is None else "rtol"
            raise refuse(
                f"{missing} is missing",
                "rtol and atol, both or neither",
                f"add {missing}, 0 if you want none of it",
            )
        return self


Rule = Annotated[
    OutputRule, BeforeValidator(_expand_rule, json_schema_input_type=Literal["exact", "ignore"] | OutputRule)
]
