"""Measures twelve small models in the gate, against twelve scripts that do the same by hand, and against other tools.

The first figure is without strength, the second with it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import models
from figures import KEPT, Figure, arguments, figure, finish, ratios
from watched import Watched, watched

HERE = Path(__file__).parent
MOST = 0.20
"""The gate may take this many times as long as twelve scripts."""
MIB = 1024 * 1024
GATE = [sys.executable, "-m", "onnx_gate", "run"]
FRAMEWORKS = (("torch", models.TORCH), ("sklearn", models.SKLEARN), ("onnx", models.ONNX))


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(3, "of each, in turn"))
    rounds = 1 if asked.quick else asked.rounds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        found = [one_round(folder) for _ in range(rounds)]
        peers = [] if asked.quick else beside_peers(folder)
    sides = {name: [one[name] for one in found] for name in found[0]}
    figures = [
        *compared("12 small models, against one script each", sides["without"], sides["scripts"], MOST),
        *compared("the same with strength", sides["with"], sides["scripts"], None),
        *compared("with strength, against without", sides["with"], sides["without"], None),
        grown(sides["with"], sides["without"]),
        *peers,
    ]
    finish("scripts", "Twelve small models, beside one script for each", figures, quick=asked.quick)


def prepare(folder: Path) -> None:
    for seed, name in enumerate(models.ONNX):
        models.write_onnx(folder / f"{name}.onnx", seed)
    shutil.copy(HERE / "models.py", folder)
    (folder / "with.yml").write_text(manifest(FRAMEWORKS, strength=True))
    (folder / "without.yml").write_text(manifest(FRAMEWORKS, strength=False))
    (folder / "torch.yml").write_text(manifest(FRAMEWORKS[:1], strength=False))


def one_round(folder: Path) -> dict[str, Watched]:
    scripts = [
        watched([sys.executable, str(HERE / "one_script.py"), framework, name, str(folder)], folder)
        for framework, names in FRAMEWORKS
        for name in names
    ]
    return {
        "scripts": together(scripts),
        "without": watched([*GATE, "without.yml"], folder),
        "with": watched([*GATE, "with.yml"], folder),
    }


def together(each: Sequence[Watched]) -> Watched:
    """The sum of several commands that run one after another."""
    return Watched(seconds=sum(one.seconds for one in each), cpu=sum(one.cpu for one in each))


def beside_peers(folder: Path) -> list[Figure]:
    """Figures for the six PyTorch models: one export and check per model, as a user calls the tool."""
    gate = watched([*GATE, "torch.yml"], folder)
    environ = {**os.environ, "PYTHONPATH": str(polygraphy())}
    figures = []
    for tool, title in (("verify", "torch.onnx.export(verify=True)"), ("polygraphy", "Polygraphy")):
        command = [sys.executable, str(HERE / "peer_script.py"), tool]
        theirs = together([watched([*command, name, str(folder)], folder, environ=environ) for name in models.TORCH])
        figures += compared(f"6 PyTorch models, against {title}", [gate], [theirs], None)
    return figures


def polygraphy() -> Path:
    """The folder with Polygraphy, installed without dependencies: those that it needs are already here."""
    place = KEPT / "polygraphy"
    if not place.exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), "polygraphy"],
            check=True,
        )
    return place


def compared(what: str, ours: Sequence[Watched], theirs: Sequence[Watched], bar: float | None) -> list[Figure]:
    figures = []
    for clock, title in (("seconds", "time"), ("cpu", "CPU time")):
        one, other = ([getattr(each, clock) for each in side] for side in (ours, theirs))
        detail = f"{statistics.median(one):.1f} s and {statistics.median(other):.1f} s"
        limit = bar if clock == "seconds" else None
        figures.append(figure(f"{what}, {title}", ratios(one, other), bar=limit, detail=detail))
    return figures


def grown(ours: Sequence[Watched], theirs: Sequence[Watched]) -> Figure:
    """The extra memory for strength, for the model whose worker grows most."""
    names = (*models.TORCH, *models.SKLEARN, *models.ONNX)
    by_name = {
        name: [
            (one.memory.get(name, 0) - other.memory.get(name, 0)) / MIB for one, other in zip(ours, theirs, strict=True)
        ]
        for name in names
    }
    most = max(by_name, key=lambda name: statistics.median(by_name[name]))
    return figure("memory that strength takes, at the most", by_name[most], unit=" MiB", detail=most)


def manifest(frameworks: Iterable[tuple[str, Sequence[str]]], *, strength: bool) -> str:
    asked = f"strength: {str(strength).lower()}"
    lines = [
        "version: 1",
        f"defaults: {{batches: {list(models.BATCHES)}, tolerance: {{rtol: 1e-3, atol: 1e-4}}, {asked}}}",
        "models:",
    ]
    schema = "inputs: {x: {dtype: float32, shape: [batch, 16]}}"
    for framework, names in frameworks:
        how = (
            "source: {0}.onnx, data: {0}.npz"
            if framework == "onnx"
            else f"source: 'models.py:{{0}}', framework: {framework}, {{1}}"
        )
        lines += [f"  - {{id: {name}, {how.format(name, schema)}}}" for name in names]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
