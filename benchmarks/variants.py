"""Measures a PyTorch model with three variants against the model alone: shows whether it is exported only once."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from figures import arguments, figure, finish, ratios
from watched import Watched, watched

MOST = 1.6
"""All four may take this many times as long as the model alone."""
ROUNDS = 3
GATE = [sys.executable, "-m", "onnx_gate", "run"]
NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 4), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def load():
    return Net().eval()
"""
LIMITS = "min_snr_db: 0, min_column_snr_db: -100, max_abs: 10"
VARIANTS = f"variants: [{{fp16: {{{LIMITS}}}}}, {{int8-dynamic: {{{LIMITS}}}}}, {{int8-static: {{{LIMITS}}}}}]"
"""Variants with limits that they keep: the time of triage should not count."""


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(ROUNDS, "of each of the two, in turn"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "net.py").write_text(NET)
        (folder / "alone.yml").write_text(manifest(""))
        (folder / "three.yml").write_text(manifest(f", {VARIANTS}"))
        rounds = [(judged(folder, "alone"), judged(folder, "three")) for _ in range(1 if asked.quick else asked.rounds)]
    figures = []
    for clock, title in (("seconds", "time"), ("cpu", "CPU time")):
        alone, three = ([getattr(one[side], clock) for one in rounds] for side in (0, 1))
        detail = f"{min(three):.1f} s and {min(alone):.1f} s at the least"
        figures.append(figure(f"with three variants, {title}", ratios(three, alone), bar=MOST, detail=detail))
    finish("variants", "A PyTorch model with three variants, beside the model alone", figures, quick=asked.quick)


def judged(folder: Path, name: str) -> Watched:
    return watched([*GATE, f"{name}.yml", "--output", f"report-{name}"], folder)


def manifest(variants: str) -> str:
    schema = "inputs: {x: {dtype: float32, shape: [batch, 16, 64]}}"
    return f"version: 1\nmodels:\n  - {{id: net, framework: torch, source: 'net.py:load', {schema}{variants}}}\n"


if __name__ == "__main__":
    main()
