"""The JSON Schema that editors use; `python -m onnx_gate.manifest.json_schema` prints it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from onnx_gate.manifest.schema import Model, Section, Settings


class Document(Section):
    """A manifest of models and tolerances for onnx-gate."""

    version: Literal[1] = Field(description="of the manifest's format")
    defaults: Settings = Field(default_factory=Settings, description="for all models")
    models: Annotated[list[Model], Field(min_length=1)] = Field(description="the models to judge")


def json_schema() -> dict[str, Any]:
    """The schema of a manifest."""
    schema = Document.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "onnx-gate manifest",
    }


def render() -> str:
    """As it is checked in."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(render(), end="")
