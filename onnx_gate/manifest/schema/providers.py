"""Execution providers, as the manifest has them: names, options, limits on placement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from onnx_gate.manifest.schema.rules import Rule, Tolerance
from onnx_gate.manifest.schema.section import Fraction, Names, Section, Text, refuse, unique
from onnx_gate.manifest.schema.session import OptionText, Session, Speedup
from onnx_gate.providers import PROVIDERS, SHORT_NAMES, ProviderInfo, provider_info, short_name
from onnx_gate.wording.hints import suggest

_PLUGIN = r"[A-Za-z][A-Za-z0-9_-]{0,63}"


def _check_required(value: Any) -> Any:
    if value is not True and value != "auto":
        raise refuse("", "true or auto", "remove it: auto is the default" if value is False else "")
    return value


class Provider(Section):
    """One execution provider."""

    # Filled in from the key that it stands under.
    name: SkipJsonSchema[str] = ""
    required: Annotated[Literal[True, "auto"], BeforeValidator(_check_required)] = Field(
        "auto", description="true: not available is an error on any machine"
    )
    library: Text | None = Field(
        None, description="a plug-in library that brings the provider: a file, or a Python package that has one"
    )
    options: dict[str, OptionText] = Field(
        default_factory=dict, description="ONNX Runtime's own options of this provider"
    )
    session: Session = Field(default_factory=Session, description="overrides the model's session options")
    min_placed: Fraction | None = Field(None, description="fraction of the nodes that have to be on the provider")
    forbid_elsewhere: Annotated[Names, AfterValidator(unique)] | None = Field(
        None, description="operators that must not run on another provider, such as [Conv, MatMul]"
    )
    tolerance: Tolerance | None = Field(None, description="overrides the model's on this provider")
    outputs: dict[str, Rule] = Field(default_factory=dict, description="overrides the model's rules, by output")
    min_speedup: Speedup | None = Field(None, description="overrides the model's on this provider")

    @property
    def doubtful_options(self) -> dict[str, tuple[str, str]]:
        """Message and fix for each option that is misspelt or newer than our list; a library has its own options."""
        info = provider_info(short_name(self.name))
        unknown = [] if self.library else info.unknown_options(self.options)
        return {name: (f"onnx-gate knows no option {name!r} of {info.name}", _meant(name, info)) for name in unknown}

    @model_validator(mode="after")
    def _known_provider(self) -> Self:
        if self.name not in SHORT_NAMES and not self.library:
            raise _unknown(self.name, key=True)
        if short_name(self.name) == "cpu" and self.library:
            raise refuse(
                "the CPU provider is ONNX Runtime's own", "a library under another name", "rename it", key=True
            )
        return self


if TYPE_CHECKING:
    ProviderName = str
else:
    ProviderName = Literal[tuple(SHORT_NAMES)]
_PluginName = Annotated[str, Field(pattern=f"^{_PLUGIN}$")]


def _meant(option: str, info: ProviderInfo) -> str:
    if not info.options:
        return "remove it; threads, optimisation and the like are set under `session`"
    return suggest(option, info.options) or f"see the options of {info.name} in ONNX Runtime's documentation"


def _unknown(name: str, *, key: bool = False) -> PydanticCustomError:
    own = f"for a provider of your own, write `providers: {{{name}: {{library: path/to/lib.so}}}}`"
    fix = suggest(name, SHORT_NAMES) or (own if re.fullmatch(_PLUGIN, name) else "write one of these names")
    return refuse(f"unknown provider {name!r}", f"one of {', '.join(PROVIDERS)}", fix, key=key)


def _check_name(value: Any) -> Any:
    if not isinstance(value, str):
        raise refuse("", "a name such as cuda", "write options as a mapping: cuda: {…}")
    if value not in SHORT_NAMES:
        raise _unknown(value)
    return value


def _each_once(names: list[str]) -> list[str]:
    unique([short_name(name) for name in names])
    return names


_NAMED: TypeAdapter[list[str]] = TypeAdapter(
    Annotated[list[Annotated[str, BeforeValidator(_check_name)]], Field(min_length=1), AfterValidator(_each_once)]
)


def _expand(value: Any) -> Any:
    if isinstance(value, list):
        return {name: {"name": name} for name in _NAMED.validate_python(value)}
    if isinstance(value, dict):
        _each_once([str(name) for name in value])
        if "graph" in value:
            # What is found in the file itself is reported under it.
            raise refuse("the name 'graph' is taken", "another name", "choose another for your provider")
        return {name: _named(name, given) for name, given in value.items()}
    fix = f"write `providers: [{value}]`" if value in SHORT_NAMES else ""
    raise refuse("", "names such as [cpu, cuda], or a mapping such as cuda: {…}", fix)


def _named(name: Any, given: Any) -> Any:
    if given is None:
        return {"name": name}
    if isinstance(given, dict) and "name" in given:
        raise refuse("unknown key 'name'", "options of a provider", "remove it: the key above is its name")
    return {**given, "name": name} if isinstance(given, dict) else given


def _by_name(schema: dict[str, Any]) -> None:
    """For editors: any name that isn't in the table needs its library."""
    provider = schema.pop("patternProperties", {}).popitem()[1]
    schema["patternProperties"] = {f"^({'|'.join(SHORT_NAMES)})$": provider}
    schema["additionalProperties"] = {"allOf": [*provider["anyOf"][:1], {"required": ["library"]}]}


Providers = Annotated[
    dict[_PluginName, Provider],
    Field(min_length=1),
    BeforeValidator(
        _expand,
        json_schema_input_type=Annotated[list[ProviderName], Field(min_length=1)]
        | Annotated[dict[_PluginName, Provider | None], Field(min_length=1, json_schema_extra=_by_name)],
    ),
]
