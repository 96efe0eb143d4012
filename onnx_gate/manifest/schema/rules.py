"""Tolerances and limits, as the manifest has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic.json_schema import SkipJsonSchema

from onnx_gate.manifest.schema.section import Fraction, NonNegative, Section, refuse
from onnx_gate.records.asked import GivenSpec, StrengthSpec
from onnx_gate.records.limits import LIMITS, Limit
from onnx_gate.wording.hints import suggest

_Limited = TypeVar("_Limited", bound=Section)


class Tolerance(Section):
    """Where |actual − reference| ≤ atol + rtol·|reference|, an element passes."""

    rtol: NonNegative = Field(description="relative tolerance")
    atol: NonNegative = Field(description="absolute tolerance")


class Given(Section):
    """What the data as given may be answered differently."""

    max_mismatch: Fraction = Field(GivenSpec.max_mismatch, description="fraction of the rows, three rows at least")


def _expand_given(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise refuse("", "true, false, or a mapping such as {max_mismatch: 0.01}")
    return value


GivenChoice = Annotated[Given | None, BeforeValidator(_expand_given, json_schema_input_type=bool | Given)]


class Strength(Section):
    """How strength is computed."""

    mutants: Annotated[int, Field(ge=1, le=10_000)] = Field(StrengthSpec.mutants, description="wrong models to try")


def _expand_strength(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise refuse("", "true, false, or a mapping such as {mutants: 100}")
    return value


StrengthChoice = Annotated[Strength | None, BeforeValidator(_expand_strength, json_schema_input_type=bool | Strength)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


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
        raise refuse(
            "unknown key 'mode'",
            "`exact` or `ignore` as a word, or limits",
            "write the word alone, such as `outputs: {y: exact}`",
        )
    return value


def with_limits(section: type[_Limited]) -> type[_Limited]:
    """A section with a key for every limit of the table, after its own keys."""
    keys: dict[str, Any] = {limit.name: _key(limit) for limit in LIMITS.values()}
    return create_model(
        section.__name__, __base__=section, __doc__=section.__doc__, __module__=section.__module__, **keys
    )


def _key(limit: Limit) -> tuple[Any, Any]:
    number = Annotated[float, Field(ge=limit.least, le=limit.most, allow_inf_nan=False)]
    return number | None, Field(None, description=limit.meaning)


def given_limits(section: Section) -> dict[str, float]:
    """The limits that a section sets, by name."""
    return {name: value for name in LIMITS if (value := getattr(section, name)) is not None}


@with_limits
class OutputRule(Section):
    """Limits of one output; `exact` and `ignore` are short forms."""

    model_config = ConfigDict(json_schema_extra={"dependentRequired": {"rtol": ["atol"], "atol": ["rtol"]}})

    mode: SkipJsonSchema[Literal["compare", "exact", "ignore"]] = "compare"
    rtol: NonNegative | None = Field(None, description="relative tolerance; needs atol")
    atol: NonNegative | None = Field(None, description="absolute tolerance; needs rtol")

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
