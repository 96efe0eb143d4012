"""What the user's code imports is installed beside our own packages, for one run."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_gate.cli.environ import pip_environ
from onnx_gate.cli.requirements import installed
from onnx_gate.errors import UsageError
from onnx_gate.records.asked import RunOptions
from onnx_gate.vocabulary import Status
from tests.conftest import Run

MODEL = """\
import numpy as np
from sklearn.linear_model import LinearRegression
from {module} import WEIGHTS


def build():
    return LinearRegression().fit(np.eye(3), WEIGHTS)
"""
MANIFEST = """\
version: 1
defaults: {framework: sklearn, batches: [2], inputs: {X: {dtype: float32, shape: [batch, 3]}}}
models: [{id: line, source: 'model.py:build'}]
"""
OPTIONS = RunOptions(jobs=1)


def write_wheel(folder: Path, name: str, source: str) -> Path:
    """The smallest that pip installs, and a requirements file that asks for it."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", source)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: numpy\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    requirements = folder / "requirements.txt"
    requirements.write_text(f"--no-index\n--find-links {folder}\n{name}==1.0\n")
    return requirements


@pytest.mark.parametrize("module", ["weights_of_line", "tabnanny"])
def test_models_import_what_is_installed(tmp_path: Path, run: Callable[..., Run], module: str) -> None:
    """What is new comes to a warm process; what replaces a module of ours makes models start cold, and is found too."""
    requirements = write_wheel(tmp_path, module, "WEIGHTS = [1.0, 2.0, 3.0]\n")
    (tmp_path / "model.py").write_text(MODEL.format(module=module))
    with installed(requirements, pip_environ(), OPTIONS) as packages:
        assert packages is not None
        assert run(MANIFEST, packages=packages)["line"].verdict is Status.PASSED
    assert not Path(packages).exists()


def test_what_is_here_is_not_installed_again(tmp_path: Path) -> None:
    """The package needs numpy, which no index offers."""
    with installed(write_wheel(tmp_path, "weights_of_line", ""), pip_environ(), OPTIONS) as packages:
        names = {path.name for path in Path(str(packages)).iterdir()}
    assert "weights_of_line.py" in names
    assert "numpy" not in names


def test_nothing_is_done_without_a_file() -> None:
    """Most runs have none."""
    with installed(None, {}, OPTIONS) as packages:
        assert packages is None


def test_what_cannot_be_installed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With pip's own words, none of which starts a line."""
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("--no-index\nno-such-thing\n")
    with (
        pytest.raises(UsageError, match=r"pip could not install .*exit code 1.*Fix: "),
        installed(requirements, pip_environ(), OPTIONS),
    ):
        pass
    words = capsys.readouterr().out.splitlines()
    assert any("no-such-thing" in line for line in words)
    assert all(line.startswith(("  pip: ", "onnx-gate: ")) for line in words)
