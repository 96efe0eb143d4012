"""Measures what a cache saves: with eleven of twelve models unchanged, and with a thousand cached models.

The first is compared with twelve scripts. Models and scripts are those of `gate_vs_scripts.py`; the changed one is a
scikit-learn model. The thousand models are one ONNX file each; no worker starts, so the cost is that of the parent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import models
from figures import Figure, arguments, figure, finish, ratios
from gate_vs_scripts import FRAMEWORKS, GATE, HERE, manifest
from watched import watched

SHARE = 0.03
"""The share of the time of twelve scripts that a run may take with eleven models cached."""
MANY = 1_000
MOST_SECONDS, MOST_MEGABYTES = 5.0, 200
"""Limits for a thousand cached models, in the parent."""
CHANGED = "ridge"
IMPORT = "import sklearn.linear_model"
"""What the process of the changed model can't do without; no run is faster than this."""


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(3, "of both, in turn"))
    rounds, many = (1, 10) if asked.quick else (asked.rounds, MANY)
    with tempfile.TemporaryDirectory() as temporary:
        found = one_changed(Path(temporary, "twelve"), rounds)
        seconds, memory = many_cached(Path(temporary, "many"), many)
    kept, what = f"{many:,} cached models, the parent's", "11 of 12 small models cached, against"
    figures = [
        beside(f"{what} 12 scripts, time", found["without"], found["scripts"], SHARE),
        beside(f"{what} the script of the twelfth, time", found["without"], found["script"], None),
        beside(f"`{IMPORT}` alone, against 12 scripts, time", found["import"], found["scripts"], None),
        beside(f"{what} 12 scripts, with strength, time", found["with"], found["scripts"], None),
        figure(f"{kept} CPU time", [seconds], unit=" s", bar=MOST_SECONDS),
        figure(f"{kept} memory", [memory / 1e6], unit=" MB", bar=MOST_MEGABYTES),
    ]
    finish("cached", "With a cache", figures, quick=asked.quick)


def beside(what: str, ours: list[float], theirs: list[float], bar: float | None) -> Figure:
    detail = f"{min(ours):.1f} s and {min(theirs):.1f} s at the least"
    return figure(what, ratios(ours, theirs), bar=bar, detail=detail)


def one_changed(folder: Path, rounds: int) -> dict[str, list[float]]:
    """The times of runs in which one scikit-learn model has changed, and of the scripts, in turn."""
    folder.mkdir()
    for seed, name in enumerate(models.ONNX):
        models.write_onnx(folder / f"{name}.onnx", seed)
    shutil.copy(HERE / "models.py", folder)
    # A separate module: a change of it changes only this model.
    text = "import models\n\n\ndef build():\n    return models.ridge()\n"
    (folder / "changed.py").write_text(text)
    commands = {}
    for name, strength in (("without", False), ("with", True)):
        asked = manifest(FRAMEWORKS, strength=strength).replace(f"models.py:{CHANGED}", "changed.py:build")
        (folder / f"{name}.yml").write_text(asked)
        commands[name] = [*GATE, f"{name}.yml", "--cache", "cache"]
        watched(commands[name], folder)
    found: dict[str, list[float]] = {"scripts": [], "script": [], "import": [], "without": [], "with": []}
    for number in range(rounds):
        each = {
            name: watched([sys.executable, str(HERE / "one_script.py"), framework, name, str(folder)], folder).seconds
            for framework, names in FRAMEWORKS
            for name in names
        }
        found["scripts"].append(sum(each.values()))
        found["script"].append(each[CHANGED])
        found["import"].append(watched([sys.executable, "-c", IMPORT], folder).seconds)
        (folder / "changed.py").write_text(f"{text}# {number}\n")
        for name, command in commands.items():
            found[name].append(watched(command, folder).seconds)
    return found


def many_cached(folder: Path, many: int) -> tuple[float, int]:
    """CPU seconds and memory of a run in which every model is cached."""
    folder.mkdir()
    lines = ["version: 1", "defaults: {strength: false}", "models:"]
    for number in range(many):
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
