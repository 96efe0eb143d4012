"""Every frozen record that crosses a border between rooms.

Records that come back from a worker, or from a results.json, are validated by pydantic against these types;
`__pydantic_config__` makes it write NaN and the infinities as the strings that the contract names. They are plain
dataclasses; those that only a run brings are loaded when they are asked for, so that a wrong manifest is answered at
once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnx_gate.records.asked import (
    FEWEST_REPEATS,
    DimLimits,
    InputSpec,
    LatencySpec,
    Location,
    Manifest,
    ManifestWarning,
    ModelSpec,
    OutputRule,
    ProviderSpec,
    RunOptions,
    SessionSpec,
    Tolerance,
    VariantSpec,
)
from onnx_gate.records.workflow import CommentMode, Workflow
from onnx_gate.vocabulary import (
    EDGES,
    JSON,
    ORT_THREADS,
    REPORTS,
    VARIANTS,
    Absence,
    BreachKind,
    Cause,
    Config,
    Isolation,
    Scalar,
    Status,
)

if TYPE_CHECKING:
    from onnx_gate.records.found import (
        Actual,
        Answer,
        Breach,
        Confusion,
        ConvertInfo,
        Expectation,
        Failure,
        Graph,
        GraphValue,
        OutputDiff,
        Overflow,
        Triage,
        Worst,
    )
    from onnx_gate.records.ran import Elsewhere, Latency, Numerics, Placement, RunToRun, Timing
    from onnx_gate.records.result import Check, Coverage, Environment, GateResult, ModelResult, Part, ProviderState
    from onnx_gate.records.scope import AskedModel, Scope

__all__ = [
    "EDGES",
    "FEWEST_REPEATS",
    "JSON",
    "ORT_THREADS",
    "REPORTS",
    "VARIANTS",
    "Absence",
    "Actual",
    "Answer",
    "AskedModel",
    "Breach",
    "BreachKind",
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
    "Latency",
    "LatencySpec",
    "Location",
    "Manifest",
    "ManifestWarning",
    "ModelResult",
    "ModelSpec",
    "Numerics",
    "OutputDiff",
    "OutputRule",
    "Overflow",
    "Part",
    "Placement",
    "ProviderSpec",
    "ProviderState",
    "RunOptions",
    "RunToRun",
    "Scalar",
    "Scope",
    "SessionSpec",
    "Status",
    "Timing",
    "Tolerance",
    "Triage",
    "VariantSpec",
    "Workflow",
    "Worst",
]

_LATER = ("onnx_gate.records.found", "onnx_gate.records.ran", "onnx_gate.records.scope", "onnx_gate.records.result")


def __getattr__(name: str) -> Any:
    """A record that a run brings."""
    if name in __all__:
        for module in map(import_module, _LATER):
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
