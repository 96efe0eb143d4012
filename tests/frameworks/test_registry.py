"""A framework is added by one line: what the manifest and the gate take follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onnx_gate.errors import ManifestError
from onnx_gate.frameworks import registry
from onnx_gate.frameworks.info import FrameworkInfo
from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.gate.trust import refusal
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import Location, ModelSpec

SPEC = ModelSpec(id="m", line=1, framework="toy", folder="/", source=Location(shown="m"))
MODEL = "version: 1\nmodels: [{{id: m, source: {}, inputs: {{X: {{dtype: float32, shape: [batch, 3]}}}}}}]\n"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkInfo]:
    """A framework whose sources are .toy files, and folders that hold one."""
    info = FrameworkInfo(
        name="toy",
        title="Toy",
        plugin="toy",
        packages={"toy": ("toy-model",)},
        extra="toy",
        runs_code=lambda spec: "a toy",
        suffixes=(".toy",),
        is_source_folder=lambda folder: (folder / "weights.toy").is_file(),
    )
    monkeypatch.setitem(registry.REGISTRY, "toy", info)
    yield info


@pytest.mark.parametrize("source", ["m.toy", "saved"])
def test_its_files_and_folders_are_sources(toy: FrameworkInfo, tmp_path: Path, source: str) -> None:
    """And are refused where what they hold is code."""
    (tmp_path / "saved").mkdir()
    for file in ("m.toy", "saved/weights.toy"):
        (tmp_path / file).touch()
    (tmp_path / "m.yml").write_text(MODEL.format(source))
    [spec] = load_manifest(tmp_path / "m.yml").models
    assert (spec.framework, spec.source.file) == ("toy", str(tmp_path / source))
    refused = refusal(spec, allowed=False, credentials=())
    assert refused is not None
    assert f"{source}: this is a toy, which runs code of its own" in refused.message


def test_another_folder_is_no_source(toy: FrameworkInfo, tmp_path: Path) -> None:
    """Without the file that makes it one."""
    (tmp_path / "saved").mkdir()
    (tmp_path / "m.yml").write_text(MODEL.format("saved"))
    with pytest.raises(ManifestError, match="'saved' is a folder, expected a file"):
        load_manifest(tmp_path / "m.yml")


def test_its_variables_and_packages_are_known(toy: FrameworkInfo) -> None:
    """A missing one is offered with the extra."""
    assert registry.packages()["toy"] == ("toy-model",)
    assert registry.framework_of_package("toy") is toy
    assert toy.installing(["toy"]) == "pip install 'onnx-gate[toy] @ git+https://github.com/onnx-gate/onnx-gate'"
    assert replace(toy, extra="").installing(["numpy", "onnx"]) == "pip install numpy onnx"
    assert "toy" in registry.buildable()


def test_a_pipeline_has_tails() -> None:
    """One less step each; a single estimator has none."""
    rows = np.eye(3)
    pipeline = make_pipeline(StandardScaler(), StandardScaler(), LinearRegression()).fit(rows, [1.0, 2.0, 3.0])
    tails = get_plugin("sklearn").tails
    assert [len(tail) for tail in tails(pipeline, SPEC)] == [2, 1]
    assert list(tails(pipeline[-1], SPEC)) == []


def test_a_sequence_of_modules_has_tails() -> None:
    """One less module each; another module has none."""
    module = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 3), torch.nn.Tanh())
    tails = get_plugin("torch").tails
    assert [len(tail.module) for tail in tails(Source(module=module), SPEC)] == [2, 1]
    assert list(tails(Source(module=torch.nn.ReLU()), SPEC)) == []
