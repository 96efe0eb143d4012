"""Which onnxruntime is installed: exactly one, and what is only named after it doesn't count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onnx_gate.errors import UsageError
from onnx_gate.gate.environment import installed_runtimes, require_one_runtime


def install(folder: Path, name: str, version: str, *files: str) -> None:
    """What pip leaves of a distribution."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        # Some readers of metadata pass over files that aren't there.
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, and no other."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_plug_ins_and_extensions_live_beside_a_runtime(packages: Path) -> None:
    """They bring no package `onnxruntime`, which two builds would both write to."""
    install(packages, "onnxruntime-gpu", "1.31.1", "onnxruntime/__init__.py", "onnxruntime/capi/x.so")
    install(packages, "onnxruntime-ep-webgpu", "0.4.0", "onnxruntime_ep_webgpu/__init__.py")
    install(packages, "onnxruntime-extensions", "0.15.2", "onnxruntime_extensions/__init__.py")
    assert installed_runtimes() == {"onnxruntime-gpu": "1.31.1"}
    require_one_runtime()


@pytest.mark.parametrize("other", ["onnxruntime", "onnxruntime-openvino", "onnxruntime-webgpu", "onnxruntime-qnn"])
def test_two_builds_are_refused(packages: Path, other: str) -> None:
    """Nobody knows which one answers."""
    install(packages, "onnxruntime-gpu", "1.31.1", "onnxruntime/__init__.py")
    install(packages, other, "1.27.0", "onnxruntime/__init__.py")
    with pytest.raises(UsageError, match=r"are both installed.*Fix: pip uninstall -y onnxruntime"):
        require_one_runtime()


def test_no_build_is_refused(packages: Path) -> None:
    """With what to install."""
    install(packages, "onnxruntime-ep-webgpu", "0.4.0", "onnxruntime_ep_webgpu/__init__.py")
    with pytest.raises(UsageError, match=r"onnxruntime is not installed\. Fix: pip install"):
        require_one_runtime()
