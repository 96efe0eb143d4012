"""The action's container starts here: `run` with the inputs of the step."""

import sys

from onnx_gate.cli.main import main_action

if __name__ == "__main__":
    sys.exit(main_action())
