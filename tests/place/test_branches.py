"""Networks with a branch for exporters: what the source is made with, and what it hasn't got, name a single node."""

from __future__ import annotations

from textwrap import dedent

import pytest

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest

NET = dedent("""
    import copy

    import torch
    from torch import nn

    class Branch(nn.Module):
        def __init__(self, usual, exported):
            super().__init__()
            self.usual, self.exported = usual, exported

        def forward(self, x):
            exporting = torch.compiler.is_exporting() or torch.jit.is_tracing()
            return self.exported(x) if exporting else self.usual(x)

    class Scale(nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.flip = flip

        def forward(self, x):
            x = x.flip(1) if self.flip else x
            return (x * 0.25 - 0.3) / 0.7

    class Half(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = copy.deepcopy(layer).half()

        def forward(self, x):
            return self.layer(x.half()).float()

    class Eight(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            x = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
            return torch.fake_quantize_per_tensor_affine(self.layer(x), 0.08, 0, -128, 127)

    def net(name, change):
        torch.manual_seed(0)
        parts = {
            "scale": Scale(False), "conv": nn.Conv2d(4, 8, 3, padding=1), "norm": nn.GroupNorm(2, 8), "act": nn.Tanh(),
            "flat": nn.Flatten(), "hidden": nn.Linear(8 * 16, 12), "relu": nn.ReLU(), "head": nn.Linear(12, 3),
        }
        if name:
            parts[name] = Branch(parts[name], change(parts[name]))
        return nn.Sequential(__import__("collections").OrderedDict(parts)).eval()

    def right(): return net("", None)
    def epsilon(): return net("norm", lambda norm: nn.GroupNorm(2, 8, eps=0.5))
    def flipped(): return net("scale", lambda scale: Scale(True))
    def half(): return net("hidden", Half)
    def eight(): return net("hidden", Eight)
    def left_out(): return net("relu", lambda relu: nn.Identity())
""")
NAMES = ("right", "epsilon", "flipped", "half", "eight", "left_out")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("branches")
    (folder / "net.py").write_text(NET)
    entries = [
        f"  - {{id: {name}, framework: torch, source: 'net.py:{name}', batches: [1, 9], "
        "convert: {exporter: torchscript}, inputs: {x: {dtype: float32, shape: [batch, 4, 4, 4]}}}"
        for name in NAMES
    ]
    text = "version: 1\nmodels:\n" + "\n".join(entries)
    return {model.id: model for model in run_manifest(folder, text).result.models}


@pytest.mark.parametrize(
    ("name", "cause", "module", "ops"),
    [
        ("epsilon", Cause.OPERATOR, "norm", ["InstanceNormalization"]),
        ("flipped", Cause.PREPROCESSING, "scale", ["Slice"]),
        ("half", Cause.QUANTISED, "hidden", ["Cast", "Gemm", "Cast"]),
        ("left_out", Cause.OPERATOR, "relu", []),
    ],
)
def test_the_place_is_no_larger_than_the_fault(
    found: dict[str, ModelResult], name: str, cause: Cause, module: str, ops: list[str]
) -> None:
    """A node that the source hasn't got, an attribute that it has otherwise; nothing where a part is missing."""
    model = found[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, cause), (model.error, model.advice)
    assert model.place is not None
    (fault,) = model.place.faults
    assert (fault.module.partition(".")[0], [node.op for node in fault.nodes]) == (module, ops)
    assert fault.reads and fault.value


def test_rounding_to_eight_bits_is_seen_by_leaving_it_out(found: dict[str, ModelResult]) -> None:
    """However far it is off: before the layer and behind it, each a place of its own."""
    model = found["eight"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.QUANTISED), (model.error, model.advice)
    assert model.place is not None
    assert {fault.module.partition(".")[0] for fault in model.place.faults} == {"hidden"}
    ops = [[node.op for node in fault.nodes] for fault in model.place.faults]
    assert ops == [["QuantizeLinear", "DequantizeLinear"]] * 2


def test_the_attribute_is_named_with_the_sources_own(found: dict[str, ModelResult]) -> None:
    """And where the file has nodes too many, these are."""
    place = found["epsilon"].place
    assert place is not None
    assert "is 0.5, in the source it is 1e-05" in place.faults[0].what
    assert "the file has Slice here, and the source hasn't" in found["flipped"].advice


def test_what_is_missing_is_said_to_be(found: dict[str, ModelResult]) -> None:
    """Without an operator: nobody knows which the converter would have written."""
    place = found["left_out"].place
    assert place is not None
    assert place.faults[0].what.endswith("and the file has nothing there")


def test_the_right_network_passes(found: dict[str, ModelResult]) -> None:
    """The look-alike of them all."""
    assert found["right"].verdict is Status.PASSED, found["right"].advice
