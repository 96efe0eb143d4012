"""Which framework a source belongs to."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.frameworks.registry import buildable, framework_of_folder, suffixes
from onnx_gate.manifest import schema
from onnx_gate.manifest.problems import Reporter
from onnx_gate.manifest.yaml_tree import Trail


def find_framework(
    report: Reporter, model: schema.Model, folder: Path, trail: Trail, doubtful: frozenset[str]
) -> str | None:
    """By the file's type, or as the manifest says; None after reporting why it can't be known."""
    if ":" in model.source:
        return _framework_of_factory(report, model, trail, doubtful)
    if (found := _framework_of_folder(folder, model.source)) is not None:
        return _agreed(report, model, found, "such folders", trail)
    known, suffix = suffixes(), Path(model.source).suffix.lower()
    if suffix not in known:
        report.add(
            (*trail, "source"),
            f"the file type {suffix!r} is unknown, expected {', '.join(known)}, or a factory",
            "write path/to/file.py:callable for a factory",
        )
        return None
    return _agreed(report, model, known[suffix], f"{suffix} files", trail)


def is_source_folder(folder: Path, source: str) -> bool:
    """Whether a source is a folder that some framework reads; paths are relative to the manifest's folder."""
    return ":" not in source and _framework_of_folder(folder, source) is not None


def _framework_of_folder(folder: Path, source: str) -> str | None:
    try:
        path = folder / source
        return framework_of_folder(path) if path.is_dir() else None
    except (OSError, ValueError):
        # What can't be looked up is reported where paths are.
        return None


def _agreed(report: Reporter, model: schema.Model, found: str, what: str, trail: Trail) -> str:
    if model.framework not in (None, found) and not report.tree.inherited(trail, "framework"):
        report.add(
            (*trail, "framework"),
            f"got {model.framework!r}, but {what} are read as {found}",
            "remove `framework`, or name another source",
        )
    return found


def _framework_of_factory(report: Reporter, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> str | None:
    names = buildable()
    if model.framework in names:
        return str(model.framework)
    if "framework" not in doubtful:
        got = f"got {model.framework!r}" if model.framework else "the key 'framework' is missing"
        report.add(
            (*trail, "framework") if model.framework else trail,
            f"{got}: a factory doesn't tell what it builds, expected {', '.join(names[:-1])} or {names[-1]}",
            f"add {' or '.join(f'`framework: {name}`' for name in names[:2])}",
        )
    return None
