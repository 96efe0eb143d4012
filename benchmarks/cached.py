"""Measures what a cache saves: with eleven of twelve models unchanged, and with a thousand cached models.

The first is compared with twelve scripts. Models and scripts are those of `gate_vs_scripts.py`; the changed one is a
scikit-learn model. The thousand models are one ONNX file each; no worker starts, so the cost is that of the parent.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import models
from gate_vs_scripts import FRAMEWORKS, GATE, HERE, manifest
from watched import watched

CACHED = 11
SHARE = 0.03
"""The share of the time of twelve scripts that a run may take with eleven models cached."""
MANY = 1_000
MOST_SECONDS, MOST_MEMORY = 5.0, 200_000_000
"""Limits for a thousand cached models, in the parent."""
ROUNDS = 3
CHANGED = "ridge"


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        share = one_changed(Path(temporary, "twelve"))
        seconds, memory = many_cached(Path(temporary, "many"))
    print(f"{CACHED} of 12 models cached: {share:.3f} of 12 scripts (at most {SHARE})")
    print(
        f"{MANY:,} cached models: {seconds:.1f} s of the CPU (at most {MOST_SECONDS:g}), "
        f"{memory / 1e6:.0f} MB in the parent (at most {MOST_MEMORY / 1e6:.0f})"
    )
    sys.exit(int(share > SHARE or seconds > MOST_SECONDS or memory > MOST_MEMORY))


def one_changed(folder: Path) -> float:
    """The time of a run in which one scikit-learn model has changed, divided by that of twelve scripts; the median."""
    folder.mkdir()
    for seed, name in enumerate(models.ONNX):
        models.write_onnx(folder / f"{name}.onnx", seed)
    shutil.copy(HERE / "models.py", folder)
    # A separate module: a change of it changes only this model.
    text = "import models\n\n\ndef build():\n    return models.ridge()\n"
    (folder / "changed.py").write_text(text)
    (folder / "onnx-gate.yml").write_text(
        manifest(FRAMEWORKS, strength=True).replace(f"models.py:{CHANGED}", "changed.py:build")
    )
    command = [*GATE, "--cache", "cache"]
    watched(command, folder)
    shares = []
    for number in range(ROUNDS):
        scripts = sum(
            watched([sys.executable, str(HERE / "one_script.py"), framework, name, str(folder)], folder).seconds
            for framework, names in FRAMEWORKS
            for name in names
        )
        (folder / "changed.py").write_text(f"{text}# {number}\n")
        gate = watched(command, folder).seconds
        print(f"gate {gate:.1f} s, 12 scripts {scripts:.1f} s")
        shares.append(gate / scripts)
    return statistics.median(shares)


def many_cached(folder: Path) -> tuple[float, int]:
    """CPU seconds and memory of a run in which every model is cached."""
    folder.mkdir()
    lines = ["version: 1", "defaults: {strength: false}", "models:"]
    for number in range(MANY):
        models.write_onnx(folder / f"m{number}.onnx", number)
        lines.append(f"  - {{id: m{number}, source: m{number}.onnx, data: m{number}.npz}}")
    (folder / "onnx-gate.yml").write_text("\n".join(lines) + "\n")
    command = [*GATE, "--cache", "cache"]
    watched(command, folder)
    # No other process starts, so these numbers are those of the parent.
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(running.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


if __name__ == "__main__":
    main()
