"""What all parts of the manifest's schema share: sections, plain types, errors in our own words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

_OTHER_WORDS = {
    "gpu": "cuda",
    **dict.fromkeys(("fp16", "half", "f16"), "float16"),
    "bf16": "bfloat16",
    **dict.fromkeys(("fp32", "float", "single", "f32"), "float32"),
    **dict.fromkeys(("fp64", "double", "f64"), "float64"),
    **dict.fromkeys(("int", "long"), "int64"),
    **dict.fromkeys(("str", "text", "object"), "string"),
    **dict.fromkeys(("boolean", "bool_"), "bool"),
    "byte": "uint8",
}
"""What others call the same."""
LARGEST_SIZE = 2**31 - 1


def nearest(got: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant."""
    lowered, plain = {word.lower(): word for word in words}, got.lower()
    # Types come with the name of their package, as in `np.float32`.
    bare = plain.rpartition(".")[2]
    if (known := _OTHER_WORDS.get(bare)) in lowered:
        return lowered[known]
    for text in dict.fromkeys((plain, bare)):
        if near := difflib.get_close_matches(text, lowered, n=1, cutoff=0.6):
            return lowered[near[0]]
    return None


def suggest(got: Any, words: Iterable[str]) -> str:
    """`did you mean 'tolerance'?`, where something is near enough."""
    near = nearest(got, words) if isinstance(got, str) else None
    return f"did you mean {near!r}?" if near else ""


def refuse(message: str, expected: str, fix: str = "", *, key: bool = False) -> PydanticCustomError:
    """An error in our own words; `problems.py` adds the place and what was got, unless the message tells."""
    context = {"expected": expected, "fix": fix, "key": key}
    return PydanticCustomError("onnx_gate", "{message}", {"message": message, **context})


class Section(BaseModel):
    """Unknown keys are refused: a misspelt `tolerence:` must not loosen a gate."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=False)

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, value: Any, info: ValidationInfo) -> Any:
        # `None` is how we note that a key was left out: `max_abs:` with nothing behind it must not mean the same.
        if value is None and cls.model_fields[str(info.field_name)].default is None:
            raise refuse("", "a value", "complete it, or remove the key")
        return value


def keys_of(section: type[BaseModel]) -> list[str]:
    """The keys of a section, as the manifest has them; what is filled in by ourselves is none."""
    return [
        field.alias or name
        for name, field in section.model_fields.items()
        if not any(type(each).__name__ == "SkipJsonSchema" for each in field.metadata)
    ]


def unique(values: list[Any]) -> list[Any]:
    """For lists in which a value makes sense once."""
    if len(set(values)) != len(values):
        raise refuse("a value is here twice", "each value once", "remove the second")
    return values


Text = Annotated[str, Field(min_length=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Names = Annotated[list[Text], Field(min_length=1)]
