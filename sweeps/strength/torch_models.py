"""Healthy networks of PyTorch, trained briefly, each with rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sweeps.strength.tables import rows, tokens
from sweeps.wrong_models.entry import Array, Entry, Model, Random, floats

_STEPS, _ROWS = 60, 128
CLASSES = 10


def train(module: nn.Module, feeds: tuple[Array, ...], target: Array, random: Random) -> Any:
    """Train for a few steps, so that every weight has changed."""
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(_STEPS):
        chosen = random.integers(0, len(target), _ROWS)
        scores = module(*(torch.from_numpy(feed[chosen]) for feed in feeds))
        optimizer.zero_grad()
        nn.functional.cross_entropy(scores, torch.from_numpy(target[chosen].astype(np.int64))).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return module.eval()


class Recurrent(nn.Module):
    """A recurrent network that reads the rows of a picture."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.steps = kind(8, 16, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Scores from the last step."""
        return self.head(self.steps(x.reshape(-1, 8, 8))[0][:, -1])  # type: ignore[no-any-return]


class Bag(nn.Module):
    """A classifier on the mean of the word embeddings."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(size, 16), nn.Linear(16, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of five classes."""
        return self.head(self.words(tokens).mean(dim=1))  # type: ignore[no-any-return]


class Reader(nn.Module):
    """A transformer layer over words and their positions."""

    def __init__(self, size: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(size, 16), nn.Embedding(length, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of five classes."""
        seen = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.layer(seen).mean(dim=1))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Attention over the words that are not masked."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(size, 16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Scores of five classes."""
        seen = self.words(tokens)
        scores = self.query(seen) @ self.key(seen).transpose(1, 2) / 4 + (mask.unsqueeze(1) - 1) * 1e4
        read = self.norm(torch.softmax(scores, dim=-1) @ self.value(seen))
        return self.head((read * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True))  # type: ignore[no-any-return]


def _picture(make: Callable[[], nn.Module]) -> Entry:
    def build(random: Random) -> Model:
        torch.manual_seed(int(random.integers(2**31)))
        given = rows("digits", random)
        scale = np.float32(16)
        module = train(make(), (given.fit / scale,), given.fit_target, random)
        return Model(source=module, inputs={"x": floats(64)}, own={"x": given.test / scale})

    return Entry(framework="torch", place="digits", build=build)


def _words(make: Callable[[int], nn.Module], *, masked: bool = False) -> Entry:
    def build(random: Random) -> Model:
        torch.manual_seed(int(random.integers(2**31)))
        given = tokens(random)
        feeds: tuple[Array, ...] = (given.fit,)
        own = {"tokens": given.test}
        ids = {"dtype": "int64", "shape": ["batch", given.test.shape[1]]}
        inputs = {"tokens": ids}
        if masked:
            feeds, own = (given.fit, _mask(given.fit)), {**own, "mask": _mask(given.test)}
            inputs["mask"] = {**ids, "dtype": "float32"}
        return Model(source=train(make(given.size), feeds, given.fit_target, random), inputs=inputs, own=own)

    return Entry(framework="torch", place="sentences as ids", build=build)


def _mask(ids: Array) -> Array:
    return (ids > 0).astype(np.float32)


def _perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, CLASSES), nn.Softmax(dim=-1))


def _convolution() -> nn.Module:
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 12, 3), nn.GELU(), nn.Flatten(), nn.Linear(48, CLASSES)),
    )


MODELS = {
    "torch_perceptron": _picture(_perceptron),
    "torch_convolution": _picture(_convolution),
    "torch_lstm": _picture(lambda: Recurrent(nn.LSTM)),
    "torch_gru": _picture(lambda: Recurrent(nn.GRU)),
    "torch_bag": _words(Bag),
    "torch_transformer": _words(lambda size: Reader(size, 12)),
    "torch_attention": _words(Attention, masked=True),
}
"""Entries by name."""
