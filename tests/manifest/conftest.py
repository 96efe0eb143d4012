"""A small repository with one of each file that a manifest may name."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from onnx_gate.errors import ManifestError, Problem
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import Manifest, ModelSpec

FILES = ("m.onnx", "m.joblib", "m.pkl", "m.jit", "m.pt2", "m.skops", "m.txt", "f.py", "w.safetensors", "d.csv", "d.npz")


class Project:
    """A repository whose manifest is written anew for each load."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = folder / "onnx-gate.yml"
        (folder / ".git").mkdir()
        (folder / "test_data_set_0").mkdir()
        for name in FILES:
            # Nothing is loaded while a manifest is read: a file need not be what it is called.
            (folder / name).write_bytes(b"not a model")

    def load(self, text: str | bytes) -> Manifest:
        """The manifest that this text makes."""
        raw = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        self.manifest.write_bytes(raw)
        return load_manifest(self.manifest)

    def model(self, keys: str, *, defaults: str = "{}") -> ModelSpec:
        """The only model, written in flow style: `id: a, source: m.onnx`."""
        [model] = self.load(f"version: 1\ndefaults: {defaults}\nmodels:\n  - {{{keys}}}\n").models
        return model

    def problems(self, text: str | bytes) -> tuple[Problem, ...]:
        """What is wrong with this text; it fails the test if nothing is."""
        with pytest.raises(ManifestError) as caught:
            self.load(text)
        assert caught.value.problems
        return caught.value.problems

    def problem(self, text: str | bytes) -> Problem:
        """The only thing that is wrong."""
        [problem] = self.problems(text)
        return problem

    def model_problem(self, keys: str, *, defaults: str = "{}") -> Problem:
        """The only thing that is wrong with the only model, which starts on line 4."""
        return self.problem(f"version: 1\ndefaults: {defaults}\nmodels:\n  - {{{keys}}}\n")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh repository."""
    return Project(tmp_path)


def place(problem: Problem) -> tuple[int, int, str]:
    """Line, column and path."""
    return problem.line, problem.column, problem.path
