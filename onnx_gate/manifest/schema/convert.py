"""The options of the converters, as the frameworks describe them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from onnx_gate.frameworks.info import Option, OptionKind
from onnx_gate.frameworks.registry import convert_options
from onnx_gate.manifest.schema.section import Names, Section, refuse
from onnx_gate.manifest.schema.tensors import DTYPES, Shape

Opset = Annotated[int, Field(ge=1, le=50)]
MainOpset = Annotated[int, Field(ge=7, le=50)]


class FinalType(Section):
    """The type that an output is to have."""

    dtype: Literal[DTYPES] = Field(description="element type")  # type: ignore[valid-type]
    shape: Shape = Field(description="sizes; names for dynamic ones")


def _check_choice(choices: tuple[str, ...], value: Any) -> Any:
    if not isinstance(value, bool) and value not in choices:
        raise refuse("", f"true, false or {' or '.join(choices)}")
    return value


def _switch_or_choice(option: Option) -> Any:
    shown: Any = bool | Literal[option.choices]
    return Annotated[bool | str, BeforeValidator(partial(_check_choice, option.choices), json_schema_input_type=shown)]


_TYPES: dict[OptionKind, Callable[[Option], Any]] = {
    "opset": lambda option: MainOpset,
    "opsets": lambda option: Annotated[dict[str, Opset], Field(min_length=1)],
    "switch": lambda option: bool,
    "choice": lambda option: Literal[option.choices],
    "switch-or-choice": _switch_or_choice,
    "names": lambda option: Names,
    "settings-by-name": lambda option: dict[str, dict[str, Any]],
    "types-by-name": lambda option: Annotated[dict[str, FinalType], Field(min_length=1)],
}
"""What the manifest takes for each kind of option."""


def _field(option: Option) -> Any:
    return _TYPES[option.kind](option) | None, Field(None, description=option.description)


if TYPE_CHECKING:

    class Convert(Section):
        """Options of the converter."""

else:
    Convert = create_model(
        "Convert",
        __base__=Section,
        __doc__="Options of the converter.",
        __module__=__name__,
        **{name: _field(option) for name, option in convert_options().items()},
    )
