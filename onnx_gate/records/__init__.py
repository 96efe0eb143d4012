"""Every frozen record that crosses a border between rooms.

Records that come back from a worker, or from a results.json, are validated by pydantic against these types;
`__pydantic_config__` makes it write NaN and the infinities as the strings that the contract names. They are plain
dataclasses, so that importing them costs nothing.
"""

from onnx_gate.records.asked import (
    DimLimits,
    InputSpec,
    Location,
    Manifest,
    ModelSpec,
    OutputRule,
    ProviderSpec,
    RunOptions,
    SessionSpec,
    Tolerance,
    VariantSpec,
)
from onnx_gate.records.found import (
    Actual,
    Answer,
    Confusion,
    ConvertInfo,
    Elsewhere,
    Expectation,
    Failure,
    Graph,
    GraphValue,
    OutputDiff,
    Placement,
    Triage,
    Worst,
)
from onnx_gate.records.providers import EXECUTION_PROVIDERS, PROVIDER_OPTIONS, SHORT_NAMES
from onnx_gate.records.result import Check, Coverage, Environment, GateResult, ModelResult, Part, ProviderState
from onnx_gate.records.scope import AskedModel, Scope
from onnx_gate.records.words import (
    EDGES,
    FRAMEWORKS,
    JSON,
    ORT_THREADS,
    VARIANTS,
    Absence,
    Cause,
    Config,
    Isolation,
    Scalar,
    Status,
)
from onnx_gate.records.workflow import CommentMode, Workflow

__all__ = [
    "EDGES",
    "EXECUTION_PROVIDERS",
    "FRAMEWORKS",
    "JSON",
    "ORT_THREADS",
    "PROVIDER_OPTIONS",
    "SHORT_NAMES",
    "VARIANTS",
    "Absence",
    "Actual",
    "Answer",
    "AskedModel",
    "Cause",
    "Check",
    "CommentMode",
    "Config",
    "Confusion",
    "ConvertInfo",
    "Coverage",
    "DimLimits",
    "Elsewhere",
    "Environment",
    "Expectation",
    "Failure",
    "GateResult",
    "Graph",
    "GraphValue",
    "InputSpec",
    "Isolation",
    "Location",
    "Manifest",
    "ModelResult",
    "ModelSpec",
    "OutputDiff",
    "OutputRule",
    "Part",
    "Placement",
    "ProviderSpec",
    "ProviderState",
    "RunOptions",
    "Scalar",
    "Scope",
    "SessionSpec",
    "Status",
    "Tolerance",
    "Triage",
    "VariantSpec",
    "Workflow",
    "Worst",
]
