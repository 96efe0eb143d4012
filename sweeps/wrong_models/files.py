"""Writes the files of a family as a user has them: sources, shipped .onnx files, a manifest."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import yaml
from threadpoolctl import threadpool_limits

from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import ModelSpec
from sweeps.wrong_models.entry import Entry, Model
from sweeps.wrong_models.proof import Unproven, require_health, sabotaged

EXAMPLE_ROWS = 3
FEW = 3
"""Up to this many conversions take less time than a warm-up of the converter."""
SUFFIXES = {"sklearn": ".joblib", "lightgbm": ".txt", "xgboost": ".json", "catboost": ".cbm", "keras": ".keras"}
"""File suffix of a saved source, by framework; torch sources are factories."""
WRONG, HEALTHY = "wrong", "healthy"


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """One .onnx file of the suite, ready for the gate."""

    name: str
    """Name of its entry."""
    entry: Entry
    """The entry that it was made from."""
    model: Model
    """The model of the entry, with its realistic inputs."""
    keys: dict[str, Any]
    """The entry of the model in the manifest."""
    twin: str
    """The id of the healthy file of the same model."""
    reached: float | None
    """The share of its own inputs that a wrong file answers wrongly; None for a healthy file."""


def ship(folder: Path, chosen: Mapping[str, tuple[str, Entry]], seed: int) -> list[Shipped]:
    """Make the files of all entries; each wrong file is proven wrong. `chosen` has entries by name, with modules."""
    shutil.copytree(Path(__file__).parent.parent, folder / "sweeps", ignore=shutil.ignore_patterns("__pycache__"))
    # Fitting trees with more threads than free cores takes a hundred times as long.
    with threadpool_limits(1):
        made = {name: entry.model(seed) for name, (_, entry) in chosen.items()}
    keys = {name: _keys(folder, name, chosen[name], made[name], seed) for name in chosen}
    specs = _specs(folder, [{**keys[name], **_options(made[name])} for name in chosen])
    for framework, count in Counter(spec.framework for spec in specs.values()).items():
        get_plugin(framework).warm_up(count > FEW)
    shipped: list[Shipped] = []
    for name, (_, entry) in chosen.items():
        try:
            shipped += _files(folder, name, entry, made[name], specs[name], keys[name], seed)
        except Exception as error:
            raise Unproven(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error
    return shipped


def _keys(folder: Path, name: str, where: tuple[str, Entry], model: Model, seed: int) -> dict[str, Any]:
    """The entry of the model in the manifest; its source is written to a file."""
    module, entry = where
    dims = {dim: list(sizes) for dim, sizes in model.dims.items()}
    return {
        "id": name,
        "framework": entry.framework,
        "source": _source(folder, name, module, entry, model.source, seed),
        "inputs": {given: dict(schema) for given, schema in model.inputs.items()},
        **({"dims": dims} if dims else {}),
    }


def _options(model: Model) -> dict[str, Any]:
    """Options to convert the healthy file; a shipped file doesn't need them any more."""
    return {"convert": dict(model.convert)} if model.convert else {}


def _source(folder: Path, name: str, module: str, entry: Entry, source: Any, seed: int) -> str:
    if entry.framework == "torch":
        code = f"from {module} import {name}\n\n\ndef build():\n    return {name}.model({seed}).source\n"
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
        return f"{name}.py:build"
    path = folder / f"{name}{SUFFIXES[entry.framework]}"
    if entry.framework == "sklearn":
        joblib.dump(source, path)
    elif entry.framework == "keras":
        source.save(path)
    else:
        getattr(source, "booster_", source).save_model(str(path))
    return path.name


def _specs(folder: Path, models: list[dict[str, Any]]) -> dict[str, ModelSpec]:
    path = folder / "convert.yml"
    path.write_text(yaml.safe_dump({"version": 1, "models": models}, allow_unicode=True), encoding="utf-8")
    return {spec.id: spec for spec in load_manifest(path).models}


def _files(
    folder: Path, name: str, entry: Entry, model: Model, spec: ModelSpec, keys: dict[str, Any], seed: int
) -> list[Shipped]:
    healthy = _convert(folder, model, spec)
    path = f"{name}.{HEALTHY}.onnx"
    onnx.save(healthy, folder / path)
    shipped = [_shipped(name, HEALTHY, entry, model, keys, path, None)]
    if model.sabotage:
        wrong, reached = sabotaged(model, healthy, np.random.default_rng(seed))
        path = f"{name}.{WRONG}.onnx"
        onnx.save(wrong, folder / path)
        shipped.append(_shipped(name, WRONG, entry, model, keys, path, reached))
    return shipped


def _shipped(
    name: str, kind: str, entry: Entry, model: Model, keys: dict[str, Any], path: str, reached: float | None
) -> Shipped:
    given = {**keys, "id": f"{name}.{kind}", "onnx": path}
    return Shipped(name=name, entry=entry, model=model, twin=f"{name}.{HEALTHY}", reached=reached, keys=given)


def _convert(folder: Path, model: Model, spec: ModelSpec) -> onnx.ModelProto:
    """The file that the project's own converter makes from the source; it has to be right on the model's inputs."""
    plugin = get_plugin(spec.framework)
    path = folder / f"{spec.id}.converted.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = plugin.load(spec)
        plugin.convert(source, spec, path, {name: array[:EXAMPLE_ROWS] for name, array in model.own.items()})
        references = [answer.value for answer in plugin.predict(source, spec, model.own).values()]
    healthy = onnx.load(path)
    require_health(model, healthy, references)
    return healthy
