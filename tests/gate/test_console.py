"""Printing never decides a run."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import REPOSITORY

CHECK = [sys.executable, "-m", "onnx_gate", "check", str(REPOSITORY / "examples/quickstart/onnx-gate.yml")]


def test_a_terminal_without_our_characters_gets_escapes():
    """An ASCII terminal is no reason to fail."""
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    code = "from onnx_gate.gate.console import prepare_streams, say; prepare_streams(); say('✔ é')"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\\u2714 \\xe9\n")


def test_a_reader_that_has_gone_is_no_reason_to_fail():
    """`onnx-gate … | head -0` keeps its exit code."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(CHECK, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
