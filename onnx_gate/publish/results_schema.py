"""The JSON Schema of results.json, for other tools; `python -m onnx_gate.publish.results_schema` prints it."""

from __future__ import annotations

import json
from typing import Any

from onnx_gate.reports.json import adapter

ID = "https://raw.githubusercontent.com/onnx-gate/onnx-gate/main/onnx-gate-results.schema.json"
"""The address of the schema."""


def json_schema() -> dict[str, Any]:
    """The schema of a results.json, in draft 2020-12."""
    schema = _with_words_for_numbers(adapter().json_schema(mode="serialization"))
    for part in (schema, *schema["$defs"].values()):
        # Readers ignore what they don't know: later versions of this schema may add fields, and fill reserved ones.
        part.pop("additionalProperties", None)
        for name, field in part.get("properties", {}).items():
            if field.get("type") == "null":
                part["properties"][name] = {key: value for key, value in field.items() if key != "type"}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, "title": "onnx-gate results"}
    return {**head, **{key: value for key, value in schema.items() if key != "title"}}


def _with_words_for_numbers(part: Any) -> Any:
    """The schema with words allowed for numbers that JSON can't write."""
    if isinstance(part, list):
        return [_with_words_for_numbers(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "number":
        return {"anyOf": [part, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
    return {key: _with_words_for_numbers(value) for key, value in part.items()}


def render() -> str:
    """The schema as the text that is checked in."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(render(), end="")
