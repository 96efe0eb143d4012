"""The command that installs the gate with some of its extras: the one place that knows where the gate comes from."""

from __future__ import annotations

ORIGIN = " @ git+https://github.com/onnx-gate/onnx-gate"
"""What follows the name: the package is installed from its repository. A test compares the docs with it."""


def requirement(*extras: str) -> str:
    """The gate with extras, as pip takes it, such as `'onnx-gate[cpu,variants] @ git+…'`, in quotes for a shell."""
    return f"'onnx-gate[{','.join(extras)}]{ORIGIN}'"


def install(*extras: str) -> str:
    """The command, to be pasted into a shell."""
    return f"pip install {requirement(*extras)}"
