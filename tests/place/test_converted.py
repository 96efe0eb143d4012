"""A model that its converter translates wrongly: the place is found from the source's own values."""

from __future__ import annotations

from textwrap import dedent

import pytest

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import run_manifest

NET = dedent("""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x):
            return x + torch.erf(self.linear(self.norm(x)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block() for _ in range(4)])
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            for block in self.blocks[:2]:
                x = block(x)
            x = torch.sinh(x)
            for block in self.blocks[2:]:
                x = block(x)
            return self.head(x)

    class Cancelled(nn.Module):
        def __init__(self):
            super().__init__()
            self.prices, self.head = nn.Linear(64, 64), nn.Linear(64, 3)

        def forward(self, x):
            prices = self.prices(x) + 1e5
            average = prices.mean(-1, keepdim=True)
            centred = prices - average
            return self.head(centred)

    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.large, self.small = nn.Linear(8, 1), nn.Linear(8, 1)

        def forward(self, x):
            return torch.cat([1e6 * self.large(x), torch.sinh(self.small(x))], -1)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 3)

        def forward(self, x):
            return self.linear(x) * (1.5 if torch.onnx.is_in_onnx_export() else 1.0)

    def scaled():
        torch.manual_seed(0)
        return Scaled().eval()

    def beside():
        torch.manual_seed(0)
        return Beside().eval()

    def doubled():
        from onnxscript import opset18 as op

        def sinh(x):
            return op.Sub(op.Exp(x), op.Exp(op.Neg(x)))

        return {torch.ops.aten.sinh.default: sinh}

    def cancelled():
        torch.manual_seed(0)
        return Cancelled().eval()

    def load():
        torch.manual_seed(0)
        return Net().eval()

    def translations():
        from onnxscript import opset18 as op

        def sinh(x):
            return op.Mul(op.Sub(op.Exp(x), op.Exp(op.Neg(x))), 0.51)

        return {torch.ops.aten.sinh.default: sinh}
""")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, ModelResult]:
    """With a translation of the user's that is off by 2 %, and with large numbers that cancel out."""
    folder = tmp_path_factory.mktemp("converted")
    (folder / "net.py").write_text(NET)
    text = """
        version: 1
        models:
          - id: sinh
            framework: torch
            source: net.py:load
            register: net.py:translations
            inputs: {x: {dtype: float32, shape: [batch, 8]}}
            batches: [1, 4]
          - id: beside
            framework: torch
            source: net.py:beside
            register: net.py:doubled
            inputs: {x: {dtype: float32, shape: [batch, 8], range: [-1, 1]}}
            batches: [16]
          - id: scaled
            framework: torch
            source: net.py:scaled
            inputs: {x: {dtype: float32, shape: [batch, 8]}}
            batches: [16]
          - id: cancelled
            framework: torch
            source: net.py:cancelled
            inputs: {x: {dtype: float32, shape: [batch, 64]}}
            batches: [16]
    """
    return {model.id: model for model in run_manifest(folder, text).result.models}


@pytest.fixture
def found(models: dict[str, ModelResult]) -> ModelResult:
    """The one with the translation."""
    return models["sinh"]


def test_the_place_is_the_translation_that_is_off(found):
    """No more nodes than it has, with the user's line."""
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.OPERATOR), found.advice
    (fault,) = found.place.faults
    assert {node.op for node in fault.nodes} == {"Exp", "Neg", "Sub", "Mul"}
    assert fault.value == "sinh"
    assert fault.line == f"net.py:{NET.splitlines().index('        x = torch.sinh(x)') + 1}"
    assert f"In {fault.line}: " in found.advice
    assert "with the source's value in its place the answers agree" in found.advice


def test_the_error_along_the_graph_begins_there(found):
    """Before it there is rounding only, behind it all is off."""
    names = [point.value for point in found.place.along]
    at = names.index("sinh")
    wrong = [point.error > 8 * point.noise for point in found.place.along]
    assert wrong[at]
    assert not any(wrong[:at])


def test_nothing_is_mended_of_a_file_that_the_gate_made(found):
    """It would be made again as it is."""
    assert found.mended is None


def test_a_small_column_beside_a_large_one_is_no_noise(models):
    """The whole is right to 110 dB, and a tolerance for it would hide that one column is twice what it should be."""
    model = models["beside"]
    assert min(check.snr_db for check in model.checks) > 90
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPERATOR), model.advice
    (fault,) = model.place.faults
    assert fault.value == "sinh"
    assert "atol" not in model.advice


def test_values_of_an_export_that_answers_otherwise_are_not_true(models):
    """The exported program has the right answer, too: before its last step, which the source does not have."""
    model = models["scaled"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPERATOR), model.advice
    (fault,) = model.place.faults
    assert [node.op for node in fault.nodes] == ["Mul"]
    assert "the file has Mul here, and the source hasn't" in fault.what


def test_rounding_that_grows_is_said_to(models):
    """It is made among large numbers, and shows where they are taken away; no part is wrong."""
    model = models["cancelled"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.PRECISION), model.advice
    assert model.place.faults == ()
    names = [point.value for point in model.place.along]
    assert names.index(model.place.born) < names.index(model.place.grows)
    assert model.place.grows.startswith("sub")
    assert f"It is born at `{model.place.born}` and grows most at `{model.place.grows}`." in model.advice
