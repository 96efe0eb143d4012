"""Small networks, each with one thing wrong with it or with the file that is made of it."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, act=None):
        super().__init__()
        torch.manual_seed(0)
        self.hidden = nn.Linear(4, 16)
        self.act = act or nn.LeakyReLU(0.1)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.drop(self.act(self.hidden(x))))


class Labels(Net):
    def forward(self, x):
        return super().forward(x).argmax(1)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.price, self.risk = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return {"price": self.price(x), "risk": self.risk(x)}


class Swapped(Heads):
    def forward(self, x):
        return self.risk(x), self.price(x)


class Log(nn.Module):
    def forward(self, x):
        return torch.log(x.clamp(min=1e-4))


class BareLog(nn.Module):
    def forward(self, x):
        return torch.log(x)


class Gelu(nn.Module):
    def forward(self, x):
        return 100 * nn.functional.gelu(x)


class Counter(nn.Module):
    calls: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.line = nn.Linear(4, 2)

    def forward(self, x):
        self.calls += 1
        return self.line(x) + self.calls


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


def missing():
    import a_package_that_is_not_installed  # type: ignore[import-not-found]

    return a_package_that_is_not_installed.build()


def crash():
    ctypes.string_at(0)


def slow():
    time.sleep(600)


def large():
    return nn.Linear(len(np.ones(2**29)), 4)
