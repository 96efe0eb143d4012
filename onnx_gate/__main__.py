"""`python -m onnx_gate`."""

import sys

from onnx_gate.cli import main

if __name__ == "__main__":
    sys.exit(main())
