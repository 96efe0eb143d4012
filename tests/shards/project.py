"""A small manifest with every kind of ending, and what it takes to run, change and merge its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_gate.cli.main import main
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports import json
from tests import onnx_models

SOURCE = """
import numpy as np
from sklearn.linear_model import LinearRegression

def good():
    print("fitting")
    return LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])

def unfitted():
    return LinearRegression()
"""
MANIFEST = """
version: 1
defaults:
  inputs: {x: {dtype: float32, shape: [batch, 3]}}
  batches: [1, 7]
models:
  - {id: linear, source: "source.py:good", framework: sklearn}
  - {id: doubler, source: doubler.onnx, providers: [cpu, cuda]}
  - {id: rotten, source: doubler.onnx, data: wrong.npz}
  - {id: broken, source: "source.py:unfitted", framework: sklearn}
  - {id: tolerated, source: doubler.onnx, data: wrong.npz, allow_failure: true}
  - {id: gpu-only, source: doubler.onnx, providers: [cuda]}
  - {id: half, source: "source.py:good", framework: sklearn, variants: [int8-dynamic]}
"""
IDS = ("linear", "doubler", "rotten", "broken", "tolerated", "gpu-only", "half", "half@int8-dynamic")


def write_project(folder: Path, manifest: str = MANIFEST) -> Path:
    """The manifest and its files; returns the manifest's path."""
    (folder / "source.py").write_text(SOURCE)
    onnx_models.doubler(folder / "doubler.onnx")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(folder / "wrong.npz", x=x, y=3 * x)
    (folder / "onnx-gate.yml").write_text(manifest)
    return folder / "onnx-gate.yml"


def merge(output: Path, *argv: str | Path) -> tuple[int, GateResult | None]:
    """The exit code, and the result where one was written."""
    code = main(["merge", *map(str, argv), "--output", str(output)])
    return code, json.read(output) if (output / "results.json").exists() else None


def change(folder: Path, how: Callable[[GateResult], GateResult]) -> None:
    """Write another result in the place of a part's."""
    (folder / "results.json").write_text(json.render(how(json.read(folder))))


def change_text(folder: Path, old: str, new: str) -> None:
    """The same by hand."""
    text = (folder / "results.json").read_text()
    assert old in text
    (folder / "results.json").write_text(text.replace(old, new, 1))


def change_model(result: GateResult, model_id: str, **values: Any) -> GateResult:
    """One model with other values."""
    models = tuple(replace(model, **values) if model.id == model_id else model for model in result.models)
    return replace(result, models=models)


def timeless(models: Sequence[ModelResult]) -> list[ModelResult]:
    """All but what differs from run to run, or lies in another folder."""
    return [
        replace(
            model,
            seconds=0.0,
            convert=replace(model.convert, seconds=0.0) if model.convert else None,
            checks=tuple(replace(check, seconds=0.0) for check in model.checks),
            # Its files stay with the part that made them.
            repro=replace(model.repro, folder="") if model.repro else None,
        )
        for model in models
    ]


def held(folder: Path) -> list[str]:
    """The ids of a part's models."""
    return [model.id for model in json.read(folder).models]


def refused(shards: Path, output: Path, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3 with the reason, and no report, not even yesterday's."""
    output.mkdir()
    (output / "results.json").write_text("yesterday")
    code, merged = merge(output, shards)
    err = capsys.readouterr().err
    assert (code, merged) == (3, None)
    assert reason in err, err
    assert "Fix: " in err
    assert len(err.splitlines()) == 1
