"""A manifest file → records, or all of its problems at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from onnx_gate.errors import ManifestError
from onnx_gate.manifest.paths import Paths
from onnx_gate.manifest.problems import Reporter, show
from onnx_gate.manifest.schema import Model, Settings, Version
from onnx_gate.manifest.schema.section import Section, keys_of
from onnx_gate.manifest.shared_rules import find_shared_rules
from onnx_gate.manifest.specs import SpecBuilder
from onnx_gate.manifest.text import digest, refuse_file
from onnx_gate.manifest.yaml_tree import read_tree
from onnx_gate.records.asked import Manifest, ModelSpec
from onnx_gate.repository.root import find_repository
from onnx_gate.wording.hints import nearest


class _Outline(Section):
    """The document with its models still unread, so that each is read on its own."""

    version: Version
    defaults: dict[str, Any] = Field(default_factory=dict)
    models: Annotated[list[Any], Field(min_length=1)]


def load_manifest(path: Path, *, sources_here: bool = True) -> Manifest:
    """Read, check and resolve a manifest; raises ManifestError with every problem found.

    Without `sources_here` its models and data may be on another machine.
    """
    shown = str(path)
    _refuse_link_away(path, shown)
    tree = read_tree(path, shown)
    report = Reporter(shown, tree)
    models = _read_models(tree.data, report, Paths(path.parent, report, must_exist=sources_here))
    if report.problems:
        raise ManifestError(report.problems)
    rules = find_shared_rules(tree, models, report)
    return Manifest(
        path=shown,
        models=tuple(models),
        sha256=tree.sha256,
        judged_sha256=_judged_digest(tree.data),
        warnings=report.warnings,
        rules=rules,
    )


def _judged_digest(data: dict[str, Any]) -> str:
    """A digest of what the manifest asks for: comments, layout and `allow_failure` change no comparison."""
    asked = {
        **data,
        "defaults": _without_allowing(data.get("defaults") or {}),
        "models": [_without_allowing(model) for model in data["models"]],
    }
    return digest(json.dumps(asked, sort_keys=True, default=str))


def _without_allowing(keys: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keys.items() if name != "allow_failure"}


def _refuse_link_away(path: Path, shown: str) -> None:
    """Who reads it may be root, and what a message cites of a file must not be what only root may read."""
    if path.is_symlink() and not path.resolve().is_relative_to(find_repository(path.parent.resolve())):
        raise refuse_file(shown, "it is a link that leaves the repository", "put the manifest itself there")


def _read_models(data: Any, report: Reporter, paths: Paths) -> list[ModelSpec]:
    try:
        _Outline.model_validate(data)
    except ValidationError as error:
        report.add_validation(error, (), _Outline)
    if not isinstance(data, dict) or not isinstance(data.get("models"), list):
        return []
    defaults, doubtful = _read_defaults(data.get("defaults"), report)
    _check_ids(data["models"], report)
    builder = SpecBuilder(report, paths)
    specs = []
    for i, raw in enumerate(data["models"]):
        if not isinstance(raw, dict):
            report.add(("models", i), f"got {show(raw)}, expected a mapping with `id` and `source`")
        else:
            specs += _read_model(raw, defaults, doubtful, i, builder, report)
    return specs


def _read_defaults(raw: Any, report: Reporter) -> tuple[dict[str, Any], frozenset[str]]:
    """The defaults less those that are wrong, so that each is reported once and not once a model."""
    if not isinstance(raw, dict):
        return {}, frozenset()
    of_one_model = [name for name in ("id", "source", "onnx", "data") if name in raw]
    for name in of_one_model:
        report.add(("defaults", name), f"{name!r} belongs to one model", "move it to that model", key=True)
    defaults = {name: value for name, value in raw.items() if name not in of_one_model}
    try:
        Settings.model_validate(defaults)
    except ValidationError as error:
        report.add_validation(error, ("defaults",), Settings)
        return _without_wrong(defaults, error, Settings)
    return defaults, frozenset()


def _read_model(
    raw: dict[str, Any],
    defaults: dict[str, Any],
    doubtful: frozenset[str],
    i: int,
    builder: SpecBuilder,
    report: Reporter,
) -> list[ModelSpec]:
    """The spec and its variants; of a model that doesn't fit the schema, what does is checked all the same."""
    doubtful -= raw.keys()
    try:
        model = Model.model_validate({**defaults, **raw})
        spec = builder.build(model, i, doubtful)
        return [spec, *builder.variants(spec, model, i)] if spec else []
    except ValidationError as error:
        report.add_validation(error, ("models", i), Model)
        kept, wrong = _without_wrong({**defaults, **raw}, error, Model)
    if "source" in kept:
        builder.build(Model.model_validate({"id": "unread", **kept}), i, doubtful | wrong)
    else:
        builder.check_paths(raw, i)
    return []


def _without_wrong(
    values: dict[str, Any], error: ValidationError, schema: type[Section]
) -> tuple[dict[str, Any], frozenset[str]]:
    """The values that are right, and the keys whose values are not known, also those that were misspelt."""
    wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
    keys = keys_of(schema)
    meant = {nearest(name, keys) for name in wrong - set(keys)}
    kept = {name: value for name, value in values.items() if name not in wrong}
    return kept, frozenset(wrong | {name for name in meant if name})


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
