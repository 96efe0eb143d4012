"""Measures medium and large models in the gate, against plain scripts that do the same by hand.

It measures without and with strength: time, CPU time, and the memory of the largest process of each side.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import larger
from figures import Figure, arguments, figure, finish, ratios
from watched import Watched, watched

HERE = Path(__file__).parent
MOST_CPU, MOST_MEMORY = 1.0, 1.05
"""Limits for large models, as multiples of one bare script."""
GATE = [sys.executable, "-m", "onnx_gate", "run", "--jobs", "1"]


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(3, "of each, in turn"), models=("", "only these, separated by commas"))
    names = tuple(asked.models.split(",")) if asked.models else ("cnn",) if asked.quick else tuple(larger.MODELS)
    rounds = 1 if asked.quick else asked.rounds
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(HERE / "larger.py", folder)
        for name in names:
            larger.write(name, folder)
            for strength in (False, True):
                (folder / f"{name}-{strength}.yml").write_text(larger.manifest((name,), strength=strength))
            figures += measure(name, folder, rounds)
    title = "Medium and large models, beside one bare script each"
    finish("larger", title, figures, quick=asked.quick, in_part=bool(asked.models))


def measure(name: str, folder: Path, rounds: int) -> list[Figure]:
    bare, gate, strong = [], [], []
    for _ in range(rounds):
        bare.append(watched([sys.executable, str(HERE / "bare.py"), str(folder), name], folder))
        gate.append(watched([*GATE, f"{name}-False.yml"], folder))
        strong.append(watched([*GATE, f"{name}-True.yml"], folder))
    large = name in larger.LARGE
    bars = {"cpu": MOST_CPU, "largest": MOST_MEMORY} if large else {}
    return [
        *(one_figure(name, what, gate, bare, bars.get(what)) for what in ("seconds", "cpu", "largest")),
        one_figure(f"{name}, with strength", "cpu", strong, bare, None),
    ]


def one_figure(name: str, what: str, ours: Sequence[Watched], theirs: Sequence[Watched], bar: float | None) -> Figure:
    title = {"seconds": "time", "cpu": "CPU time", "largest": "memory of the largest process"}[what]
    one, other = ([float(getattr(each, what)) for each in side] for side in (ours, theirs))
    unit, scale = ("MiB", 1 / 2**20) if what == "largest" else ("s", 1.0)
    detail = f"{min(one) * scale:.1f} {unit} and {min(other) * scale:.1f} {unit} at the least"
    return figure(f"{name}, {title}", ratios(one, other), bar=bar, detail=detail)


if __name__ == "__main__":
    main()
