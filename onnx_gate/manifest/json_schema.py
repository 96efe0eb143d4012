"""The JSON Schema that editors use; `python -m onnx_gate.manifest.json_schema` prints it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from onnx_gate.manifest.schema import Model, Settings, Version
from onnx_gate.manifest.schema.section import Section

ID = "https://raw.githubusercontent.com/onnx-gate/onnx-gate/main/onnx-gate.schema.json"
"""Where the schema is to be had."""
EXAMPLES: list[dict[str, Any]] = [
    {"version": 1, "models": [{"id": "vad", "source": "models/vad.onnx"}]},
    {
        "version": 1,
        "defaults": {"providers": ["cpu"], "tolerance": {"rtol": 1e-3, "atol": 1e-5}},
        "models": [
            {
                "id": "iris",
                "source": "models/iris.joblib",
                "inputs": {"X": {"dtype": "float32", "shape": ["batch", 4]}},
                "data": "data/iris.csv",
                "batches": [1, 7, 32],
            }
        ],
    },
]


class Document(Section):
    """A manifest of models and tolerances for onnx-gate."""

    version: Version = Field(description="of the manifest's format")
    defaults: Settings = Field(default_factory=Settings, description="for all models")
    models: Annotated[list[Model], Field(min_length=1)] = Field(description="the models to judge")


def json_schema() -> dict[str, Any]:
    """The schema of a manifest."""
    schema = _without_null(Document.model_json_schema(mode="validation"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        **schema,
        "title": "onnx-gate manifest",
        "examples": EXAMPLES,
    }


def _without_null(part: Any) -> Any:
    """A key that may be left out has no null for a value: `null` is refused."""
    if isinstance(part, list):
        return [_without_null(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: _without_null(value) for key, value in part.items()}
    if part.get("default", ...) is not None:
        return part
    del part["default"]
    kept = [choice for choice in part.pop("anyOf") if choice != {"type": "null"}]
    return {**kept[0], **part} if len(kept) == 1 else {"anyOf": kept, **part}


def render() -> str:
    """As it is checked in."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(render(), end="")
