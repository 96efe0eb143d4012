"""Models of the measured facts about exporting PyTorch. Copied beside a manifest; never imported by a test."""

import dataclasses

import numpy as np
import torch
from torch import nn


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def training():
    return nn.Sequential(net(), nn.Dropout(0.5), nn.BatchNorm1d(3)).train()


def int_of_batch():
    return Calls(lambda x: x.reshape(int(x.shape[0]), 2, 2).sum(dim=1))


def special_at_one():
    return Calls(lambda x: x * 3 if x.shape[0] == 1 else x * 2)


class Positions(nn.Module):
    """Positions by NumPy, for the length of the example."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(9, 1)
        self.scale = nn.Linear(1, 1)

    def forward(self, x):
        rows = x.shape[0]
        places = torch.from_numpy(np.arange(int(rows)) % 3)
        return x + self.table(places)


def positions():
    return Positions()


def literal():
    return Calls(lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + (1 if torch.onnx.is_in_onnx_export() else 0))


class Promotes(nn.Module):
    """float64 in and float32 weights: torch widens these."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x):
        return x * self.weight


def promotes():
    return Promotes()


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


def branches():
    return Branches()


class WritesSlice(nn.Module):
    def forward(self, x):
        rows = x.unsqueeze(1)
        rows[:, 0, 0] = 7.0
        return x.sum(dim=1)


def writes_slice():
    return WritesSlice()


def logaddexp():
    return Calls(lambda x: torch.logaddexp(x, x))


def log1p():
    return Calls(torch.log1p)


def expm1():
    return Calls(torch.expm1)


class Attends(nn.Module):
    def forward(self, q, mask):
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def attends():
    return Attends()


def half_sum():
    return Calls(lambda x: x.sum(dim=1))


def largest():
    return Calls(lambda x: x.max(dim=1).values)


def pooled():
    return Calls(lambda x: nn.functional.max_pool1d(x.unsqueeze(1), 2).squeeze(1))


def ties():
    return Calls(lambda x: torch.topk(x, 2, dim=1).indices)


class Embeds(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(10, 4)

    def forward(self, tokens):
        return self.table(tokens)


def embeds():
    return Embeds()


class Multiplies(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.weight = nn.Parameter(torch.randn(512, 512))

    def forward(self, x):
        return x @ self.weight


def multiplies():
    return Multiplies()


class Huge(nn.Module):
    """More than 2 GiB of weights, which take up no memory before they are written."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1).expand(24_000, 24_000).clone())

    def forward(self, x):
        return x @ self.weight[:, :4]


def huge():
    return Huge()


class Counts(nn.Module):
    calls: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + self.calls


def counts():
    return Counts()


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


def dataclass():
    return Calls(lambda x: Result(logits=x * 2))


def with_none():
    return Calls(lambda x: {"first": x * 2, "none": None, "last": x + 1})
