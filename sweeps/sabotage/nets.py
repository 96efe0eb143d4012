"""Builds typical networks: from a kind and a seed to a module and its inputs. Factories import this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from sweeps.sabotage.layers import Attention, Mean, Normalize, Positions, Recurrent, Residual, Shuffle, UNet

Random = np.random.Generator
Activation = Callable[[], nn.Module]
ACTIVATIONS: tuple[Activation, ...] = (nn.GELU, nn.ReLU, nn.SiLU, lambda: nn.LeakyReLU(0.1), nn.ELU, nn.Tanh)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""The usual mean and deviation of ImageNet."""


class Net(nn.Module):
    """Parts in sequence, then one head or several parallel heads."""

    def __init__(self, parts: Mapping[str, nn.Module], heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.order, self.heads = tuple(parts), tuple(heads)
        for name, part in {**parts, **heads}.items():
            self.add_module(name, part)

    def forward(self, x: torch.Tensor) -> Any:
        """One tensor, or one per head."""
        for name in self.order:
            x = getattr(self, name)(x)
        answers = tuple(getattr(self, name)(x) for name in self.heads)
        return answers if len(answers) > 1 else answers[0]


@dataclass(frozen=True, kw_only=True)
class Built:
    """A network, and its input."""

    net: nn.Module
    """The network in eval mode, with weights as after training."""
    name: str
    """Name of its only input."""
    schema: Mapping[str, Any]
    """Schema of the input, as in the manifest."""
    dims: Mapping[str, list[int]] = field(default_factory=dict)
    """Sizes of named dimensions other than the batch."""

    def feed(self, random: Random, rows: int, *, longest: bool = False) -> dict[str, np.ndarray[Any, Any]]:
        """Realistic rows for the input."""
        sizes = {"batch": rows, **{name: max(each) if longest else min(each) for name, each in self.dims.items()}}
        shape = [sizes.get(size, size) for size in self.schema["shape"]]
        low, high = self.schema.get("range", (0, 1))
        if self.schema["dtype"] == "int64":
            return {self.name: random.integers(low, high + 1, size=shape)}
        if "range" in self.schema:
            return {self.name: random.integers(low, high + 1, size=shape).astype(np.float32)}
        return {self.name: random.standard_normal(shape).astype(np.float32)}


def build(kind: str, seed: int) -> Built:
    """The same network for the same seed, in every process."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    built = KINDS[kind](random)
    _season(built.net)
    built.net.eval()
    return built


def _season(net: nn.Module) -> None:
    """Set statistics, scales and weights as after training; their initial values hide half of all faults."""
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            with torch.no_grad():
                module.weight.mul_(1.7)
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(0, 0.4)
            module.running_var.uniform_(0.05, 1.5)
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm | nn.GroupNorm):
            nn.init.uniform_(module.weight, 0.5, 1.6)
            nn.init.normal_(module.bias, 0, 0.3)


def _pick(random: Random, *choices: Any) -> Any:
    return choices[int(random.integers(len(choices)))]


def _activation(random: Random) -> nn.Module:
    made: nn.Module = _pick(random, *ACTIVATIONS)()
    return made


def _head(random: Random, width: int) -> dict[str, nn.Module]:
    """A head for scores of classes: raw scores or probabilities."""
    classes = int(random.integers(3, 8))
    last = _pick(random, "logits", "softmax", "softmax")
    linear = nn.Linear(width, classes)
    return {"head": nn.Sequential(linear, nn.Softmax(-1)) if last == "softmax" else linear}


def _mlp(random: Random) -> Built:
    width, hidden = int(random.integers(5, 12)), int(random.integers(12, 28))
    parts: dict[str, nn.Module] = {}
    if random.random() < 0.6:
        mean, std = random.normal(0, 0.5, width), random.uniform(0.4, 2, width)
        parts["prep"] = Normalize(mean.tolist(), std.tolist())
    parts["stem"] = nn.Linear(width, hidden)
    for number in range(int(random.integers(1, 4))):
        norm = _pick(random, nn.LayerNorm, nn.BatchNorm1d)(hidden)
        body = nn.Sequential(norm, _activation(random), nn.Linear(hidden, hidden))
        parts[f"block{number}"] = Residual(body) if random.random() < 0.5 else body
    parts["act"] = _activation(random)
    return Built(
        net=Net(parts, _head(random, hidden)), name="features", schema={"dtype": "float32", "shape": ["batch", width]}
    )


def _pixels() -> dict[str, Any]:
    return {"dtype": "float32", "shape": ["batch", 3, 16, 16], "range": [0, 255]}


def _cnn(random: Random) -> Built:
    channels = int(_pick(random, 8, 12))
    pool = _pick(random, nn.MaxPool2d(2), nn.AvgPool2d(3, stride=2, padding=1), nn.MaxPool2d(3, stride=2, padding=1))
    first = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), _activation(random), pool)
    body = nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), _activation(random)
    )
    parts = {
        "prep": Normalize(MEAN, STD, scale=1 / 255),
        "first": first,
        "second": Residual(body) if random.random() < 0.6 else body,
        "norm": _pick(random, nn.GroupNorm(2, channels), nn.BatchNorm2d(channels)),
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
    }
    return Built(net=Net(parts, _head(random, channels)), name="image", schema=_pixels())


def _depthwise(random: Random) -> Built:
    channels = int(_pick(random, 8, 16))
    separable = nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
        nn.BatchNorm2d(channels),
        _pick(random, nn.Hardswish, nn.SiLU, nn.ReLU6)(),
        nn.Conv2d(channels, channels, 1, groups=2),
        Shuffle(2),
    )
    parts = {
        "prep": Normalize(MEAN, STD, scale=1 / 255),
        "stem": nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels)),
        "separable": separable,
        "again": nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, groups=4), _activation(random)),
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
    }
    return Built(net=Net(parts, _head(random, channels)), name="image", schema=_pixels())


def _transformer(random: Random) -> Built:
    width, heads = int(_pick(random, 16, 24)), 4
    parts: dict[str, nn.Module] = {"embed": nn.Embedding(50, width), "positions": Positions(32, width)}
    causal = bool(random.random() < 0.4)
    activation = _pick(random, nn.GELU, nn.GELU, nn.SiLU)
    for number in range(int(random.integers(2, 4))):
        attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads, causal=causal))
        mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), activation(), nn.Linear(32, width))
        parts[f"block{number}"] = nn.Sequential(Residual(attention), Residual(mlp))
    parts |= {"norm": nn.LayerNorm(width), "pool": Mean()}
    schema = {"dtype": "int64", "shape": ["batch", "seq"], "range": [0, 49]}
    return Built(net=Net(parts, _head(random, width)), name="tokens", schema=schema, dims={"seq": [5, 12]})


def _recurrent(random: Random) -> Built:
    width, hidden = int(random.integers(5, 9)), int(_pick(random, 8, 12))
    both = bool(random.random() < 0.5)
    kind = _pick(random, nn.LSTM, nn.GRU)
    parts = {
        "stem": nn.Linear(width, hidden),
        "rnn": Recurrent(kind(hidden, hidden, batch_first=True, bidirectional=both)),
        "norm": nn.LayerNorm(hidden * (1 + both)),
        "act": _activation(random),
    }
    schema = {"dtype": "float32", "shape": ["batch", 9, width]}
    return Built(net=Net(parts, _head(random, hidden * (1 + both))), name="series", schema=schema)


def _embedding(random: Random) -> Built:
    width, hidden = int(random.integers(6, 12)), 20
    parts = {
        "embed": nn.Embedding(40, width),
        "pool": Mean(),
        "hidden": nn.Linear(width, hidden),
        "norm": nn.LayerNorm(hidden),
        "act": _activation(random),
    }
    schema = {"dtype": "int64", "shape": ["batch", 7], "range": [0, 39]}
    return Built(net=Net(parts, _head(random, hidden)), name="tokens", schema=schema)


def _unet(random: Random) -> Built:
    bilinear = random.random() < 0.6
    up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=bool(random.random() < 0.5))
    channels = int(_pick(random, 4, 6))
    parts = {
        "prep": Normalize(MEAN, STD, scale=1 / 255),
        "net": UNet(3, channels, up if bilinear else nn.Upsample(scale_factor=2), _activation(random)),
    }
    head = {"head": nn.Conv2d(channels, int(random.integers(1, 4)), 1)}
    return Built(net=Net(parts, head), name="image", schema=_pixels())


def _several(random: Random) -> Built:
    width, hidden, wide = int(random.integers(5, 12)), 18, int(random.integers(3, 6))
    parts = {
        "stem": nn.Linear(width, hidden),
        "norm": nn.LayerNorm(hidden),
        "act": _activation(random),
        "block": Residual(nn.Sequential(nn.Linear(hidden, hidden), _activation(random))),
    }
    heads: dict[str, nn.Module] = {"low": nn.Linear(hidden, wide), "high": nn.Linear(hidden, wide)}
    if random.random() < 0.5:
        heads["score"] = nn.Sequential(nn.Linear(hidden, 1), nn.Sigmoid())
    return Built(net=Net(parts, heads), name="features", schema={"dtype": "float32", "shape": ["batch", width]})


KINDS: Mapping[str, Callable[[Random], Built]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "depthwise": _depthwise,
    "transformer": _transformer,
    "recurrent": _recurrent,
    "embedding": _embedding,
    "unet": _unet,
    "several": _several,
}
"""Every architecture by name."""
