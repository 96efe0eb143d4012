"""The line of the user's code that a stack trace leads to."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import onnx
import pytest
import yaml

from onnx_gate.frameworks.registry import trace_keys
from onnx_gate.worker.onnx_files.origins import line_of, user_line

LIBRARY = "/venv/lib/python3.11/site-packages/library/part.py"
TRACE = f'''  File "/repo/models/encoder.py", line 42, in forward
    x = self.attend(x)
  File "/repo/models/attention.py", line 7, in forward
    return self.out(x)
  File "{LIBRARY}", line 134, in forward
    return F.linear(input, self.weight)
'''


def test_the_innermost_line_that_is_the_users_own() -> None:
    """By its name, or by its path in the user's folder."""
    assert user_line(TRACE) == "attention.py:7"
    assert user_line(TRACE, "/repo") == "models/attention.py:7"
    assert user_line(TRACE, "/elsewhere") == "attention.py:7"


@pytest.mark.parametrize(
    "file",
    [
        LIBRARY,
        "/usr/lib/python3/dist-packages/library.py",
        f"{sysconfig.get_path('stdlib')}/contextlib.py",
        "<eval_with_key>.3",
        str(Path(onnx.__file__)),
        str(Path(yaml.__file__)),
        str(Path(__file__).parents[2] / "onnx_gate" / "frameworks" / "plugin.py"),
    ],
)
def test_libraries_are_not_the_users_own(file: str) -> None:
    """Neither is Python, nor what was made while exporting, nor this package."""
    assert user_line(f'File "{file}", line 3, in f') == ""
    assert user_line(f'File "/usr/src/app/model.py", line 2, in f\n  x\nFile "{file}", line 3, in f') == "model.py:2"


def test_a_node_without_a_trace_comes_from_nowhere() -> None:
    """And one with a trace is read by any exporter's key."""
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    assert line_of(node) == ""
    for key in trace_keys():
        entry = node.metadata_props.add()
        entry.key, entry.value = key, TRACE
        assert line_of(node, "/repo") == "models/attention.py:7"
    assert user_line("no trace") == ""
