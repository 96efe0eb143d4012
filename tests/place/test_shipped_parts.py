"""Shipped networks of more kinds: the cause follows from what the wrong part is for, and from what the file stores."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any

import onnx
import pytest
import torch

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest
from tests.place.shipped import ship

NET = dedent("""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.into, self.out = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)

        def forward(self, x):
            return x + self.out(torch.tanh(self.into(self.norm(x))))

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.first = nn.Embedding(20, 8), nn.Parameter(torch.randn(1, 1, 8))
            self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
            self.blocks, self.head, self.far = nn.ModuleList([Block() for _ in range(3)]), nn.Linear(8, 3), -1e4

        def forward(self, tokens, mask):
            x = self.table(tokens)
            scores = self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5
            x = x + torch.softmax(scores + (1 - mask.float())[:, None, :] * self.far, -1) @ self.value(x)
            x = torch.cat([self.first.expand(tokens.shape[0], -1, -1), x], 1)
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean(1))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Conv2d(2, 6, 3, 2, 1), nn.ConvTranspose2d(6, 4, 4, 2, 1)
            self.norm, self.last = nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1)

        def forward(self, x):
            return self.last(torch.relu(self.norm(self.up(torch.relu(self.down(x))))))

    def made(kind):
        torch.manual_seed(0)
        net = kind()
        with torch.no_grad():
            for value in net.state_dict().values():
                if value.dtype.is_floating_point:
                    value += 0.2 * torch.rand_like(value)
        return net.eval()

    def masked():
        return made(Masked)

    def decoder():
        return made(Decoder)
""")
TOKENS = (
    "tokens: {dtype: int64, shape: [batch, 6], range: [0, 19]}, mask: {dtype: int64, shape: [batch, 6], range: [0, 1]}"
)
PIXELS = "x: {dtype: float32, shape: [batch, 2, 8, 8]}"


def far(net: Any) -> None:
    """Masked tokens count almost as much as the others."""
    net.far = -1.0


def first(net: Any) -> None:
    """Another vector before all tokens."""
    net.first.mul_(-1)


def other_block(net: Any) -> None:
    """The second block is the third once more."""
    net.blocks[1].load_state_dict(net.blocks[2].state_dict())


def turned(net: Any) -> None:
    """A kernel as another framework stores it."""
    net.up.weight.copy_(net.up.weight.flip(2, 3))


def statistics(net: Any) -> None:
    """Running statistics of an earlier epoch, in a file that stores the normalisation beside the layer."""
    net.norm.running_var.mul_(2)


def epsilon(net: Any) -> None:
    """Another epsilon in such a file."""
    net.norm.eps = 0.1


def around(net: Any) -> None:
    """The first layer reads the other side of the picture beyond its border."""
    other = torch.nn.Conv2d(2, 6, 3, 2, 1, padding_mode="circular")
    other.load_state_dict(net.down.state_dict())
    net.down = other


WRONG = {
    "far": (far, "masked", Cause.OPERATOR),
    "first": (first, "masked", Cause.WEIGHTS),
    "other_block": (other_block, "masked", Cause.WEIGHTS),
    "turned": (turned, "decoder", Cause.WEIGHTS),
    "statistics": (statistics, "decoder", Cause.WEIGHTS),
    "epsilon": (epsilon, "decoder", Cause.OPERATOR),
    "around": (around, "decoder", Cause.OPERATOR),
    "masked": (None, "masked", None),
    "decoder": (None, "decoder", None),
}


def write(folder: Path, nets: Any, name: str) -> None:
    """Export the changed network with torch alone."""
    change, kind, _ = WRONG[name]
    net = getattr(nets, kind)()
    if change:
        with torch.no_grad():
            change(net)
    tokens = (torch.zeros(2, 6, dtype=torch.int64), torch.ones(2, 6, dtype=torch.int64))
    example, names = (tokens, ["tokens", "mask"]) if kind == "masked" else ((torch.zeros(2, 2, 8, 8),), ["x"])
    axes = {each: {0: "batch"} for each in [*names, "output"]}
    path = folder / "plain.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, example, str(path), dynamo=False, input_names=names, output_names=["output"], dynamic_axes=axes
        )
    ship(onnx.load(path), folder / f"{name}.onnx")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    """All files in one run."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "net.py").write_text(NET)
    spec = importlib.util.spec_from_file_location("nets_of_parts", folder / "net.py")
    assert spec and spec.loader
    nets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nets)
    entries = []
    for name, (_, kind, _) in WRONG.items():
        write(folder, nets, name)
        inputs = TOKENS if kind == "masked" else PIXELS
        entries.append(
            f"  - {{id: {name}, framework: torch, source: 'net.py:{kind}', onnx: {name}.onnx, "
            f"batches: [1, 9], inputs: {{{inputs}}}}}"
        )
    text = "version: 1\nmodels:\n" + "\n".join(entries)
    return {model.id: model for model in run_manifest(folder, text).result.models}


@pytest.mark.parametrize("name", [name for name, (change, _, _) in WRONG.items() if change is None])
def test_the_right_file_passes(found: dict[str, ModelResult], name: str) -> None:
    """The look-alikes."""
    assert found[name].verdict is Status.PASSED, found[name].advice


@pytest.mark.parametrize("name", [name for name, (change, _, _) in WRONG.items() if change])
def test_the_cause_is_named_and_mended(found: dict[str, ModelResult], name: str) -> None:
    """With a file that passes."""
    model = found[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, WRONG[name][2]), (model.error, model.advice)
    assert model.mended and model.mended.passes, model.advice


def test_the_tensor_is_named_where_the_file_stores_the_normalisation(found: dict[str, ModelResult]) -> None:
    """The converter of this run computes it into the layer before; the file of the user does not."""
    assert "`norm.running_var` of the source" in found["statistics"].advice
    assert "`up.weight` of the source" in found["turned"].advice
    assert "`epsilon` of BatchNormalization" in found["epsilon"].advice


def test_of_equal_weights_the_block_that_should_have_others_is_named(found: dict[str, ModelResult]) -> None:
    """No other block, and no nodes: only weights differ."""
    place = found["other_block"].place
    assert place is not None
    assert {fault.module.rpartition(".")[0] for fault in place.faults} == {"blocks.1"}
    assert {fault.cause for fault in place.faults} == {Cause.WEIGHTS}
