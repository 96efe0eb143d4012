"""The action, from its inputs to what it leaves behind, in the image that its users get."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.container

MANIFEST = """\
version: 1
models:
  - id: line
    source: model.py:build
    framework: sklearn
    inputs:
      X: {dtype: float32, shape: [batch, 3]}
"""
FACTORY = """\
import numpy as np
from sklearn.linear_model import LinearRegression


def build():
    rows = np.eye(3)
    return LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0])
"""


@pytest.fixture(scope="module")
def passed(make_workspace: Any, run_action: Any) -> Any:
    return run_action(make_workspace("quickstart"))


def test_models_that_pass(passed: Any) -> None:
    """The quickstart exits 0 and says so in every place."""
    assert passed.exit_code == 0
    assert passed.results()["verdict"] == "passed"
    assert passed.results()["exit_code"] == 0
    assert "passed" in passed.summary.lower()


def test_outputs_of_the_step(passed: Any) -> None:
    """Each output that action.yml declares is written; paths can be used by the next step."""
    models = passed.results()["models"]
    counts = {name: passed.outputs[name] for name in ("verdict", "passed", "diverged", "errors")}
    assert counts == {"verdict": "passed", "passed": str(len(models)), "diverged": "0", "errors": "0"}
    for name in ("junit", "summary", "results"):
        assert (passed.workspace / passed.outputs[name]).is_file()


def test_reports_belong_to_the_owner_of_the_workspace(passed: Any) -> None:
    """Nothing of root's stays behind, which the next checkout on a self-hosted runner couldn't remove."""
    assert (passed.workspace / "onnx-gate-report/results.json").exists()
    assert _foreign_files(passed.workspace) == []


def test_a_model_that_diverges(make_workspace: Any, run_action: Any) -> None:
    """A divergence exits 1, whatever else passed."""
    run = run_action(make_workspace("diverges"))
    assert run.exit_code == 1
    assert run.outputs["verdict"] == run.results()["verdict"] == "diverged"
    assert int(run.outputs["diverged"]) >= 1
    assert "::error" in run.log
    assert "diverged" in run.summary.lower()


def test_a_wrong_manifest(make_workspace: Any, run_action: Any) -> None:
    """A misspelt key exits 2, with an annotation on its line and a step summary."""
    manifest = MANIFEST + "    tolerence: {rtol: 1e-3, atol: 1e-5}\n"
    run = run_action(make_workspace(files={"onnx-gate.yml": manifest, "model.py": FACTORY}))
    line = manifest.count("\n")
    assert run.exit_code == 2
    assert re.search(rf"^::error file=onnx-gate\.yml,line={line}\b.*tolerence", run.log, re.MULTILINE)
    assert "tolerence" in run.summary


@pytest.mark.parametrize(("required", "exit_code", "verdict"), [("true", 3, "error"), ("false", 0, "passed")])
def test_cuda_where_there_is_none(
    make_workspace: Any, run_action: Any, required: str, exit_code: int, verdict: str
) -> None:
    """A GPU that isn't there is an error where it is required, and a skip elsewhere."""
    manifest = MANIFEST + "    providers: [cpu, cuda]\n"
    workspace = make_workspace(files={"onnx-gate.yml": manifest, "model.py": FACTORY})
    run = run_action(workspace, {"require-cuda": required})
    assert run.exit_code == exit_code
    assert run.outputs["verdict"] == verdict
    cause = run.results()["models"][0].get("cause")
    assert cause == ("provider-unavailable" if required == "true" else None)


def test_requirements_are_installed_first(make_workspace: Any, run_action: Any) -> None:
    """What a factory imports comes from the requirements file of the workspace."""
    wheel = "weights_of_line-1.0-py3-none-any.whl"
    files = {
        "onnx-gate.yml": MANIFEST,
        "model.py": FACTORY.replace("[1.0, 2.0, 3.0]", "WEIGHTS").replace(
            "import numpy", "from weights_of_line import WEIGHTS\nimport numpy", 1
        ),
        "requirements.txt": "--no-index\n--find-links .\nweights-of-line==1.0\n",
        wheel: _wheel("weights_of_line", "WEIGHTS = [1.0, 2.0, 3.0]\n"),
    }
    run = run_action(make_workspace(files=files), {"requirements": "requirements.txt"})
    assert run.exit_code == 0


def test_other_manifest_and_output(make_workspace: Any, run_action: Any) -> None:
    """A manifest in a folder of its own is found, and the reports go where they are asked to."""
    workspace = make_workspace()
    (workspace / "ml").mkdir()
    (workspace / "ml/gate.yml").write_text(MANIFEST)
    (workspace / "ml/model.py").write_text(FACTORY)
    run = run_action(workspace, {"manifest": "ml/gate.yml", "output": "out/report"})
    assert run.exit_code == 0
    assert run.outputs["results"] == "out/report/results.json"
    assert run.results("out/report")["verdict"] == "passed"
    assert _foreign_files(workspace) == []


def test_without_github(make_workspace: Any, run_action: Any) -> None:
    """`docker run -v "$PWD:/github/workspace"` at one's desk gives the same answer."""
    run = run_action(make_workspace("quickstart"), github=False)
    assert run.exit_code == 0
    assert run.results()["verdict"] == "passed"
    assert not re.search("^::", run.log, re.MULTILINE)


def test_a_gpu_that_cannot_be_used_is_an_error(make_workspace: Any, run_action: Any) -> None:
    """The machine has a device file of an NVIDIA GPU and no driver: CUDA is not skipped, though not required."""
    run = run_action(make_workspace("quickstart"), options=("--volume=/dev/null:/dev/nvidia0",))
    assert run.exit_code == 3
    assert {model["cause"] for model in run.results()["models"]} == {"provider-unavailable"}
    assert "the machine has a device (/dev/nvidia0) that can't be used" in run.summary


def _foreign_files(workspace: Path) -> list[Path]:
    owner = workspace.stat().st_uid
    return [path for path in workspace.rglob("*") if path.lstat().st_uid != owner]


def _wheel(name: str, source: str) -> bytes:
    """The smallest wheel that pip installs: one module."""
    info = f"{name}-1.0.dist-info"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{name}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return data.getvalue()
