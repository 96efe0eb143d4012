"""The JSON Schema that editors use; `python -m onnx_gate.manifest.json_schema` prints it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from onnx_gate.frameworks.registry import REGISTRY
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

EXAMPLES_OF_KEYS: dict[str, list[Any]] = {
    "id": ["wine"],
    "source": ["models/wine.joblib", "net.py:build", "models/vad.onnx"],
    "onnx": ["models/wine.onnx"],
    "framework": list(REGISTRY)[:2],
    "weights": ["weights/net.bin"],
    "data": ["data/wine.csv", "data/rows.npz", "rows.py:make"],
    "inputs": [
        {"X": {"dtype": "float32", "shape": ["batch", 13]}},
        {"tokens": {"dtype": "int64", "shape": ["batch", "seq"], "range": [0, 29999]}},
    ],
    "columns": [["age", "income"]],
    "ignore_data": [["label"]],
    "feed": [{"X": "features"}],
    "batches": [[1, 2, 7, 32]],
    "dims": [{"seq": [1, 16, 128]}, {"seq": {"max": 512, "multiple": 8}}],
    "edges": [True, ["zeros", "huge"]],
    "tolerance": [{"rtol": 1e-3, "atol": 1e-5}],
    "outputs": [
        {"label": "exact", "probabilities": {"rtol": 0, "atol": 1e-5}},
        {"embedding": {"min_cosine": 0.9999}, "debug": "ignore"},
    ],
    "providers": [["cpu", "cuda"], {"cpu": None, "cuda": {"required": True}}],
    "variants": [["fp16", {"int8-static": {"data": "data/calibration.npz"}}]],
    "convert": [{"opset": 18}],
    "session": [{"optimization": "basic"}],
    "strength": [{"mutants": 100}, False],
    "min_strength": [0.9],
    "latency": [True],
    "min_speedup": [1.2],
    "repro": [{"max_size": "50MiB", "data": True}, False],
    "timeout": [300],
    "memory": ["4GiB"],
    "allow_failure": [True],
}
"""Values of the main keys, which editors offer."""


class Document(Section):
    """A manifest of models and tolerances for onnx-gate."""

    version: Version = Field(description="of the manifest's format")
    defaults: Settings = Field(default_factory=Settings, description="for all models")
    models: Annotated[list[Model], Field(min_length=1)] = Field(description="the models to judge")


def json_schema() -> dict[str, Any]:
    """The schema of a manifest."""
    schema = _without_null(Document.model_json_schema(mode="validation"))
    for part in ("Model", "Settings"):
        keys = schema["$defs"][part]["properties"]
        keys |= {key: {**keys[key], "examples": held} for key, held in EXAMPLES_OF_KEYS.items() if key in keys}
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
