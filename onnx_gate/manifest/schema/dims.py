"""Named dimensions: the sizes to try, or the limits from which they are chosen."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from onnx_gate.manifest.schema.section import Section, Size, refuse, unique

Sizes = Annotated[list[Size], Field(min_length=1), AfterValidator(unique)]
_SIZES: TypeAdapter[list[int]] = TypeAdapter(Sizes)


class Limits(Section):
    """The limits of a dimension; the sizes to try are chosen within them unless they are given."""

    min: Size = Field(1, description="smallest size")
    max: Size | None = Field(None, description="largest size")
    multiple: Size = Field(1, description="every size is a multiple of it")
    values: Sizes | None = Field(None, description="the sizes to try")

    @model_validator(mode="after")
    def _sizes_are_there(self) -> Self:
        if self.values is None and self.max is None:
            raise refuse("neither `max` nor `values` is given", "one of them", "add `max`, the largest size")
        if self.max is not None and not self.sizes():
            sizes = f"multiple of {self.multiple}" if self.multiple > 1 else "size"
            raise refuse(f"no {sizes} lies from {self.min} to {self.max}", "at least one", "correct the limits")
        for size in self.values or ():
            if not self._allows(size):
                raise refuse(f"{size} is not within the limits", "values within `min`, `max` and `multiple`")
        return self

    def _allows(self, size: int) -> bool:
        return size >= self.min and size % self.multiple == 0 and (self.max is None or size <= self.max)

    def sizes(self) -> list[int]:
        """The sizes to try: those given, else the shortest, the next, one in the middle and the longest."""
        if self.values is not None:
            return sorted(self.values)
        first = math.ceil(self.min / self.multiple) * self.multiple
        last = (self.max or self.min) // self.multiple * self.multiple
        middle = round(math.sqrt(first * last) / self.multiple) * self.multiple if last >= first else first
        return sorted({size for size in (first, first + self.multiple, middle, last) if first <= size <= last})


def _expand(value: Any) -> Any:
    if isinstance(value, list):
        return {"values": _SIZES.validate_python(value)}
    if not isinstance(value, dict):
        raise refuse("", "a list of sizes such as [1, 16, 128], or limits such as {min: 2, max: 512}")
    return value


Dim = Annotated[Limits, BeforeValidator(_expand, json_schema_input_type=Sizes | Limits)]


def _check_dim_name(value: str) -> str:
    if value == "batch":
        raise refuse("the batch has a key of its own", "the name of another dimension", "use `batches: […]`")
    return value


DimName = Annotated[str, AfterValidator(_check_dim_name)]
