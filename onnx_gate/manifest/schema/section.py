"""What all parts of the manifest's schema share: sections, plain types, and our own error messages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

LARGEST_SIZE = 2**31 - 1


def refuse(message: str, expected: str, fix: str = "", *, key: bool = False) -> PydanticCustomError:
    """An error with our own message; `problems.py` adds the place, and the given value unless the message has it."""
    context = {"expected": expected, "fix": fix, "key": key}
    return PydanticCustomError("onnx_gate", "{message}", {"message": message, **context})


class Section(BaseModel):
    """Unknown keys are refused: a misspelt `tolerence:` must not loosen a gate."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=False)

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, value: Any, info: ValidationInfo) -> Any:
        # `None` means that a key was left out: `max_abs:` without a value must not mean the same.
        if value is None and cls.model_fields[str(info.field_name)].default is None:
            raise refuse("", "a value", "complete it, or remove the key")
        return value


def keys_of(section: type[BaseModel]) -> list[str]:
    """The keys of a section as in the manifest, without those that are filled in internally."""
    return [
        field.alias or name
        for name, field in section.model_fields.items()
        if not any(type(each).__name__ == "SkipJsonSchema" for each in field.metadata)
    ]


def unique(values: list[Any]) -> list[Any]:
    """Refuse a list that contains a value twice."""
    if len(set(values)) != len(values):
        raise refuse("a value is here twice", "each value once", "remove the second")
    return values


Text = Annotated[str, Field(min_length=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Names = Annotated[list[Text], Field(min_length=1)]
