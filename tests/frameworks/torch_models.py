"""PyTorch models of many forms. Copied beside a manifest; never imported by a test."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))

    def forward(self, x):
        return self.layers(x)


def single():
    return Net()


def training():
    return nn.Sequential(Net(), nn.Dropout(0.5)).train()


class Outputs(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def pair():
    return Outputs(lambda x: (x * 2, x.sum(dim=1)))


def nested():
    return Outputs(lambda x: {"logits": x * 2, "aux": (x.sum(dim=1), {"mean": x.mean(dim=1)}), "none": None})


def labels():
    return Outputs(lambda x: {"best": x.argmax(dim=1), "positive": x > 0})


class TwoInputs(nn.Module):
    def forward(self, query, key, scale=2.0):
        return query @ key.transpose(1, 2) * scale


def by_name():
    return TwoInputs()


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.table = nn.Embedding(10, 4)

    def forward(self, tokens):
        return self.table(tokens).mean(dim=1)


def embedding():
    return Embed()


class WritesInput(nn.Module):
    def forward(self, x):
        x[:, 0] = 1.0
        return x + 1


def writes_input():
    return WritesInput()


class OfEight(nn.Module):
    def forward(self, x):
        return x + torch.ones(8)


def of_eight():
    return OfEight()


class Baked(nn.Module):
    def forward(self, x):
        return x.reshape(int(x.shape[0]), 2, 2).sum(dim=1)


def baked():
    return Baked()


class Special(nn.Module):
    def forward(self, x):
        if x.shape[0] == 1:
            return x * 3
        return x * 2


def special_at_one():
    return Special()


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x


def branch():
    return Branch()


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


def random():
    return Noise()


def moody_more():
    """One output at batch 1, two at larger ones."""
    return Outputs(lambda x: {"y": x * 2} if x.shape[0] == 1 else {"y": x * 2, "z": x})


def moody_less():
    """Two outputs at batch 1, one at larger ones."""
    return Outputs(lambda x: {"y": x * 2, "z": x} if x.shape[0] == 1 else {"y": x * 2, "z": None})


def raises():
    return Outputs(lambda x: x.no_such_method())


def returns_number():
    return Outputs(lambda x: (x, 3))


def not_a_module():
    return {"weights": 1}


class LogOfShifted(nn.Module):
    """Answers NaN where x is far below 0; the shipped export clips, and so doesn't."""

    def forward(self, x):
        return torch.log(x + 1)


def logarithm():
    return LogOfShifted()


class Colliding(nn.Module):
    """Returns a dict whose keys are names that the exporter uses inside as well."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(10, 4)

    def forward(self, tokens):
        rows = self.embedding(tokens)
        return {"scores": rows.sum(dim=1), "embedding": rows, "embedding.weight": rows.mean(dim=1)}


def colliding():
    return Colliding()


class Echo(nn.Module):
    def forward(self, x):
        return {"x": x * 2}


def echo():
    return Echo()
