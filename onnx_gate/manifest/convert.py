"""The options of the converters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from onnx_gate.manifest.section import Names, Section, refuse
from onnx_gate.manifest.tensors import DTYPES, Shape

Opset = Annotated[int, Field(ge=1, le=50)]
MainOpset = Annotated[int, Field(ge=7, le=50)]


_ZipMap = bool | Literal["columns"]


def _check_zipmap(value: Any) -> Any:
    if not isinstance(value, bool) and value != "columns":
        raise refuse("", "true, false or columns")
    return value


class FinalType(Section):
    """The type that an output is to have."""

    dtype: Literal[DTYPES] = Field(description="element type")  # type: ignore[valid-type]
    shape: Shape = Field(description="sizes; names for dynamic ones")


class Convert(Section):
    """Options of the converter."""

    opset: MainOpset | None = Field(None, description="opset of the default domain")
    opsets: Annotated[dict[str, Opset], Field(min_length=1)] | None = Field(
        None, description="opsets of other domains, such as {ai.onnx.ml: 3}"
    )
    zipmap: Annotated[bool | str, BeforeValidator(_check_zipmap, json_schema_input_type=_ZipMap)] | None = Field(
        None, description="scikit-learn: probabilities as a list of dicts, or an output a class"
    )
    options: dict[str, dict[str, Any]] | None = Field(
        None, description="scikit-learn: skl2onnx's options, by class or by the name of a pipeline's step"
    )
    final_types: Annotated[dict[str, FinalType], Field(min_length=1)] | None = Field(
        None, description="scikit-learn: names and types that the outputs are to have"
    )
    black_op: Names | None = Field(None, description="scikit-learn: operators that may not be used")
    white_op: Names | None = Field(None, description="scikit-learn: the only operators that may be used")
    exporter: Literal["dynamo", "torchscript"] | None = Field(
        None, description="torch: which exporter; dynamo unless the source is a TorchScript archive"
    )
    optimize: bool | None = Field(None, description="torch: let the dynamo exporter simplify the graph")


FRAMEWORKS_OF = {
    "opset": ("sklearn", "torch", "lightgbm", "xgboost", "catboost"),
    "opsets": ("sklearn", "lightgbm", "xgboost"),
    "zipmap": ("sklearn", "lightgbm", "xgboost"),
    "options": ("sklearn",),
    "final_types": ("sklearn",),
    "black_op": ("sklearn",),
    "white_op": ("sklearn",),
    "exporter": ("torch",),
    "optimize": ("torch",),
}
"""Which frameworks have a use for an option."""
