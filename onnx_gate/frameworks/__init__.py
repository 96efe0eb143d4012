"""Frameworks: a module each, loaded by name, in the workers only.

A framework module has:

- `warm_up(export)`: import what a job will need; with `export`, convert a dummy, so that a forked job finds
  the converter warm. At one thread, and with no ONNX Runtime session.
- `load(spec)`: the user's model, ready to answer.
- `predict(source, spec, feed)`: its answers by expected ONNX output name, in the order of the outputs.
- `convert(source, spec, path, example)`: write the ONNX file; returns notes for the report.
- `widen(source, spec)`: the source and its spec in float64, or None where there is no such thing. Triage asks it
  whether rounding alone explains a divergence.
- `known_cause(source, spec, feed)`: what is known to go wrong with this kind of model on such a feed, or None. Triage
  asks only once a model has diverged.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any, Protocol, cast

from onnx_gate.errors import CannotJudge
from onnx_gate.records import Answer, ModelSpec, Triage
from onnx_gate.vocabulary import Cause

Feed = dict[str, Any]
Answers = dict[str, Answer]

MODULES = {
    "sklearn": "onnx_gate.frameworks.sklearn",
    "torch": "onnx_gate.frameworks.torch",
    "onnx": "onnx_gate.frameworks.onnx",
    "lightgbm": "onnx_gate.frameworks.lightgbm",
    "xgboost": "onnx_gate.frameworks.xgboost",
    "catboost": "onnx_gate.frameworks.catboost",
}
NEEDS = {
    "sklearn": ("sklearn", "skl2onnx"),
    "torch": ("torch", "onnxscript", "safetensors"),
    "onnx": (),
    "lightgbm": ("lightgbm", "sklearn", "skl2onnx", "onnxmltools"),
    "xgboost": ("xgboost", "sklearn", "skl2onnx", "onnxmltools"),
    "catboost": ("catboost", "sklearn", "skl2onnx"),
}
"""What has to be importable; the extra of the same name installs it."""


class Framework(Protocol):
    """What a framework module offers."""

    def warm_up(self, export: bool) -> None: ...
    def load(self, spec: ModelSpec) -> Any: ...
    def predict(self, source: Any, spec: ModelSpec, feed: Feed) -> Answers: ...
    def convert(self, source: Any, spec: ModelSpec, path: Path, example: Feed) -> list[str]: ...
    def widen(self, source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None: ...
    def known_cause(self, source: Any, spec: ModelSpec, feed: Feed) -> Triage | None: ...


def missing_packages(name: str) -> list[str]:
    """The packages of a framework that aren't installed."""
    return [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]


def get_framework(name: str) -> Framework:
    """The framework's module; raises CannotJudge where it isn't installed."""
    if missing := missing_packages(name):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, "
            f"which models of the framework {name!r} need",
            fix=f"pip install 'onnx-gate[{name}]'",
        )
    return cast(Framework, importlib.import_module(MODULES[name]))
