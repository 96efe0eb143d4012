"""What the exporter knows of its operators is made once, and each export has a copy of its own."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from onnx_gate.frameworks.torch.operators import keep_operators

keep_operators()
keep_operators()
first = ONNXRegistry.from_torchlib()
first.register_op(torch.ops.aten.add.Tensor, lambda x, y: x)
second = ONNXRegistry().from_torchlib(opset_version=first.opset_version)
other = ONNXRegistry.from_torchlib(opset_version=20)
for table in (first, second, other):
    ways = table.get_decomps(torch.ops.aten.add.Tensor)
    print(table.opset_version, len(ways), ways[0].is_custom, len(table.functions) > 300)
again = ONNXRegistry.from_torchlib(opset_version=first.opset_version)
print(second.get_decomps(torch.ops.aten.mul.Tensor)[0] is again.get_decomps(torch.ops.aten.mul.Tensor)[0])
"""


def test_a_translation_stays_in_the_export_that_it_was_given_for() -> None:
    """The next table is whole and knows nothing of it, another opset has another one, and nothing is made twice."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, second, other, kept = done.stdout.splitlines()
    opset, ways, custom, whole = first.split()
    assert (custom, whole) == ("True", "True")
    assert second.split() == [opset, str(int(ways) - 1), "False", "True"]
    assert other.split() == ["20", str(int(ways) - 1), "False", "True"]
    assert kept == "True"
