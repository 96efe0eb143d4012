"""Modules that export without errors but answer differently, or only look like models; each has its known failure."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from sweeps.torch_entry import entry, floats, function

STEPS = floats("batch", "seq", 6)


class Counting(nn.Module):
    """Keeps state in a buffer."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x + self.calls


def _masked_as_a_whole(x: Any) -> Any:
    heads = x.unflatten(-1, (2, 3)).transpose(1, 2)
    mask = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
    return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)


int_of_shape = function(
    "trap",
    lambda x: x.reshape(int(x.shape[0]), 2, 3).sum(1),
    x=floats("batch", 6),
    ends="batch-baked",
    why="int(x.shape[0]) turns the batch of the example into a constant",
)
special_at_one = function(
    "trap",
    lambda x: x * 3 if x.shape[0] == 1 else x * 2,
    x=floats("batch", 6),
    ends="batch-baked",
    why="the branch of the example's batch is exported, that of batch 1 is not",
)
masked_as_a_whole = function(
    "trap", _masked_as_a_whole, x=STEPS, ends="operator", why="torch answers 0 for a row that is masked as a whole"
)
logaddexp_large = function(
    "trap",
    torch.logaddexp,
    x=floats("batch", 6, low=90, high=110),
    y=floats("batch", 6, low=90, high=110),
    ends="nan",
    why="exported as log(exp(x) + exp(y)), which overflows",
)
log1p_tiny = function(
    "trap",
    lambda x: torch.log1p(x) * 1e8,
    x=floats("batch", "seq", 6, low=1e-9, high=1e-8),
    ends="precision",
    why="exported as log(1 + x), where x is lost",
)
expm1_tiny = function(
    "trap",
    lambda x: torch.expm1(x) * 1e8,
    x=floats("batch", "seq", 6, low=1e-9, high=1e-8),
    ends="precision",
    why="exported as exp(x) - 1, where x is lost",
)
random_noise = function(
    "trap", lambda x: x + torch.rand_like(x), x=STEPS, ends="nondeterministic", why="random in eval mode"
)
counts_calls = entry("trap", Counting, x=STEPS, ends="nondeterministic", why="a buffer changes with each call")
half_sum = function(
    "trap",
    lambda x: x.sum(dim=-1),
    x=floats("batch", "seq", 6, dtype="float16"),
    ends="contract",
    why="the exported sum of halves is float32",
)
python_numbers = function("trap", lambda x: (x * 2, 3), x=STEPS, ends="load-failed", why="an output that is no tensor")
