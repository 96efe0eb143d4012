"""The manifest's schema, as pydantic models: what editors are told and what is checked are one thing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from onnx_gate.records import EXECUTION_PROVIDERS

DTYPES = (
    *("float16", "float32", "float64", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
_SIZES = {"": 1, "B": 1}
_SIZES |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)}
_SIZES |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}


def suggest(got: Any, words: Iterable[str]) -> str:
    """`did you mean 'tolerance'?`, where something is near enough."""
    near = difflib.get_close_matches(str(got).lower(), list(words), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def refuse(message: str, expected: str, fix: str = "") -> PydanticCustomError:
    """An error in our own words; `problems.py` adds the place and what was got."""
    context = {"expected": expected, "fix": fix}
    return PydanticCustomError("onnx_gate", "{message}", {"message": message, **context})


class Section(BaseModel):
    """Unknown keys are refused: a misspelt `tolerence:` must not loosen a gate."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=False)


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Names = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class Tolerance(Section):
    """Where |actual − reference| ≤ atol + rtol·|reference|, an element passes."""

    rtol: NonNegative = Field(description="relative tolerance")
    atol: NonNegative = Field(description="absolute tolerance")


def _expand_rule(value: Any) -> Any:
    if value in ("exact", "ignore"):
        return {"mode": value}
    if isinstance(value, str):
        raise refuse(
            f"unknown rule {value!r}",
            "`exact`, `ignore`, or limits such as {rtol: 1e-3, atol: 1e-5}",
            suggest(value, ("exact", "ignore")),
        )
    if isinstance(value, dict) and "mode" in value:
        raise refuse("unknown key 'mode'", "`exact` or `ignore` as a word, or limits", "write `name: exact`")
    return value


class OutputRule(Section):
    """Limits of one output; `exact` and `ignore` are short forms."""

    mode: SkipJsonSchema[Literal["compare", "exact", "ignore"]] = "compare"
    rtol: NonNegative | None = Field(None, description="relative tolerance; needs atol")
    atol: NonNegative | None = Field(None, description="absolute tolerance; needs rtol")
    max_mismatch: Fraction | None = Field(None, description="fraction of elements that may be out of tolerance")
    min_agreement: Fraction | None = Field(None, description="fraction of labels that must agree")
    max_abs: NonNegative | None = Field(None, description="largest absolute difference allowed")
    min_cosine: Annotated[float, Field(ge=-1, le=1)] | None = Field(None, description="smallest cosine similarity")
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


def _check_dim(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise refuse("this is no dimension", "a size such as 4, or a name such as batch")
    if isinstance(value, int) and value < 1:
        raise refuse(f"{value} is no size", "a size of at least 1, or a name such as batch")
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise refuse(f"{value!r} is no name for a dimension", "letters, digits and _, such as batch or seq")
    return value


class Input(Section):
    """One input tensor."""

    dtype: Literal[DTYPES] = Field(description="element type")  # type: ignore[valid-type]
    shape: list[Annotated[int | str, BeforeValidator(_check_dim)]] = Field(
        description="sizes; a name stands for a dynamic dimension, `batch` for the batch"
    )
    range: Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=2, max_length=2)] | None = (
        Field(None, description="[smallest, largest] value to generate")
    )
    values: Annotated[list[float | int | bool | str], Field(min_length=1)] | None = Field(
        None, description="the values to choose from when generating"
    )

    @model_validator(mode="after")
    def _one_generator(self) -> Self:
        if self.range and self.values:
            raise refuse("both `range` and `values` are given", "one of them", "remove one")
        if self.range and self.range[0] > self.range[1]:
            low, high = self.range
            raise refuse(f"the range [{low:g}, {high:g}] is empty", "[smallest, largest]", "swap them")
        if self.range and self.dtype in ("string", "bool"):
            raise refuse(f"a {self.dtype} has no range", "`values`", "list the values to choose from")
        return self


def _option_text(value: Any) -> Any:
    # ONNX Runtime takes provider options as text.
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int) else value


class Provider(Section):
    """One execution provider."""

    required: Literal[True, "auto"] = Field("auto", description="true: not available is an error on any machine")
    options: dict[
        str, Annotated[str, BeforeValidator(_option_text, json_schema_input_type=str | int | float | bool)]
    ] = Field(default_factory=dict, description="ONNX Runtime's own options of this provider")
    tolerance: Tolerance | None = Field(None, description="overrides the model's on this provider")
    outputs: dict[str, Rule] = Field(default_factory=dict, description="overrides the model's rules, by output")


if TYPE_CHECKING:
    ProviderName = str
else:
    ProviderName = Literal[tuple(EXECUTION_PROVIDERS)]


def _expand_providers(value: Any) -> Any:
    if isinstance(value, list):
        names = [name for name in value if isinstance(name, str)]
        if len(names) != len(value):
            raise refuse("an entry is no name", "names such as [cpu, cuda]", "write options as a mapping: cuda: {…}")
        return {name: {} for name in names}
    if isinstance(value, dict):
        return {name: {} if options is None else options for name, options in value.items()}
    return value


Providers = Annotated[
    dict[ProviderName, Provider],
    BeforeValidator(_expand_providers, json_schema_input_type=list[ProviderName] | dict[ProviderName, Provider]),
    Field(min_length=1),
]


class Convert(Section):
    """Options of the converter."""

    opset: Annotated[int, Field(ge=7, le=50)] | None = Field(None, description="opset of the default domain")
    zipmap: bool | None = Field(None, description="scikit-learn: probabilities as a list of dicts")
    optimize: bool | None = Field(None, description="torch: let the exporter simplify the graph")


def parse_bytes(value: Any) -> Any:
    """`4GiB` → bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value) if isinstance(value, str) else None
    if not match or match[2] not in _SIZES:
        raise refuse("this is no amount of memory", "a number with a unit, such as 512MiB or 4GiB")
    return int(float(match[1]) * _SIZES[match[2]])


def _unique(values: list[Any]) -> list[Any]:
    if len(set(values)) != len(values):
        raise refuse("a value is here twice", "each value once", "remove the second")
    return values


class Settings(Section):
    """What a model may set, and `defaults` too."""

    framework: Literal["sklearn", "torch", "onnx"] | None = Field(
        None, description="may be left out where the source's file type tells"
    )
    weights: str | None = Field(None, description="safetensors, or a state dict, for a torch factory's module")
    inputs: Annotated[dict[str, Input], Field(min_length=1)] | None = Field(
        None, description="the schema of the inputs, by name"
    )
    columns: Names | None = Field(None, description="CSV columns that make up the only input")
    ignore_data: list[str] = Field(
        default_factory=list,
        description="arrays or columns of the data that are neither input nor recorded output",
    )
    batches: Annotated[list[Size], Field(min_length=1), AfterValidator(_unique)] = Field(
        default_factory=lambda: [1, 2, 7, 32], description="batch sizes to run"
    )
    dims: dict[str, Annotated[list[Size], Field(min_length=1), AfterValidator(_unique)]] = Field(
        default_factory=dict, description="values to try for named dimensions other than batch"
    )
    edges: bool = Field(False, description="also feed zeros, extremes, tiny, huge and repeated rows")
    outputs: dict[str, Rule] = Field(default_factory=dict, description="rules by ONNX output name")
    output_names: Annotated[Names, AfterValidator(_unique)] | None = Field(
        None, description="names for a torch model's outputs"
    )
    strict_dtype: bool = Field(False, description="a float of another width fails, also beside `onnx`")
    convert: Convert = Field(default_factory=Convert, description="options of the converter")
    providers: Providers = Field(default_factory=lambda: {"cpu": Provider()}, description="where to run")
    tolerance: Tolerance = Field(
        default_factory=lambda: Tolerance(rtol=1e-3, atol=1e-5),
        description="for outputs that no nearer rule names",
    )
    timeout: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = Field(
        300, description="seconds for the model as a whole"
    )
    memory: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=int | str), Field(ge=2**20)] | None = (
        Field(None, description="memory that the model may use, such as 4GiB")
    )
    allow_failure: bool = Field(False, description="report a divergence without failing the job")


def _check_id(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", value):
        raise refuse("this is no id", "letters, digits, `.`, `_` and `-`, starting with a letter or digit, at most 100")
    return value


class Model(Settings):
    """One model."""

    id: Annotated[str, AfterValidator(_check_id), Field(json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"})]
    source: Annotated[str, Field(min_length=1)] = Field(
        description="a model file, or a factory: path/to/file.py:callable or package.module:callable"
    )
    onnx: str | None = Field(None, description="validate this .onnx instead of converting")
    data: str | None = Field(
        None,
        description=".npz, .npy, .csv, a test_data_set folder, or file.py:callable; without it, generated",
    )
