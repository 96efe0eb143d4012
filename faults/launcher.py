"""The command, with a fault in it: `python -m faults.launcher run …`. The fault is in the environment."""

from __future__ import annotations

import signal
import sys

from faults import hooks

if __name__ == "__main__":
    # Whoever runs the plan in the background may have taught it to ignore them.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hooks.install_in_gate()
    from onnx_gate.cli.main import main

    sys.exit(main())
