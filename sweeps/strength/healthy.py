"""Runs healthy models with their own test data, and measures its strength."""

from __future__ import annotations

import importlib
import importlib.util
import random
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
from threadpoolctl import threadpool_limits

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import Status
from sweeps.gate import run_gate
from sweeps.wrong_models.entry import Entry, Feed, Model
from sweeps.wrong_models.files import SUFFIXES
from sweeps.wrong_models.suite import TENTH

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "sklearn_models": ("sklearn",),
    "booster_models": ("lightgbm", "xgboost", "catboost"),
    "torch_models": ("torch",),
    "keras_models": ("keras",),
    "onnx_models": ("skl2onnx",),
}
"""Modules of this package, and the packages that they need; a family is left out if a package is missing."""
LEAST = 0.8
"""A lower strength needs a reason."""
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The result of one model."""

    name: str
    entry: Entry
    rows: int
    """Number of rows of its test data."""
    result: ModelResult

    @property
    def strength(self) -> Strength | None:
        """The strength; None if it was not computed."""
        return self.result.strength

    @property
    def reason(self) -> str:
        """The reasons for survivors in its report, the largest group first."""
        groups = self.strength.survivors if self.strength else ()
        return "; ".join(f"{group.mutants}: {group.reason}" for group in groups)


def catalogue(families: Collection[str] = tuple(FAMILIES)) -> dict[str, dict[str, Entry]]:
    """Every model by family and name, for families whose packages are installed."""
    return {
        family: dict(importlib.import_module(f"{__package__}.{family}").MODELS)
        for family, packages in FAMILIES.items()
        if family in families and all(importlib.util.find_spec(package) for package in packages)
    }


def choose(
    *, only: Sequence[str] = (), tenth: int | None = None, families: Collection[str] = tuple(FAMILIES)
) -> dict[str, Entry]:
    """All models, the named ones, or a random tenth of all; `tenth` is its seed."""
    known = {name: entry for family in catalogue(families).values() for name, entry in family.items()}
    if unknown := [name for name in only if name not in known]:
        raise SystemExit(f"no such model in the sweep: {', '.join(unknown)}")
    if only:
        return {name: known[name] for name in only}
    if tenth is None:
        return known
    return {name: known[name] for name in random.Random(tenth).sample(sorted(known), len(known) // TENTH)}


def judge(folder: Path, chosen: Mapping[str, Entry], *, jobs: int | None = None) -> tuple[GateResult, list[Judged]]:
    """Fit the models, write them with their data, and run the command on all of them."""
    shutil.copytree(Path(__file__).parent.parent, folder / "sweeps", ignore=shutil.ignore_patterns("__pycache__"))
    # Fitting trees with more threads than free cores takes a hundred times as long.
    with threadpool_limits(1):
        made = {name: entry.model(SEED) for name, entry in chosen.items()}
    result = run_gate(folder, [_keys(folder, name, chosen[name], made[name]) for name in chosen], jobs=jobs)
    judged = {model.id: model for model in result.models}
    return result, [
        Judged(name=name, entry=entry, rows=_rows(made[name]), result=judged[name]) for name, entry in chosen.items()
    ]


def _rows(model: Model) -> int:
    return len(next(iter(model.own.values())))


def _keys(folder: Path, name: str, entry: Entry, model: Model) -> dict[str, Any]:
    """The entry of the model in the manifest; its source and its data are written to files."""
    write_rows(folder / f"{name}.npz", model.own)
    source = _source(folder, name, entry, model.source)
    inputs = {given: dict(each) for given, each in model.inputs.items()}
    keys = {"id": name, "source": source, "framework": entry.framework, "inputs": inputs, "data": f"{name}.npz"}
    return {**keys, **({"convert": dict(model.convert)} if model.convert else {})}


def write_rows(path: Path, feed: Feed) -> None:
    """Write rows to a data file."""
    plain: dict[str, Any] = {
        name: array.astype(str) if array.dtype == object else array for name, array in feed.items()
    }
    np.savez(path, **plain)


def _source(folder: Path, name: str, entry: Entry, source: Any) -> str:
    if entry.framework == "torch":
        return _network(folder, name, source)
    path = folder / f"{name}{SUFFIXES.get(entry.framework, '.onnx')}"
    if entry.framework == "sklearn":
        joblib.dump(source, path)
    elif entry.framework == "onnx":
        onnx.save(source, path)
    elif entry.framework == "keras":
        source.save(path)
    else:
        getattr(source, "booster_", source).save_model(str(path))
    return path.name


def _network(folder: Path, name: str, module: Any) -> str:
    import torch

    torch.save(module, folder / f"{name}.pt")
    code = f"import torch\n\n\ndef build():\n    return torch.load('{folder / name}.pt', weights_only=False)\n"
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return f"{name}.py:build"


def shortcomings(judged: Sequence[Judged]) -> list[str]:
    """Models that did not pass, that have no strength, or that have a low one without a reason."""
    found = []
    for each in judged:
        if each.result.verdict is not Status.PASSED:
            found.append(f"{each.name}: {each.result.verdict}: {each.result.cause}: {each.result.error[:300]}")
        elif each.strength is None or each.strength.share is None or each.strength.incomplete:
            found.append(f"{each.name}: no strength, or an incomplete one")
        elif each.strength.share < LEAST and _explained(each.strength) < _missed(each.strength):
            found.append(f"{each.name}: strength {each.strength.share:.2f}, and not all survivors have a reason")
    return found


def _missed(strength: Strength) -> int:
    return strength.counted - strength.caught


def _explained(strength: Strength) -> int:
    return sum(group.mutants for group in strength.survivors)
