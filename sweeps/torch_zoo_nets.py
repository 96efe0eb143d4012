"""Whole architectures, written as people write them: vision, audio, recurrent and graph networks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from sweeps.torch_entry import entry, floats, ints, zeros_and_ones

IMAGE = floats("batch", 3, "height", "width")
LARGE = {"height": (16, 26), "width": (20, 24)}


class Residual(nn.Module):
    """The basic block of a ResNet."""

    def __init__(self, given: int, wanted: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(given, wanted, 3, stride, 1, bias=False), nn.BatchNorm2d(wanted), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv2d(wanted, wanted, 3, padding=1, bias=False), nn.BatchNorm2d(wanted))
        self.skip = nn.Sequential(nn.Conv2d(given, wanted, 1, stride, bias=False), nn.BatchNorm2d(wanted))

    def forward(self, x: Any) -> Any:
        return F.relu(self.second(self.first(x)) + self.skip(x))


def _resnet() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    body = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
    return nn.Sequential(stem, body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


def _inverted(channels: int) -> nn.Module:
    wide = channels * 4
    return nn.Sequential(
        *(nn.Conv2d(channels, wide, 1), nn.BatchNorm2d(wide), nn.Hardswish()),
        *(nn.Conv2d(wide, wide, 3, 2, 1, groups=wide), nn.BatchNorm2d(wide), nn.ReLU6()),
        *(nn.Conv2d(wide, channels, 1), nn.BatchNorm2d(channels)),
    )


def _mobilenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), _inverted(8), _inverted(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )


class UNet(nn.Module):
    """A U-Net: down, up, and skip connections across."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._block(3, 8), self._block(8, 16), self._block(16, 16)])
        self.up = nn.ModuleList([self._block(32, 8), self._block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    def _block(self, given: int, wanted: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(given, wanted, 3, padding=1), nn.GroupNorm(2, wanted), nn.SiLU())

    def forward(self, x: Any) -> Any:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = kept.pop()
        for block in self.up:
            skip = kept.pop()
            x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            x = block(torch.cat([x, skip], dim=1))
        return self.head(x)


class Mixer(nn.Module):
    """A block of an MLP-mixer: across patches, then across channels."""

    def __init__(self, patches: int, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(channels), nn.LayerNorm(channels)])
        self.across = nn.Sequential(nn.Linear(patches, 12), nn.GELU(), nn.Linear(12, patches))
        self.within = nn.Sequential(nn.Linear(channels, 16), nn.GELU(), nn.Linear(16, channels))

    def forward(self, x: Any) -> Any:
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norms[1](x))


class MlpMixer(nn.Module):
    """An MLP-mixer: patches, blocks, mean, head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.blocks = nn.Sequential(Mixer(9, 8), Mixer(9, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(dim=1))


class Tagger(nn.Module):
    """Embedding, bidirectional LSTM, one tag per token; padding is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, tokens: Any, mask: Any) -> Any:
        hidden, _ = self.lstm(self.embedding(tokens) * mask.unsqueeze(-1))
        logits = self.head(hidden).masked_fill(mask.unsqueeze(-1) == 0, -4.0)
        return {"logits": logits, "tags": logits.argmax(-1)}


class Translator(nn.Module):
    """A GRU encoder, a GRU decoder, and attention between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.reader = nn.GRU(8, 8, batch_first=True)
        self.writer = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(16, 30)

    def forward(self, source: Any, target: Any) -> Any:
        memory, state = self.reader(self.embedding(source))
        written, _ = self.writer(self.embedding(target), state)
        weights = torch.softmax(written @ memory.transpose(1, 2) / math.sqrt(8), dim=-1)
        return self.head(torch.cat([written, weights @ memory], dim=-1)), weights


def _audio_net() -> nn.Module:
    def block(given: int, wanted: int) -> list[nn.Module]:
        return [nn.Conv1d(given, wanted, 3), nn.BatchNorm1d(wanted), nn.ReLU(), nn.MaxPool1d(4)]

    return nn.Sequential(
        nn.Conv1d(1, 8, 16, stride=4),
        *block(8, 8),
        *block(8, 16),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


class Causal(nn.Module):
    """A block of a WaveNet: a dilated, causal and gated convolution."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.reach = 2 * dilation
        self.gates = nn.Conv1d(8, 16, 3, dilation=dilation)
        self.out = nn.Conv1d(8, 8, 1)

    def forward(self, x: Any) -> Any:
        value, gate = self.gates(F.pad(x, (self.reach, 0))).chunk(2, dim=1)
        return x + self.out(torch.tanh(value) * torch.sigmoid(gate))


def _wavenet() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 8, 1), Causal(1), Causal(2), Causal(4), nn.Conv1d(8, 3, 1))


class Graph(nn.Module):
    """Two rounds of message passing over a dense adjacency matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 8)])
        self.head = nn.Linear(8, 3)

    def forward(self, features: Any, adjacency: Any) -> Any:
        degrees = adjacency.sum(-1, keepdim=True) + 1
        for layer in self.layers:
            features = torch.relu(layer((features + adjacency @ features) / degrees))
        return self.head(features.mean(dim=1))


class Autoencoder(nn.Module):
    """A variational autoencoder: in eval mode it decodes the mean and draws no noise."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 4, 2, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))

    def forward(self, image: Any) -> Any:
        mean, spread = self.encoder(image).chunk(2, dim=1)
        drawn = mean + torch.randn_like(mean) * (spread / 2).exp() if self.training else mean
        return {"image_again": self.decoder(drawn), "mean": mean, "spread": spread}


resnet = entry("vision net", _resnet, x=IMAGE, sizes={"height": (32, 45), "width": (36, 40)})
mobilenet = entry("vision net", _mobilenet, x=IMAGE, sizes=LARGE)
unet = entry("vision net", UNet, x=IMAGE, sizes=LARGE)
mlp_mixer = entry("vision net", MlpMixer, x=floats("batch", 3, 12, 12))
autoencoder = entry("vision net", Autoencoder, image=IMAGE, sizes=LARGE)
lstm_tagger = entry("recurrent net", Tagger, tokens=ints("batch", "seq", below=30), mask=zeros_and_ones("batch", "seq"))
gru_translator = entry(
    "recurrent net", Translator, source=ints("batch", "seq", below=30), target=ints("batch", "keys", below=30)
)
audio_net = entry(
    "audio net",
    _audio_net,
    x=floats("batch", 1, "samples"),
    ends="batch-baked",
    why="MaxPool1d: torch.export turns the length of the example into a constant",
)
wavenet = entry("audio net", _wavenet, x=floats("batch", 1, "time"))
graph_net = entry(
    "graph net", Graph, features=floats("batch", "nodes", 6), adjacency=floats("batch", "nodes", "nodes", low=0, high=1)
)
