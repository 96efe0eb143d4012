"""Sizes that a shipped file fixes: said where the source answers others, and nothing is said where it doesn't."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.models

NETS = """
import torch
from torch import nn


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(300, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids, weights):
        return self.head((self.table(ids) * weights.unsqueeze(-1)).mean(dim=1))


class Columns(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(x)


def bag():
    return Bag().eval()


def columns():
    return Columns().eval()
"""


def export(net: Any, example: tuple[Any, ...], path: Path) -> None:
    """As a user would, with a batch that varies and nothing else."""
    names = ["ids", "weights"][: len(example)] if len(example) > 1 else ["x"]
    shapes = {name: {0: torch.export.Dim("batch")} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(net, example, dynamo=True, dynamic_shapes=shapes, input_names=names)
    assert program is not None
    program.save(str(path))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A bag of ids whose file fixes the length, and a layer that has as many columns as its file."""
    folder: Path = tmp_path_factory.mktemp("fixed")
    (folder / "nets.py").write_text(NETS)
    module: dict[str, Any] = {}
    exec(NETS, module)
    export(module["bag"](), (torch.ones(2, 16, dtype=torch.long), torch.ones(2, 16)), folder / "bag.onnx")
    export(module["columns"](), (torch.ones(2, 16),), folder / "columns.onnx")
    stated = "inputs: {ids: {dtype: int64, shape: [batch, 16]}, weights: {dtype: float32, shape: [batch, 16]}}"
    return run_manifest(
        folder,
        f"""
version: 1
models:
  - {{id: bag, source: 'nets.py:bag', framework: torch, onnx: bag.onnx}}
  - {{id: stated, source: 'nets.py:bag', framework: torch, onnx: bag.onnx, {stated}}}
  - {{id: columns, source: 'nets.py:columns', framework: torch, onnx: columns.onnx}}
""",
    )


def told(models: Run, name: str) -> list[str]:
    """The warnings of a model about sizes; it passes."""
    assert models[name].verdict is Status.PASSED, models[name].advice
    coverage = models[name].coverage
    assert coverage is not None
    return [text for text in coverage.warnings if "fixes" in text]


def test_a_length_that_only_the_file_fixes_is_said(models: Run) -> None:
    """Both inputs are made shorter together, since the source takes ids and weights of one length only."""
    (text,) = told(models, "bag")
    assert "fixes dimension 1 of `ids` and dimension 1 of `weights` at 16, and the source answers 15, too" in text


def test_its_line_says_that_one_length_is_meant(models: Run) -> None:
    """The line is the one of the second model, which has no warning."""
    line = re.search(r"add `(inputs: .*)` if 16", told(models, "bag")[0])
    assert line
    assert line[1] == "inputs: {ids: {dtype: int64, shape: [batch, 16]}, weights: {dtype: float32, shape: [batch, 16]}}"
    assert told(models, "stated") == []


def test_a_width_that_the_source_fixes_too_is_not_said(models: Run) -> None:
    """A linear layer takes as many columns as it has weights."""
    assert told(models, "columns") == []
