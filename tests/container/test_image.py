"""What the image holds beside the action."""

import subprocess

import pytest

pytestmark = pytest.mark.container


def run(container: list[str], entrypoint: str, *arguments: str) -> str:
    command = [*container, f"--entrypoint={entrypoint}", "onnx-gate-test", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8", timeout=60).stdout


def test_command_line(container: list[str]) -> None:
    """The image is the command line tool too."""
    assert "run" in run(container, "onnx-gate", "--help")


def test_locale(container: list[str]) -> None:
    """ONNX Runtime's StringNormalizer finds the locale that it asks for by name."""
    assert "en_US.utf8" in run(container, "locale", "-a").splitlines()


def test_one_onnxruntime(container: list[str]) -> None:
    """Two distributions of ONNX Runtime would overwrite each other's files; the CPU's image has the small one."""
    installed = run(container, "pip", "list", "--format=freeze").splitlines()
    assert [line.partition("==")[0] for line in installed if line.startswith("onnxruntime")] == ["onnxruntime"]
