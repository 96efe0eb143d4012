"""The schema of a model's inputs."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from onnx_gate.manifest.schema.section import LARGEST_SIZE, Section, Size, refuse, unique

DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
# For float64, half of its largest number: the distance between the ends of a range must be a float64, too.
_LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4028234663852886e38, "float64": 8.98e307}
_DIM = "[A-Za-z_][A-Za-z0-9_]*"
_Dim = Size | Annotated[str, Field(pattern=f"^{_DIM}$")]


def _check_dim(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise refuse("this is no dimension", "a size such as 4, or a name such as batch")
    if isinstance(value, int) and not 1 <= value <= LARGEST_SIZE:
        raise refuse(f"{value} is no size", f"a size from 1 to {LARGEST_SIZE}, or a name such as batch")
    if isinstance(value, str) and not re.fullmatch(_DIM, value):
        raise refuse(f"{value!r} is no name for a dimension", "letters, digits and _, such as batch or seq")
    return value


def _check_value(value: Any) -> Any:
    if not isinstance(value, float | int | str):
        raise refuse("", "a number, a text, true or false")
    return value


def _integer_limits(dtype: str) -> tuple[int, int] | None:
    """The smallest and the largest number of an integer dtype; None for other dtypes."""
    match = re.fullmatch(r"(u?)int(\d+)", dtype)
    if not match:
        return None
    bits = int(match[2])
    return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _is_range_of(low: float, high: float, dtype: str) -> bool:
    if limits := _integer_limits(dtype):
        return math.ceil(max(low, limits[0])) <= math.floor(min(high, limits[1]))
    return max(abs(low), abs(high)) <= _LARGEST[dtype]


def _fits(value: float | int | bool | str, dtype: str) -> bool:
    if dtype == "string" or isinstance(value, str):
        return dtype == "string" and isinstance(value, str)
    if dtype == "bool":
        return value in (0, 1)
    if limits := _integer_limits(dtype):
        return value == value // 1 and limits[0] <= value <= limits[1]
    return not math.isfinite(value) or abs(value) <= _LARGEST[dtype]


Shape = list[Annotated[int | str, BeforeValidator(_check_dim, json_schema_input_type=_Dim)]]


class Input(Section):
    """One input tensor."""

    dtype: Literal[DTYPES] = Field(description="element type")  # type: ignore[valid-type]
    shape: Shape = Field(description="sizes; a name stands for a dynamic dimension, `batch` for the batch")
    range: Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=2, max_length=2)] | None = (
        Field(None, description="[smallest, largest] value to generate")
    )
    values: (
        Annotated[list[Annotated[float | int | bool | str, BeforeValidator(_check_value)]], Field(min_length=1)] | None
    ) = Field(None, description="the values to choose from when generating")
    allow: Annotated[list[Literal["nan", "inf"]], Field(min_length=1), AfterValidator(unique)] | None = Field(
        None, description="what is no number and has to be answered all the same: edge cases feed it"
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
        if self.range and not _is_range_of(self.range[0], self.range[1], self.dtype):
            raise refuse(f"the range is outside what {self.dtype} can hold", "a range of numbers that the dtype has")
        if self.allow and not self.dtype.startswith(("float", "bfloat")):
            raise refuse(f"{self.dtype} has neither NaN nor infinity", "`allow` for floats only", "remove `allow`")
        for value in self.values or ():
            if not _fits(value, self.dtype):
                raise refuse(f"the value {value!r} is no {self.dtype}", "values of the input's dtype")
        return self
