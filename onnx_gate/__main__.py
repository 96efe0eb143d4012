"""`python -m onnx_gate`."""

from __future__ import annotations

import sys

from onnx_gate.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
