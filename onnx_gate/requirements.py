"""Install what the user's model code imports, before anything is run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from onnx_gate.errors import UsageError


def install(path: Path, environ: Mapping[str, str]) -> None:
    """`pip install -r`, with the workers' environment: packages run code while they are installed."""
    if not path.is_file():
        raise UsageError(f"input 'requirements': {path} does not exist. Fix: give a path from the repository's top")
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--requirement",
        str(path),
    ]
    done = subprocess.run(command, env=dict(environ), stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise UsageError(
            f"input 'requirements': pip could not install {path} (exit code {done.returncode}, its words are above). "
            "Fix: correct the file"
        )
