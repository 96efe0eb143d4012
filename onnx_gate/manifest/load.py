"""A manifest file → records, or all of its problems at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from onnx_gate.errors import ManifestError
from onnx_gate.manifest.paths import Paths
from onnx_gate.manifest.problems import Reporter, show
from onnx_gate.manifest.schema import Model, Section, Settings
from onnx_gate.manifest.specs import SpecBuilder
from onnx_gate.manifest.yaml_tree import read_tree
from onnx_gate.records import Manifest, ModelSpec


class _Outline(Section):
    """The document with its models still unread, so that each is read on its own."""

    version: Literal[1]
    defaults: dict[str, Any] = Field(default_factory=dict)
    models: Annotated[list[Any], Field(min_length=1)]


def load_manifest(path: Path) -> Manifest:
    """Read, check and resolve a manifest; raises ManifestError with every problem found."""
    shown = str(path)
    tree = read_tree(path, shown)
    report = Reporter(shown, tree)
    models = _read_models(tree.data, report, Paths(path.parent, report))
    if report.problems:
        raise ManifestError(report.problems)
    return Manifest(path=shown, models=tuple(models))


def _read_models(data: Any, report: Reporter, paths: Paths) -> list[ModelSpec]:
    try:
        _Outline.model_validate(data)
    except ValidationError as error:
        report.add_validation(error, (), _Outline)
    if not isinstance(data, dict) or not isinstance(data.get("models"), list):
        return []
    defaults = _read_defaults(data.get("defaults"), report)
    _check_ids(data["models"], report)
    builder = SpecBuilder(report, paths)
    specs = []
    for i, raw in enumerate(data["models"]):
        model = _read_model(raw, defaults, i, report)
        if model is None and isinstance(raw, dict):
            builder.check_paths(raw, i)
        spec = builder.build(model, i) if model else None
        if spec:
            specs.append(spec)
    return specs


def _read_defaults(raw: Any, report: Reporter) -> dict[str, Any]:
    """The defaults less those that are wrong, so that each is reported once and not once a model."""
    if not isinstance(raw, dict):
        return {}
    try:
        Settings.model_validate(raw)
    except ValidationError as error:
        for name in ("id", "source", "onnx", "data"):
            if name in raw:
                report.add(("defaults", name), f"{name!r} belongs to one model", "move it to that model", key=True)
        wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        report.problems.extend(_defaults_problems(error, report))
        return {key: value for key, value in raw.items() if key not in wrong}
    return raw


def _defaults_problems(error: ValidationError, report: Reporter) -> list[Any]:
    own = Reporter(report.shown, report.tree)
    own.add_validation(error, ("defaults",), Settings)
    reported = {(problem.line, problem.column) for problem in report.problems}
    return [problem for problem in own.problems if (problem.line, problem.column) not in reported]


def _read_model(raw: Any, defaults: dict[str, Any], i: int, report: Reporter) -> Model | None:
    if not isinstance(raw, dict):
        report.add(("models", i), f"got {show(raw)}, expected a mapping with `id` and `source`")
        return None
    try:
        return Model.model_validate({**defaults, **raw})
    except ValidationError as error:
        report.add_validation(error, ("models", i), Model)
        return None


def _check_ids(models: list[Any], report: Reporter) -> None:
    first: dict[str, int] = {}
    for i, raw in enumerate(models):
        name = raw.get("id") if isinstance(raw, dict) else None
        if not isinstance(name, str):
            continue
        # Files are named after ids, and some file systems fold case.
        other = first.setdefault(name.casefold(), i)
        if other != i:
            line = report.tree.mark(("models", other, "id")).line
            report.add(
                ("models", i, "id"),
                f"the id {name!r} is taken by models[{other}] on line {line} (case doesn't count)",
                "give each model its own",
            )
