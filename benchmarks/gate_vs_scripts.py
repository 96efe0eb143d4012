"""Twelve models through the gate, beside twelve scripts that do the same by hand, one after the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import models

HERE = Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for seed, name in enumerate(models.ONNX):
            models.write_onnx(folder / f"{name}.onnx", seed)
        shutil.copy(HERE / "models.py", folder)
        (folder / "onnx-gate.yml").write_text(manifest())
        gate = timed([sys.executable, "-m", "onnx_gate", "run", "onnx-gate.yml"], folder)
        scripts = sum(
            timed([sys.executable, str(HERE / "one_script.py"), framework, name, str(folder)], folder)
            for framework, names in (("torch", models.TORCH), ("sklearn", models.SKLEARN), ("onnx", models.ONNX))
            for name in names
        )
    print(f"12 models: gate {gate:.1f} s, 12 scripts {scripts:.1f} s, ratio {gate / scripts:.2f}")


def manifest() -> str:
    lines = [
        "version: 1",
        f"defaults: {{batches: {list(models.BATCHES)}, tolerance: {{rtol: 1e-3, atol: 1e-4}}}}",
        "models:",
    ]
    schema = "inputs: {x: {dtype: float32, shape: [batch, 16]}}"
    for framework, names in (("torch", models.TORCH), ("sklearn", models.SKLEARN)):
        lines += [f"  - {{id: {name}, source: 'models.py:{name}', framework: {framework}, {schema}}}" for name in names]
    lines += [f"  - {{id: {name}, source: {name}.onnx, data: {name}.npz}}" for name in models.ONNX]
    return "\n".join(lines) + "\n"


def timed(command: list[str], folder: Path) -> float:
    start = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.monotonic() - start


if __name__ == "__main__":
    main()
