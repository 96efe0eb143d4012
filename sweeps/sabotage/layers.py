"""Layers that people write themselves, each as a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


def is_exporting() -> bool:
    """Whether the new or the old exporter of torch is running."""
    jit: Any = torch.jit
    return bool(torch.compiler.is_exporting() or jit.is_tracing())


class Normalize(nn.Module):
    """(x · scale − mean) / std: of columns, or of the channels of images."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale
        shape = (1, -1) if scale is None else (1, -1, 1, 1)
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(shape))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The values with mean 0 and deviation 1."""
        x = x if self.scale is None else x * self.scale
        return (x - self.mean) / self.std


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum."""
        added: torch.Tensor = x + self.body(x)
        return added


class Positions(nn.Module):
    """Adds learnt positions."""

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(longest, width) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum with the first rows of the table, one per step."""
        return x + self.table[: x.shape[1]]


class Attention(nn.Module):
    """Multi-head attention; one linear layer computes queries, keys and values."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.scale = heads, causal, (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.softmax = nn.Softmax(-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        rows, length, width = x.shape
        split = self.qkv(x).reshape(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = split[0], split[1], split[2]
        scores = query @ key.transpose(-1, -2) * self.scale
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -1e9)
        mixed = self.softmax(scores) @ value
        answer: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return answer


class Recurrent(nn.Module):
    """The last answer of a recurrent layer."""

    def __init__(self, rnn: Any) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The answer of the last step."""
        answers: torch.Tensor = self.rnn(x)[0]
        return answers[:, -1]


class Mean(nn.Module):
    """The mean over a sequence."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor without the second dimension."""
        return x.mean(1)


class Shuffle(nn.Module):
    """Shuffles the channels across groups, as in ShuffleNet."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        channels, height, width = x.shape[1:]
        split = x.reshape(-1, self.groups, channels // self.groups, height, width)
        return split.transpose(1, 2).reshape(-1, channels, height, width)


class UNet(nn.Module):
    """A U-Net: down, up, and a skip connection."""

    def __init__(self, inputs: int, channels: int, up: nn.Module, act: nn.Module) -> None:
        super().__init__()
        self.enter, self.act = nn.Conv2d(inputs, channels, 3, padding=1), act
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(channels, 2 * channels, 3, padding=1))
        self.norm, self.up = nn.BatchNorm2d(2 * channels), up
        self.merge = nn.Conv2d(3 * channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same height and width."""
        around = self.act(self.enter(x))
        below = self.up(torch.relu(self.norm(self.down(around))))
        merged: torch.Tensor = self.merge(torch.cat([around, below], dim=1))
        return merged
