"""Faults of a network: one of its modules is replaced by a wrong one. Factories import this."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from sweeps.sabotage.fragile import Batchwise, FakeQuantised, Flipped, Half, Logarithm, Rearranged, Unit
from sweeps.sabotage.layers import Attention, Normalize, Positions, Residual, Shuffle

Random = np.random.Generator
LEARNT = (nn.Linear, nn.Conv2d, nn.Embedding, nn.LSTM, nn.GRU)
NORMS = (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
ACTIVATIONS = (nn.GELU, nn.ReLU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Tanh, nn.Hardswish, nn.ReLU6)
OTHERS = (nn.ReLU, nn.GELU, nn.SiLU, nn.Softplus, nn.Tanh)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One kind of fault."""

    cause: str
    """The cause that the gate should name."""
    words: str
    """Description for the page."""
    at: Callable[[str, nn.Module], bool]
    """Whether the module at this path can have this fault; the path of the whole network is empty."""
    make: Callable[[Any, Random], nn.Module]
    """Turns a copy of the module into the wrong one."""
    placed: bool = True
    """Whether the fault has a place that can be found."""


def places(net: nn.Module, change: Change) -> list[str]:
    """Paths of all modules that can have this fault."""
    return [path for path, module in net.named_modules() if change.at(path, module)]


def changed(net: nn.Module, name: str, path: str, seed: int) -> nn.Module:
    """A wrong copy of the network."""
    wrong = copy.deepcopy(net)
    part = CHANGES[name].make(wrong.get_submodule(path), np.random.default_rng(seed))
    return put(wrong, path, part)


def put(net: nn.Module, path: str, part: nn.Module) -> nn.Module:
    """The network with another part at this path; an empty path replaces the whole network."""
    if not path:
        return part.eval()
    parent, _, name = path.rpartition(".")
    setattr(net.get_submodule(parent), name, part)
    return net.eval()


def _as_module(module: Any) -> nn.Module:
    assert isinstance(module, nn.Module)
    return module


def _of(*kinds: type) -> Callable[[str, nn.Module], bool]:
    return lambda path, module: isinstance(module, kinds)


def _whole(path: str, module: nn.Module) -> bool:
    return not path


@torch.no_grad()
def _stale(module: nn.Module, random: Random) -> nn.Module:
    """A module from an older checkpoint: all weights are slightly different."""
    share = float(random.uniform(0.1, 0.4))
    for parameter in module.parameters():
        size = parameter.std() if parameter.numel() > 1 else parameter.abs().mean()
        noise = torch.from_numpy(random.standard_normal(tuple(parameter.shape))).to(parameter.dtype)
        parameter.add_(share * size * noise)
    return module


@torch.no_grad()
def _row(module: Any, random: Random) -> nn.Module:
    """A module in which one unit has other weights."""
    row = int(random.integers(len(module.weight)))
    drawn = random.standard_normal(tuple(module.weight.shape[1:])) * float(module.weight.std())
    module.weight[row] = torch.from_numpy(drawn).to(module.weight.dtype)
    return _as_module(module)


def _statistics(module: Any, random: Random) -> nn.Module:
    """A module with the running statistics of an earlier epoch."""
    module.running_mean.add_(torch.from_numpy(random.normal(0, 0.2, len(module.running_mean))).float())
    module.running_var.mul_(torch.from_numpy(random.uniform(0.6, 1.6, len(module.running_var))).float())
    return _as_module(module)


def _epsilon(module: Any, random: Random) -> nn.Module:
    module.eps = float(random.choice([1e-3, 1e-2, 1e-1])) if module.eps < 1e-3 else 1e-5
    return _as_module(module)


def _other_activation(module: nn.Module, random: Random) -> nn.Module:
    others = [kind for kind in OTHERS if not isinstance(module, kind)]
    made: nn.Module = others[int(random.integers(len(others)))]()
    return made


def _slope(module: Any, random: Random) -> nn.Module:
    if isinstance(module, nn.LeakyReLU):
        return nn.LeakyReLU(0.01 if module.negative_slope != 0.01 else 0.3)
    return nn.ELU(0.5)


def _aligned(module: Any, random: Random) -> nn.Module:
    return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=not module.align_corners)


def _mode(module: Any, random: Random) -> nn.Module:
    if module.mode == "bilinear":
        return nn.Upsample(scale_factor=2, mode="nearest")
    return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)


def _padding(module: Any, random: Random) -> nn.Module:
    mode: Any = str(random.choice(["reflect", "replicate", "circular"]))
    made = nn.Conv2d(
        *(module.in_channels, module.out_channels, module.kernel_size),
        stride=module.stride,
        padding=module.padding,
        groups=module.groups,
        bias=module.bias is not None,
        padding_mode=mode,
    )
    made.load_state_dict(module.state_dict())
    return made


def _pooling(module: Any, random: Random) -> nn.Module:
    if isinstance(module, nn.MaxPool2d):
        return nn.AvgPool2d(module.kernel_size, module.stride, module.padding)
    return nn.AvgPool2d(module.kernel_size, module.stride, module.padding, count_include_pad=False)


def _heads(module: Any, random: Random) -> nn.Module:
    module.heads //= 2
    return _as_module(module)


def _scale(module: Any, random: Random) -> nn.Module:
    module.scale = 1.0
    return _as_module(module)


def _causal(module: Any, random: Random) -> nn.Module:
    module.causal = not module.causal
    return _as_module(module)


def _other_statistics(module: Any, random: Random) -> nn.Module:
    if module.scale is not None:
        return Normalize((0.5,) * 3, (0.5,) * 3, scale=module.scale)
    count = module.mean.numel()
    mean, std = module.mean.flatten().numpy(), module.std.flatten().numpy()
    return Normalize((mean + random.normal(0, 0.3, count)).tolist(), (std * random.uniform(0.6, 1.6, count)).tolist())


def _pixels(module: Any, random: Random) -> nn.Module:
    module.scale = 1.0
    return _as_module(module)


def derangement(count: int, random: Random) -> list[int]:
    """A random order in which at least two elements change places."""
    order = list(range(count))
    while order == list(range(count)):
        order = random.permutation(count).tolist()
    return order


@torch.no_grad()
def _columns(net: Any, random: Random) -> nn.Module:
    """A network that was trained on the columns in another order."""
    order = derangement(net.stem.in_features, random)
    net.stem.weight.copy_(net.stem.weight[:, order])
    if hasattr(net, "prep"):
        net.prep.mean.copy_(net.prep.mean[:, order])
        net.prep.std.copy_(net.prep.std[:, order])
    return _as_module(net)


@torch.no_grad()
def _labels(module: Any, random: Random) -> nn.Module:
    """A module with the classes in another order, as if folders were listed in another order."""
    linear = module if isinstance(module, nn.Linear) else module[0]
    order = derangement(linear.out_features, random)
    linear.weight.copy_(linear.weight[order])
    linear.bias.copy_(linear.bias[order])
    return _as_module(module)


def _features(path: str, module: nn.Module) -> bool:
    return not path and isinstance(getattr(module, "stem", None), nn.Linear) and not hasattr(module, "rnn")


def _heads_of(net: nn.Module) -> tuple[str, ...]:
    return tuple(getattr(net, "heads", ())) if not isinstance(net, Attention) else ()


def _last_softmax(path: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Softmax) and path.startswith("head")


def _images(path: str, module: nn.Module) -> bool:
    return isinstance(module, Normalize) and module.scale is not None


def _wide_attention(path: str, module: nn.Module) -> bool:
    return isinstance(module, Attention)


def _operator(words: str, at: Callable[[str, nn.Module], bool], make: Callable[[Any, Random], nn.Module]) -> Change:
    return Change(cause="operator", words=words, at=at, make=make)


def _prep(words: str, at: Callable[[str, nn.Module], bool], make: Callable[[Any, Random], nn.Module]) -> Change:
    return Change(cause="preprocessing", words=words, at=at, make=make)


def _nothing(module: nn.Module, random: Random) -> nn.Module:
    return nn.Identity()


CHANGES: Mapping[str, Change] = {
    "stale": Change(cause="weights", words="one layer of an older checkpoint", at=_of(*LEARNT), make=_stale),
    "row": Change(cause="weights", words="one unit has other weights", at=_of(nn.Linear, nn.Conv2d), make=_row),
    "statistics": Change(
        cause="weights", words="running statistics of an earlier epoch", at=_of(*BATCH_NORMS), make=_statistics
    ),
    "retrained": Change(cause="weights", words="exported after another training", at=_whole, make=_stale, placed=False),
    "epsilon": _operator("another epsilon", _of(*NORMS), _epsilon),
    "gelu": _operator("GELU by tanh", _of(nn.GELU), lambda *_: nn.GELU(approximate="tanh")),
    "activation": _operator("another activation", _of(*ACTIVATIONS), _other_activation),
    "no-activation": _operator("an activation left out", _of(*ACTIVATIONS), _nothing),
    "slope": _operator("another slope", _of(nn.LeakyReLU, nn.ELU), _slope),
    "align": _operator("align_corners", lambda path, module: getattr(module, "mode", "") == "bilinear", _aligned),
    "resize": _operator("another way to upsample", _of(nn.Upsample), _mode),
    "padding": _operator(
        "another padding", lambda path, module: isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1, _padding
    ),
    "pooling": _operator("another pooling", _of(nn.MaxPool2d, nn.AvgPool2d), _pooling),
    "no-softmax": _operator("the last softmax left out", _last_softmax, _nothing),
    "axis": _operator(
        "softmax over another axis",
        lambda path, module: isinstance(module, nn.Softmax) and "head" not in path,
        lambda *_: nn.Softmax(-2),
    ),
    "no-norm": _operator("a normalisation left out", _of(*NORMS), _nothing),
    "no-residual": _operator("a residual connection left out", _of(Residual), lambda module, _: module.body),
    "heads": _operator("another number of heads", _wide_attention, _heads),
    "scale": _operator("attention without its scale", _wide_attention, _scale),
    "causal": _operator("a mask more or less", _wide_attention, _causal),
    "groups": _operator("another number of groups", _of(Shuffle), lambda module, _: Shuffle(module.groups * 2)),
    "no-positions": _operator("positions left out", _of(Positions), _nothing),
    "no-prep": _prep("the scaling of the inputs left out", _of(Normalize), _nothing),
    "other-prep": _prep("scaled by another mean and deviation", _of(Normalize), _other_statistics),
    "pixels": _prep("not divided by 255", _images, _pixels),
    "bgr": _prep("blue and red swapped", _images, lambda module, _: Flipped(module)),
    "columns": Change(
        cause="column-order", words="columns in another order", at=_features, make=_columns, placed=False
    ),
    "labels": Change(
        cause="label-order",
        words="classes in another order",
        at=lambda path, module: path == "head" and isinstance(module, nn.Linear | nn.Sequential),
        make=_labels,
        placed=False,
    ),
    "outputs": Change(
        cause="output-order",
        words="two outputs swapped",
        at=lambda path, module: not path and len(_heads_of(module)) > 1,
        make=lambda net, _: Rearranged(net, [1, 0, *range(2, len(net.heads))]),
        placed=False,
    ),
    "deeper": Change(
        cause="contract",
        words="answers with one dimension more",
        at=_whole,
        make=lambda net, _: Rearranged(net, range(len(net.heads)), deep=True),
        placed=False,
    ),
    "fewer": Change(
        cause="contract",
        words="an output less",
        at=lambda path, module: not path and len(_heads_of(module)) > 2,
        make=lambda net, _: Rearranged(net, range(len(net.heads) - 1)),
        placed=False,
    ),
    "training": Change(
        cause="train-mode",
        words="normalised by the statistics of the batch",
        at=_of(*BATCH_NORMS),
        make=lambda module, _: Batchwise(module),
        placed=False,
    ),
    "half": Change(
        cause="quantised", words="a layer in float16", at=_of(nn.Linear), make=lambda module, _: Half(module)
    ),
    "fake-quantised": Change(
        cause="quantised",
        words="a layer with 8 bits",
        at=_of(nn.Linear),
        make=lambda module, _: FakeQuantised(module),
    ),
    "unsafe-unit": Change(
        cause="nan", words="0 by 0 for rows of zeros", at=_of(Unit), make=lambda *_: Unit(safe=False), placed=False
    ),
    "unsafe-log": Change(
        cause="nan",
        words="logarithm of negative numbers",
        at=_of(Logarithm),
        make=lambda *_: Logarithm(safe=False),
        placed=False,
    ),
}
"""Every fault of a network by name."""
