"""The manifest's schema, as pydantic models: what editors are told and what is checked are one thing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from onnx_gate.frameworks.registry import REGISTRY, describe_key
from onnx_gate.manifest.schema.convert import Convert
from onnx_gate.manifest.schema.dims import Dim, DimName
from onnx_gate.manifest.schema.providers import Provider, Providers
from onnx_gate.manifest.schema.rules import Given, GivenChoice, Rule, Share, Strength, StrengthChoice, Tolerance
from onnx_gate.manifest.schema.section import Fraction, Names, Section, Size, Text, refuse, unique
from onnx_gate.manifest.schema.session import LatencyChoice, Session, Speedup
from onnx_gate.manifest.schema.tensors import Input
from onnx_gate.manifest.schema.variants import Variants
from onnx_gate.records.asked import ReproSpec
from onnx_gate.vocabulary import EDGES

_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_SIZES = {"": 1, "B": 1}
_SIZES |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)}
_SIZES |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}
_MEMORY = rf"([0-9]+(?:\.[0-9]+)?) ?({'|'.join(_SIZES)})"


def _check_version(value: Any) -> Any:
    # To Python, 1 is also 1.0 and true.
    if type(value) is not int or value != 1:
        raise refuse("", "1, the only version there is", "remove the quotes" if value == "1" else "write `version: 1`")
    return value


Version = Annotated[Literal[1], BeforeValidator(_check_version)]


_Memory = int | Annotated[str, Field(pattern=f"^{_MEMORY}$")]


def parse_bytes(value: Any) -> Any:
    """`4GiB` → bytes."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    match = re.fullmatch(_MEMORY, text)
    if not match:
        raise refuse("this is no amount of memory", "a number with a unit, such as 512MiB or 4GiB")
    amount = float(match[1]) * _SIZES[match[2]]
    if not 2**20 <= amount <= 2**50:
        raise refuse("", "from 1MiB to 1PiB, such as 4GiB")
    return int(amount)


class Repro(Section):
    """The folder that shows a failure again."""

    max_size: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=_Memory)] = Field(
        ReproSpec.max_size, description="the largest size of all its files together, such as 50MiB"
    )
    data: bool = Field(
        ReproSpec.data,
        description="whether values of `data` may be in it and in the reports; otherwise only row numbers are",
    )


def _expand_repro(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise refuse("", "true, false, or a mapping such as {max_size: 50MiB, data: false}")
    return value


ReproChoice = Annotated[Repro | None, BeforeValidator(_expand_repro, json_schema_input_type=bool | Repro)]


if TYPE_CHECKING:
    Edge = str
else:
    Edge = Literal[EDGES]
_Edges = Annotated[list[Edge], Field(min_length=1), AfterValidator(unique)]
_LISTED: TypeAdapter[list[str]] = TypeAdapter(_Edges)


def _check_edges(value: Any) -> Any:
    if isinstance(value, list):
        return _LISTED.validate_python(value)
    if not isinstance(value, bool):
        fix = "remove the quotes" if value in ("true", "false") else f"write [{value}]" if value in EDGES else ""
        raise refuse("", "true, false, or a list of edge cases such as [zeros, huge]", fix)
    return value


class Settings(Section):
    """What a model may set, and `defaults` too."""

    framework: Literal[tuple(REGISTRY)] | None = Field(  # type: ignore[valid-type]
        None, description="may be left out if the type of the source file says it"
    )
    weights: Text | None = Field(None, description=describe_key("weights"))
    inputs: Annotated[dict[str, Input | None], Field(min_length=1)] | None = Field(
        None, description=f"the schema of the inputs, by name; {describe_key('null_inputs')}"
    )
    columns: Names | None = Field(None, description="columns of a .csv or .parquet that make up the only input")
    ignore_data: list[str] = Field(
        default_factory=list,
        description="arrays or columns of the data that are neither input nor recorded output",
    )
    batches: Annotated[list[Size], Field(min_length=1), AfterValidator(unique)] = Field(
        default_factory=lambda: [1, 2, 7, 32], description="batch sizes to run"
    )
    dims: dict[DimName, Dim] = Field(
        default_factory=dict, description="sizes to try for named dimensions other than batch, or their limits"
    )
    edges: Annotated[bool | list[str], BeforeValidator(_check_edges, json_schema_input_type=bool | _Edges)] = Field(
        False, description="also feed edge cases: all that fit the schema, or those listed"
    )
    outputs: dict[str, Rule] = Field(default_factory=dict, description="rules by ONNX output name")
    output_names: Annotated[Names, AfterValidator(unique)] | None = Field(
        None, description=describe_key("output_names")
    )
    strict_dtype: bool = Field(False, description="a float or integer of another width fails, also beside `onnx`")
    convert: Convert = Field(default_factory=Convert, description="options of the converter")
    # pydantic's own classes have an attribute `register`.
    register_hook: Text | None = Field(None, alias="register", description=describe_key("register"))
    ort_custom_ops: Text | None = Field(None, description="a library of custom operators for ONNX Runtime")
    trusted: list[Text] = Field(default_factory=list, description=describe_key("trusted"))
    variants: Variants | None = Field(
        None, description="models of lower precision to make of the converted one and judge as well"
    )
    providers: Providers = Field(default_factory=lambda: {"cpu": Provider(name="cpu")}, description="where to run")
    session: Session = Field(default_factory=Session, description="options of ONNX Runtime's sessions")
    min_placed: Fraction | None = Field(
        None, description="fraction of the nodes that have to be on each provider but the CPU"
    )
    forbid_elsewhere: Annotated[Names, AfterValidator(unique)] | None = Field(
        None, description="operators that must not run on another provider than the one asked for"
    )
    tolerance: Tolerance = Field(
        default_factory=lambda: Tolerance(rtol=1e-3, atol=1e-5),
        description="for outputs that no nearer rule names",
    )
    given: GivenChoice = Field(
        default_factory=Given,
        description="how many rows may differ from the source's answers to the data before it was rounded to the "
        "schema's dtype; false only notes them",
    )
    strength: StrengthChoice = Field(
        default_factory=Strength,
        description="how many wrong models to make of the judged one, to measure which share of them the inputs "
        "catch; false makes none",
    )
    min_strength: Share | None = Field(
        None, description="the share of wrong models that the inputs have to catch, such as 0.9"
    )
    latency: LatencyChoice = Field(
        None, description="also measure how long both sides take; this is on if min_speedup is set"
    )
    min_speedup: Speedup | None = Field(
        None, description="how many times as fast as the source every provider has to be, at every batch size"
    )
    repro: ReproChoice = Field(
        default_factory=Repro,
        description="the folder repro/<id>, which reproduces a divergence or an error of the runtime; false makes none",
    )
    timeout: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = Field(
        300, description="seconds for the model as a whole"
    )
    memory: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=_Memory)] | None = Field(
        None, description="memory that the model may use, such as 4GiB"
    )
    allow_failure: bool = Field(False, description="report a divergence without failing the job")


def _check_id(value: str) -> str:
    if not re.fullmatch(_ID, value):
        raise refuse("this is no id", "letters, digits, `.`, `_` and `-`, starting with a letter or digit, at most 100")
    return value


class Model(Settings):
    """One model."""

    id: Annotated[str, AfterValidator(_check_id)] = Field(
        description="unique; upper and lower case count as the same", json_schema_extra={"pattern": f"^{_ID}$"}
    )
    source: Text = Field(description="a model file, or a factory: path/to/file.py:callable or package.module:callable")
    onnx: Text | None = Field(None, description="validate this .onnx instead of converting")
    data: Text | None = Field(
        None,
        description=".npz, .npy, .csv, .parquet, a folder of .npz or .npy files or of test_data_sets, or "
        "file.py:callable; without it, generated",
    )
    feed: Annotated[dict[str, Text], Field(min_length=1)] | None = Field(
        None, description="which array or column of the data feeds an input, where they have different names"
    )

    @property
    def speed_limited(self) -> bool:
        """Whether it, or one of its providers, has to be so many times as fast as the source."""
        return self.min_speedup is not None or any(given.min_speedup is not None for given in self.providers.values())
