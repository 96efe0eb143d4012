"""PyTorch's fast path for transformers: padded positions become 0 there, and have other values in any ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.models

TAGGER = """
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, nested):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        return self.head(self.encoder(self.embed(ids), src_key_padding_mask=ids == 0))


def fast():
    return Tagger(True).eval()


def ordinary():
    return Tagger(False).eval()
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Both, on rows that end with padding: the user's, and those that the gate makes."""
    folder: Path = tmp_path_factory.mktemp("fast")
    (folder / "tagger.py").write_text(TAGGER)
    rows = np.random.default_rng(0).integers(1, 50, (12, 9))
    for number, row in enumerate(rows):
        row[3 + number % 6 :] = 0
    np.savez(folder / "rows.npz", ids=rows)
    keys = "framework: torch, inputs: {ids: {dtype: int64, shape: [batch, 9]}}, batches: [1, 4]"
    entries = [
        f"  - {{id: {name}{suffix}, source: 'tagger.py:{name}', {keys}{data}}}"
        for name in ("fast", "ordinary")
        for suffix, data in (("", ", data: rows.npz"), ("-generated", ""))
    ]
    return run_manifest(folder, "version: 1\nmodels:\n" + "\n".join(entries) + "\n")


@pytest.mark.parametrize("name", ["fast", "fast-generated"])
def test_the_fast_path_is_named(models: Run, name: str) -> None:
    """With the module that takes it, and with what makes both sides agree; without data, too."""
    found = models[name]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.CONVERSION)
    assert "a fast path for transformers" in found.advice
    assert "`encoder` answers differently" in found.advice
    assert "enable_nested_tensor=False" in found.advice


@pytest.mark.parametrize("name", ["ordinary", "ordinary-generated"])
def test_what_it_says_works(models: Run, name: str) -> None:
    """The same model without it passes on the same rows."""
    assert models[name].verdict is Status.PASSED, models[name].advice
