"""Twelve models through the gate, beside twelve scripts that do the same by hand, and with and without strength."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import models
from watched import Watched, watched

HERE = Path(__file__).parent
ROUNDS = 3
"""Of each of the two, in turn."""
MIB = 1024 * 1024
GATE = [sys.executable, "-m", "onnx_gate", "run"]


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for seed, name in enumerate(models.ONNX):
            models.write_onnx(folder / f"{name}.onnx", seed)
        shutil.copy(HERE / "models.py", folder)
        (folder / "onnx-gate.yml").write_text(manifest(strength=True))
        (folder / "without.yml").write_text(manifest(strength=False))
        rounds = [(watched([*GATE, "without.yml"], folder), watched([*GATE, "onnx-gate.yml"], folder))]
        scripts = sum(
            watched([sys.executable, str(HERE / "one_script.py"), framework, name, str(folder)], folder).seconds
            for framework, names in (("torch", models.TORCH), ("sklearn", models.SKLEARN), ("onnx", models.ONNX))
            for name in names
        )
        gate = rounds[0][1].seconds
        print(f"12 models: gate {gate:.1f} s, 12 scripts {scripts:.1f} s, ratio {gate / scripts:.2f}")
        for _ in range(ROUNDS - 1):
            rounds.append((watched([*GATE, "without.yml"], folder), watched([*GATE, "onnx-gate.yml"], folder)))
    print(cost_of_strength(rounds))


def cost_of_strength(rounds: Sequence[tuple[Watched, Watched]]) -> str:
    """Medians without it and with it; of the memory, the model that grows most."""
    seconds, cpu = (
        [statistics.median(getattr(one[side], what) for one in rounds) for side in (0, 1)]
        for what in ("seconds", "cpu")
    )
    grown = {
        name: statistics.median(other.memory.get(name, 0) - one.memory.get(name, 0) for one, other in rounds)
        for name in (*models.TORCH, *models.SKLEARN, *models.ONNX)
    }
    most = max(grown, key=lambda name: grown[name])
    return (
        f"strength: {seconds[0]:.1f} s without, {seconds[1]:.1f} s with ({seconds[1] / seconds[0] - 1:+.0%}); "
        f"CPU {cpu[0]:.1f} s and {cpu[1]:.1f} s ({cpu[1] / cpu[0] - 1:+.0%}); "
        f"memory a model {grown[most] / MIB:+.0f} MiB at the most ({most})"
    )


def manifest(*, strength: bool) -> str:
    asked = f"strength: {str(strength).lower()}"
    lines = [
        "version: 1",
        f"defaults: {{batches: {list(models.BATCHES)}, tolerance: {{rtol: 1e-3, atol: 1e-4}}, {asked}}}",
        "models:",
    ]
    schema = "inputs: {x: {dtype: float32, shape: [batch, 16]}}"
    for framework, names in (("torch", models.TORCH), ("sklearn", models.SKLEARN)):
        lines += [f"  - {{id: {name}, source: 'models.py:{name}', framework: {framework}, {schema}}}" for name in names]
    lines += [f"  - {{id: {name}, source: {name}.onnx, data: {name}.npz}}" for name in models.ONNX]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
