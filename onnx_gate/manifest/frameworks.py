"""Which framework a source belongs to."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.manifest import schema
from onnx_gate.manifest.problems import Reporter
from onnx_gate.manifest.yaml_tree import Trail
from onnx_gate.records import FRAMEWORKS

FRAMEWORK_OF = {
    **dict.fromkeys((".joblib", ".pkl", ".pickle", ".skops"), "sklearn"),
    **dict.fromkeys((".pt", ".pth", ".jit", ".ts", ".pt2"), "torch"),
    ".onnx": "onnx",
    ".txt": "lightgbm",
    **dict.fromkeys((".json", ".ubj"), "xgboost"),
    ".cbm": "catboost",
}


def find_framework(report: Reporter, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> str | None:
    """By the file's type, or as the manifest says; None after reporting why it can't be known."""
    if ":" in model.source:
        return _framework_of_factory(report, model, trail, doubtful)
    suffix = Path(model.source).suffix.lower()
    if suffix not in FRAMEWORK_OF:
        report.add(
            (*trail, "source"),
            f"the file type {suffix!r} is unknown, expected {', '.join(FRAMEWORK_OF)}, or a factory",
            "write path/to/file.py:callable for a factory",
        )
        return None
    if model.framework not in (None, FRAMEWORK_OF[suffix]) and not report.tree.inherited(trail, "framework"):
        report.add(
            (*trail, "framework"),
            f"got {model.framework!r}, but {suffix} files are read as {FRAMEWORK_OF[suffix]}",
            "remove `framework`, or name another source",
        )
    return FRAMEWORK_OF[suffix]


def _framework_of_factory(report: Reporter, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> str | None:
    buildable = [name for name in FRAMEWORKS if name != "onnx"]
    expected = f"{', '.join(buildable[:-1])} or {buildable[-1]}"
    if model.framework in buildable:
        return str(model.framework)
    if "framework" not in doubtful:
        got = f"got {model.framework!r}" if model.framework else "the key 'framework' is missing"
        report.add(
            (*trail, "framework") if model.framework else trail,
            f"{got}: a factory doesn't tell what it builds, expected {expected}",
            "add `framework: sklearn` or `framework: torch`",
        )
    return None
