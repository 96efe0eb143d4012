"""Rounding is no cause where the measured noise is far below the error."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from onnx_gate.records.found import Triage
from onnx_gate.records.ran import Noise
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.triage.precision import refute
from tests.conftest import run_manifest

MODULE = """
import torch

class Both(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.last, self.factor = torch.nn.Linear(6, 3), factor

    def forward(self, x):
        far = x[:, :1] * 1e6 + 1e8 - 1e8
        return torch.cat([far, self.last(x) * self.factor], 1)

def make(factor=1.0):
    torch.manual_seed(0)
    return Both(factor).eval()
"""
INPUTS = "inputs: {x: {dtype: float32, shape: [batch, 6]}}"


def noise(times: float, *, complete: bool = True) -> Noise:
    return Noise(provider="cpu", output="y", rtol=1e-6, atol=1e-8, times=times, ways=("a",), calls=1, complete=complete)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_error_beside_a_large_column_is_not_called_rounding(tmp_path: Path) -> None:
    """0.3 % of the small columns, and 170 dB below the signal of all: no tolerance is offered that would hide it."""
    (tmp_path / "both.py").write_text(MODULE)
    names: dict[str, object] = {}
    exec(MODULE, names)
    wrong = names["make"](1.003)  # type: ignore[operator]
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    torch.onnx.export(
        wrong, (torch.zeros(2, 6),), str(tmp_path / "wrong.onnx"), dynamo=False, dynamic_axes=axes,
        input_names=["x"], output_names=["y"], opset_version=17,
    )  # fmt: skip
    run = run_manifest(
        tmp_path,
        f"version: 1\nmodels: [{{id: wrong, framework: torch, source: 'both.py:make', onnx: wrong.onnx, {INPUTS}}}]\n",
    )
    (model,) = run.result.models
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.CONVERSION), model.advice
    assert "times what rounding explains" in model.advice
    assert "atol" not in model.advice


@pytest.mark.parametrize(
    ("cause", "noises", "refuted"),
    [
        (Cause.TOLERANCE, [noise(2_570)], True),
        (Cause.TOLERANCE, [noise(2), noise(2_570)], True),
        (Cause.TOLERANCE, [noise(20)], False),
        (Cause.TOLERANCE, [noise(2_570, complete=False)], False),
        (Cause.TOLERANCE, [noise(math.inf)], False),
        (Cause.TOLERANCE, [], False),
        (Cause.PRECISION, [noise(2_570)], False),
    ],
)
def test_only_a_clear_measurement_refutes(cause: Cause, noises: list[Noise], refuted: bool) -> None:
    """An error of a few times the noise, or one that was measured in part, may be rounding."""
    found = Triage(cause=cause, advice="looks like rounding")
    other = refute(found, noises, shipped=True, recorded=False)
    assert (other is not None) is refuted
    if other:
        assert other == replace(found, cause=Cause.CONVERSION, advice=other.advice)
        assert "2,570 times" in other.advice
