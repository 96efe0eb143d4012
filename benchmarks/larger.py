"""Medium and large models: factories that both the gate and the scripts call, with their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Larger:
    """One model, and its inputs."""

    framework: str
    shape: tuple[int, ...]
    """Shape of one row of its input."""
    batches: tuple[int, ...] = (1, 4)
    rows: int = 0
    """Number of rows of its data; 0 for no data."""
    file: bool = False
    """Whether it is fitted beforehand, and loaded from a file."""


MODELS = {
    "cnn": Larger(framework="torch", shape=(3, 64, 64)),
    "encoder": Larger(framework="torch", shape=(64, 768)),
    "forest": Larger(framework="sklearn", shape=(16,), rows=100_000, batches=(10_000,), file=True),
    "boosted": Larger(framework="sklearn", shape=(16,), rows=20_000, batches=(1_000,), file=True),
    "one_gigabyte": Larger(framework="torch", shape=(8192,)),
    "above_two": Larger(framework="torch", shape=(8192,)),
}
MEDIUM = ("cnn", "encoder", "forest", "boosted")
LARGE = ("one_gigabyte", "above_two")
RTOL, ATOL = 1e-3, 1e-3


def cnn() -> Any:
    """A residual network of 17 convolutions."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            step = after // before
            self.first, self.second = nn.Conv2d(before, after, 3, step, 1), nn.Conv2d(after, after, 3, 1, 1)
            self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
            self.way = nn.Conv2d(before, after, 1, step) if step > 1 else nn.Identity()

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.norms[0](self.first(x)))
            return torch.relu(self.norms[1](self.second(y)) + self.way(x))

    torch.manual_seed(0)
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Block(before, after) for before, after in pairwise(widths)]
    stem = nn.Conv2d(3, 64, 7, 2, 3)
    return nn.Sequential(
        stem, nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100)
    ).eval()


def encoder() -> Any:
    """An encoder as large as BERT's: 12 layers of 768."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()


def one_gigabyte() -> Any:
    return _wide(4)


def above_two() -> Any:
    """A model larger than one protobuf message can be."""
    return _wide(9)


def _wide(layers: int) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    # Random initial values would take longer than everything else, and are replaced below.
    made = [nn.Linear(8192, 8192, bias=False, device="meta").to_empty(device="cpu") for _ in range(layers)]
    with torch.no_grad():
        for layer in made:
            layer.weight.uniform_(-0.02, 0.02)
    return nn.Sequential(*(part for layer in made for part in (layer, nn.Tanh()))).eval()


def write(name: str, folder: Path) -> None:
    """Write the files that exist before the measurement: data, and fitted estimators."""
    model, rng = MODELS[name], np.random.default_rng(0)
    if model.rows:
        np.savez(folder / f"{name}.npz", x=rng.standard_normal((model.rows, *model.shape)).astype(np.float32))
    if not model.file:
        return
    import joblib
    from sklearn.datasets import make_classification
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    x, y = make_classification(n_samples=10_000, n_features=16, n_informative=8, n_classes=3, random_state=0)
    made = {
        "forest": RandomForestClassifier(500, max_depth=10, random_state=0, n_jobs=-1),
        "boosted": HistGradientBoostingClassifier(max_iter=200, random_state=0),
    }
    fitted = made[name].fit(x.astype(np.float32), y)
    if name == "forest":
        fitted.set_params(n_jobs=1)
    joblib.dump(fitted, folder / f"{name}.joblib")


def manifest(names: tuple[str, ...], *, strength: bool) -> str:
    """A manifest as a user writes it."""
    lines = ["version: 1", f"defaults: {{strength: {str(strength).lower()}, timeout: 3600}}", "models:"]
    for name in names:
        model = MODELS[name]
        source = f"{name}.joblib" if model.file else f"larger.py:{name}"
        data = f", data: {name}.npz" if model.rows else ""
        schema = f"x: {{dtype: float32, shape: [batch, {', '.join(map(str, model.shape))}]}}"
        lines.append(
            f"  - {{id: {name}, framework: {model.framework}, source: '{source}', inputs: {{{schema}}}{data}, "
            f"batches: {list(model.batches)}, tolerance: {{rtol: {RTOL}, atol: {ATOL}}}}}"
        )
    return "\n".join(lines) + "\n"
