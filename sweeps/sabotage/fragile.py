"""Parts of networks that have a right form, and a wrong form that looks the same."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from sweeps.sabotage.layers import is_exporting


class Unit(nn.Module):
    """Scales rows to length 1; a row of zeros stays zeros, unless `safe` is off."""

    def __init__(self, *, safe: bool = True) -> None:
        super().__init__()
        self.safe = safe

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        length = x.pow(2).sum(-1, keepdim=True).sqrt()
        return x / (length.clamp_min(1e-6) if self.safe else length)


class Logarithm(nn.Module):
    """The logarithm; numbers that are not above 0 count as a small number, unless `safe` is off."""

    def __init__(self, *, safe: bool = True) -> None:
        super().__init__()
        self.safe = safe

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        return torch.log(x.clamp_min(1e-4) if self.safe else x)


class Spread(nn.Module):
    """The deviation over windows of the features, which have a large offset; `plain` uses the formula that cancels."""

    def __init__(self, offset: float, *, plain: bool) -> None:
        super().__init__()
        self.offset, self.plain = offset, plain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor with the same number of features."""
        moved = torch.stack([x, x.roll(1, -1), x.roll(2, -1)], -1)
        if not self.plain:
            return moved.var(-1, unbiased=False).add(1e-3).sqrt()
        moved = moved + self.offset
        square = moved.pow(2).mean(-1) - moved.mean(-1).pow(2)
        return square.clamp_min(0).add(1e-3).sqrt()


class Peaks(nn.Module):
    """The largest of three neighbours, among negative features with zeros around them.

    With `padded`, the zeros come from a Pad before the pooling: ONNX Runtime's Pad_Fusion makes them the pooling's own
    padding, which never wins. Without it, the pooling pads by itself.
    """

    def __init__(self, *, padded: bool) -> None:
        super().__init__()
        self.padded = padded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        below = (-x.abs() - 0.5)[:, None, None]
        if self.padded:
            return functional.max_pool2d(functional.pad(below, (1, 1, 0, 0)), (1, 3), stride=1)[:, 0, 0]
        return functional.max_pool2d(below, (1, 3), stride=1, padding=(0, 1))[:, 0, 0]


class Waves(nn.Module):
    """Features as waves, as in neural fields; a high frequency amplifies the last digit to the first."""

    def __init__(self, frequency: float) -> None:
        super().__init__()
        self.frequency = frequency

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        return torch.sin(x * self.frequency)


class LogOdds(nn.Module):
    """Converts probabilities back into scores; probabilities close to 1 lose most digits."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        likely = torch.sigmoid(x.tanh() * 2 + self.shift)
        return torch.log(likely / (1 - likely))


class Drift(nn.Module):
    """Keeps a running mean of its inputs, even in eval mode."""

    seen: torch.Tensor

    def __init__(self, pace: float) -> None:
        super().__init__()
        self.pace = pace
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        if self.pace and not is_exporting():
            self.seen.add_(self.pace * (1 + x.detach().abs().mean()))
        return x + self.seen


class Jitter(nn.Module):
    """Adds noise that was not switched off by mistake; exporters leave it out."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        if self.size and not is_exporting():
            return x + self.size * torch.randn_like(x)
        return x * 1.0


class Flat(nn.Module):
    """Flattens rows: with their number as a Python integer, which a trace freezes, or with −1."""

    def __init__(self, *, baked: bool) -> None:
        super().__init__()
        self.baked = baked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor with two dimensions."""
        rows = int(x.shape[0]) if self.baked else -1
        return x.reshape(rows, int(x.shape[-1]))


class Centred(nn.Module):
    """Scales a batch only if it has at least `least` rows: a trace contains only one of the two branches."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape."""
        return x * 0.5 if x.shape[0] >= self.least else x


class Batchwise(nn.Module):
    """A BatchNorm that computes as in training."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The batch, normalised with its own statistics."""
        norm = self.norm
        mean, var = norm.running_mean.clone(), norm.running_var.clone()
        return functional.batch_norm(x, mean, var, norm.weight, norm.bias, True, 0.1, norm.eps)


class Half(nn.Module):
    """A layer in float16."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = copy.deepcopy(layer).half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The answer, back in float32."""
        answered: torch.Tensor = self.layer(x.half()).float()
        return answered


class FakeQuantised(nn.Module):
    """A layer whose inputs and answers are rounded to 8 bits, as quantisation-aware training does."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The answer, on a grid of 256 values."""
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
        answered: torch.Tensor = torch.fake_quantize_per_tensor_affine(self.layer(x), 0.08, 0, -128, 127)
        return answered


class Flipped(nn.Module):
    """Reverses the channels, then calls the next module."""

    def __init__(self, then: nn.Module) -> None:
        super().__init__()
        self.then = then

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The answer to channels in the order blue, green, red."""
        answered: torch.Tensor = self.then(x.flip(1))
        return answered


class Taken(nn.Module):
    """Reorders the columns, then calls the next module."""

    order: torch.Tensor

    def __init__(self, order: Sequence[int], then: nn.Module) -> None:
        super().__init__()
        self.register_buffer("order", torch.tensor(order))
        self.then = then

    def forward(self, x: torch.Tensor) -> Any:
        """The answer of the next module."""
        return self.then(x.index_select(1, self.order))


class Rearranged(nn.Module):
    """Returns some answers of a network, in another order or with another shape."""

    def __init__(self, net: nn.Module, order: Sequence[int], *, deep: bool = False) -> None:
        super().__init__()
        self.net, self.order, self.deep = net, tuple(order), deep

    def forward(self, x: torch.Tensor) -> Any:
        """One tensor, or several."""
        answers = self.net(x)
        answers = answers if isinstance(answers, tuple) else (answers,)
        chosen = tuple(answers[number].unsqueeze(1) if self.deep else answers[number] for number in self.order)
        return chosen if len(chosen) > 1 else chosen[0]


class Deploy(nn.Module):
    """One module for training and evaluation, and another "for deployment", which the exporter uses."""

    def __init__(self, usual: nn.Module, exported: nn.Module) -> None:
        super().__init__()
        self.usual, self.exported = usual, exported

    def forward(self, x: torch.Tensor) -> Any:
        """The answer of the module in use."""
        return self.exported(x) if is_exporting() else self.usual(x)
