"""Real builds of ONNX Runtime, each in an environment of its own, asked through the command itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

ENVIRONMENTS = REPOSITORY / ".venv-providers"
SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"


@dataclass(frozen=True)
class Outcome:
    """What a run of the command said and wrote."""

    code: int
    said: str
    results: dict[str, Any]
    summary: str

    def model(self, model_id: str) -> dict[str, Any]:
        """A model of results.json."""
        return next(model for model in self.results["models"] if model["id"] == model_id)

    def only_check(self, model_id: str, provider: str) -> dict[str, Any]:
        """The one check of a provider that was not compared."""
        checks: list[dict[str, Any]] = self.model(model_id)["checks"]
        (check,) = (check for check in checks if check["provider"] == provider)
        return check


def run_in(environment: str, folder: Path, manifest: str, *arguments: str, **environ: str) -> Outcome:
    """Run the command in an environment, with nothing of this one but the path."""
    (folder / "onnx-gate.yml").write_text(manifest)
    command = [str(python_of(environment)), "-P", "-m", "onnx_gate", "run", "--jobs", "2", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=clean(environ), capture_output=True, text=True, check=False, timeout=240
    )
    said = done.stdout + done.stderr
    report = folder / "onnx-gate-report"
    assert (report / "results.json").exists(), said
    results = json.loads((report / "results.json").read_text())
    return Outcome(done.returncode, said, results, (report / "summary.md").read_text())


def python_of(environment: str) -> Path:
    """The interpreter of an environment; pytest fails, and doesn't skip, where it was not made."""
    python = ENVIRONMENTS / environment / "bin" / "python"
    assert python.exists(), "Fix: make test-providers, which makes the environments"
    return python


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """What these tests let a run see."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, **environ}


@pytest.fixture(scope="session")
def vulkan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables that lead WebGPU to SwiftShader."""
    runtime = tmp_path_factory.mktemp("xdg")
    return {"VK_ICD_FILENAMES": SWIFTSHADER, "VK_DRIVER_FILES": SWIFTSHADER, "XDG_RUNTIME_DIR": str(runtime)}
