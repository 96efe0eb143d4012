"""Torch modules that go with a length, healthy and with one built in; copied beside the manifest of test_sizes."""

from __future__ import annotations

import torch


class Mean(torch.nn.Module):
    """The mean of what a layer makes of each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, x):
        return self.layer(x).sum(dim=1) / x.shape[1]


class Lstm(torch.nn.Module):
    """The last state of an LSTM, and the answer of each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.lstm = torch.nn.LSTM(3, 5, batch_first=True)

    def forward(self, x):
        steps, (state, _) = self.lstm(x)
        return state[0], steps


class Baked(Mean):
    """Divides by the length of the example that it was exported with."""

    def forward(self, x):
        return self.layer(x).sum(dim=1) / int(x.shape[1])


class Reshaped(Mean):
    """Lays out its steps side by side and apart again, as many as the example had."""

    def forward(self, x):
        steps = int(x.shape[1])
        return self.layer(x).reshape(-1, steps * 4).reshape(-1, steps, 4).tanh()


class Even(Mean):
    """Takes pairs of steps."""

    def forward(self, x):
        return super().forward(x.reshape(x.shape[0], x.shape[1] // 2, 6)[:, :, :3])


class Short(Mean):
    """Has a table of eight positions."""

    def __init__(self) -> None:
        super().__init__()
        self.places = torch.nn.Embedding(8, 3)

    def forward(self, x):
        return super().forward(x + self.places(torch.arange(x.shape[1], device=x.device)))


def mean():
    """Healthy."""
    return Mean().eval()


def lstm():
    """Healthy."""
    return Lstm().eval()


def baked():
    """Right at one length only."""
    return Baked().eval()


def reshaped():
    """ONNX Runtime refuses other lengths."""
    return Reshaped().eval()


def even():
    """Refuses odd lengths itself."""
    return Even().eval()


def short():
    """Refuses more than eight steps itself."""
    return Short().eval()
