"""The JSON Schema of results.json, for other tools; `python -m onnx_gate.publish.results_schema` prints it."""

from __future__ import annotations

import json
from typing import Any

from onnx_gate.gate.verdict import compared, judge_checks, judge_run
from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import ConvertInfo, OutputDiff, Worst
from onnx_gate.records.result import Coverage, Environment, GateResult, ModelResult, ProviderState
from onnx_gate.reports.json import adapter
from onnx_gate.reports.json import render as render_result

ID = "https://raw.githubusercontent.com/onnx-gate/onnx-gate/main/onnx-gate-results.schema.json"
"""The address of the schema."""

_CHECK = compared(
    OutputDiff(
        provider="cpu",
        case="data",
        output="speech",
        total=21,
        dtype="float32",
        shape=(7, 3),
        lowest=0.01,
        highest=0.98,
        max_abs=6.68e-8,
        mean_abs=1e-8,
        max_rel=2.7e-7,
        mean_rel=1e-7,
        rmse=2e-8,
        cosine=1.0,
        snr_db=120.0,
        worst=Worst(index=(3, 1), reference=0.25, actual=0.2500000668),
        tolerance=Tolerance(rtol=1e-3, atol=1e-5),
        used=0.000257,
        calls=1,
        rows=7,
        samples=7,
        fed=("7×13",),
        seconds=0.012,
    )
)
_VERDICT, _ = judge_checks((_CHECK,))
_MODEL = ModelResult(
    id="vad",
    line=3,
    framework="onnx",
    verdict=_VERDICT,
    seconds=0.8,
    convert=ConvertInfo(seconds=0.0, opset=18, ir_version=10, nodes=4, size_bytes=1024, shipped=True),
    checks=(_CHECK,),
    coverage=Coverage(samples=7, elements=21, shapes=1, cases=1, providers=("cpu",)),
    outputs=("speech",),
    log="logs/vad.log",
    headroom=0.000257,
)
_VERDICT, _EXIT_CODE = judge_run((_MODEL,))
EXAMPLE = GateResult(
    verdict=_VERDICT,
    exit_code=_EXIT_CODE,
    complete=True,
    started_at="2026-03-01T12:00:00+00:00",
    seconds=2.4,
    manifest="onnx-gate.yml",
    environment=Environment(
        onnx_gate="0.1.0",
        python="3.12.9",
        platform="Linux x86_64",
        cpu="AMD EPYC",
        ort_threads=1,
        onnxruntime="1.23.0",
        versions={"onnx": "1.19.0", "numpy": "2.3.1"},
        providers={"cpu": ProviderState(available=True)},
    ),
    models=(_MODEL,),
)
"""A run of one model that passed, with one of its checks."""


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
    examples = {"examples": [json.loads(render_result(EXAMPLE))]}
    return {**head, **{key: value for key, value in schema.items() if key != "title"}, **examples}


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
