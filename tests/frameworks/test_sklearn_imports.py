"""What a scikit-learn model need not wait for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from onnx_gate.frameworks.sklearn.load import _import_skops

first = _import_skops()
print(first.__name__, "torch" in sys.modules, _import_skops() is first)
import sklearn.externals.array_api_compat.torch as compat
print(compat.__name__, "torch" in sys.modules, _import_skops() is first)
"""


def test_skops_does_not_import_pytorch() -> None:
    """It would, to list all estimators. What the import went past can be imported afterwards as ever."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "skops.io False True",
        "sklearn.externals.array_api_compat.torch True True",
    ]
