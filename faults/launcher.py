"""The command with a fault: `python -m faults.launcher run …`. The fault is given in the environment."""

from __future__ import annotations

import signal
import sys

from faults import hooks

if __name__ == "__main__":
    # A plan that runs in the background may have inherited that these signals are ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hooks.install_in_gate()
    from onnx_gate.cli.main import main

    sys.exit(main())
