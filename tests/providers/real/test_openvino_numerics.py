"""Numerics and references on a real provider that is not the CPU: OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from tests.conftest import run_manifest
from tests.onnx_models import save, value
from tests.providers.real.conftest import Outcome, run_in

pytestmark = pytest.mark.providers
HINT = '{"CPU": {"INFERENCE_PRECISION_HINT": "f16"}}'
MANIFEST = f"""
version: 1
defaults:
  batches: [2]
  inputs: {{x: {{dtype: float32, shape: [batch, 1, 1000, 1000], range: [100, 101]}}}}
  tolerance: {{rtol: 1e-4, atol: 0}}
models:
  - id: pool
    source: pool.onnx
    providers: {{cpu: {{}}, openvino: {{required: true, options: {{load_config: '{HINT}'}}}}}}
  - id: loose
    source: pool.onnx
    providers: {{cpu: {{}}, openvino: {{required: true, tolerance: {{rtol: 0, atol: 10}}}}}}
"""


def run_there(folder: Path, *arguments: str) -> tuple[Outcome, dict[str, dict[str, Any]]]:
    """Run the command in that environment; returns how it ended, and the models of results.json."""
    outcome = run_in("openvino", folder, (folder / "onnx-gate.yml").read_text(), *arguments)
    return outcome, {model["id"]: model for model in outcome.results["models"]}


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """The mean of a million values: OpenVINO adds them up in another order, and loses digits."""
    folder = tmp_path_factory.mktemp("openvino")
    pool = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    save(
        folder / "pool.onnx",
        [pool],
        [value("x", shape=["batch", 1, 1000, 1000])],
        [value("y", shape=["batch", 1, 1, 1])],
    )
    (folder / "onnx-gate.yml").write_text(MANIFEST)
    done, models = run_there(folder)
    assert done.code == 1, done.said
    return models


def test_options_in_force_are_recorded(judged):
    """The session of OpenVINO reports none, so those that it was given count."""
    numerics = judged["pool"]["numerics"]["openvino"]
    assert numerics["options"] == numerics["fast"] == {"load_config": HINT}
    assert judged["pool"]["numerics"]["cpu"]["options"] == {}


def test_the_run_is_repeated_in_full_precision(judged):
    """On the machines of this project the hint changes nothing, and that is what the advice says."""
    found = judged["pool"]
    assert (found["verdict"], found["cause"]) == ("diverged", "provider")
    assert "INFERENCE_PRECISION_HINT" in found["advice"]
    [wrong] = [check for check in found["checks"] if check["status"] == "diverged"]
    counts = f"in {wrong['mismatched']} of {wrong['total']} elements (before: {wrong['mismatched']})"
    assert counts in found["advice"]
    assert found["advice"].endswith("that option is not the reason.")


def test_a_provider_is_held_to_its_own_tolerance(judged):
    """The same file on the same provider passes where its tolerance allows it, and the CPU keeps the model's."""
    allowed = {check["provider"]: check["tolerance"] for check in judged["loose"]["checks"]}
    assert judged["loose"]["verdict"] == "passed"
    assert allowed == {"cpu": {"rtol": 1e-4, "atol": 0.0}, "openvino": {"rtol": 0.0, "atol": 10.0}}


def test_a_provider_that_repeats_itself_is_run_twice(judged):
    """On the largest case, and nothing differs."""
    numerics = judged["loose"]["numerics"]["openvino"]
    assert (numerics["run_twice"], numerics["run_to_run"]) == ("batch=2", [])


def test_a_reference_travels_to_it(tmp_path):
    """Made here with torch, compared there on OpenVINO and on another CPU build, where torch isn't installed."""
    (tmp_path / "net.py").write_text(
        "import torch\n\ndef build():\n    torch.manual_seed(0)\n    return torch.nn.Sequential(torch.nn.Linear(4, 8), "
        "torch.nn.Tanh(), torch.nn.Linear(8, 3))\n"
    )
    manifest = """
    version: 1
    models:
      - id: net
        source: net.py:build
        framework: torch
        inputs: {input: {dtype: float32, shape: [batch, 4]}}
        providers: [cpu, openvino]
    """
    made = run_manifest(tmp_path, manifest, save_reference=tmp_path / "reference")
    (tmp_path / "net.py").unlink()
    done, models = run_there(tmp_path, "--reference", "reference")
    found = models["net"]
    assert (done.code, found["verdict"]) == (0, "passed"), done.said
    assert {check["provider"] for check in found["checks"]} == {"cpu", "openvino"}
    assert f"with torch {made.result.environment.versions['torch']}" in found["reference"]
    assert found["placement"]["openvino"]["on_provider"] > 0
