"""Models of transformers are ordinary factories: their output classes, None fields, masks and caches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

pytestmark = [pytest.mark.extras, pytest.mark.models]

MANIFEST = """
version: 1
defaults:
  framework: torch
  batches: [1, 3]
  inputs:
    input_ids: {dtype: int64, shape: [batch, seq], range: [0, 49]}
    attention_mask: {dtype: int64, shape: [batch, seq], values: [1]}
  dims: {seq: {min: 2, max: 64, values: [5, 17]}}
models:
  - {id: bert, source: 'torch_transformers.py:bert'}
  - {id: gpt2, source: 'torch_transformers.py:gpt2'}
  - {id: gpt2-cache, source: 'torch_transformers.py:gpt2_with_cache'}
  - id: gpt2-past
    source: torch_transformers.py:gpt2_with_cache
    inputs:
      input_ids: {dtype: int64, shape: [batch, 1], range: [0, 49]}
      past_key_values.0.0: {dtype: float32, shape: [batch, 2, seq, 8]}
      past_key_values.0.1: {dtype: float32, shape: [batch, 2, seq, 8]}
      past_key_values.1.0: {dtype: float32, shape: [batch, 2, seq, 8]}
      past_key_values.1.1: {dtype: float32, shape: [batch, 2, seq, 8]}
    output_names: [logits, present.0.0, present.0.1, present.1.0, present.1.1]
  - {id: t5, source: 'torch_transformers.py:t5_encoder'}
  - id: vit
    source: torch_transformers.py:vit
    inputs: {pixel_values: {dtype: float32, shape: [batch, 3, 16, 16]}}
"""
CACHE = {f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in (0, 1)}


def write_models(folder: Path) -> None:
    """The file that the manifest names."""
    shutil.copy(Path(__file__).parent / "torch_transformers.py", folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("transformers")
    write_models(folder)
    return run_manifest(folder, MANIFEST, strength=True)


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("bert", {"last_hidden_state", "pooler_output"}),
        ("gpt2", {"logits"}),
        ("gpt2-cache", {"logits"} | CACHE),
        ("t5", {"last_hidden_state"}),
        ("vit", {"last_hidden_state", "pooler_output"}),
    ],
)
def test_models_pass_with_the_fields_that_are_not_none(models, model, outputs):
    """At two batches and two lengths, neither of them the example's alone."""
    assert models[model].verdict is Status.PASSED, models[model]
    assert {check.output for check in models[model].checks} == outputs


def test_a_cache_is_an_input_as_well(models):
    """Its layers by dotted names; those of the answer have others, since ONNX has no name twice."""
    assert models["gpt2-past"].verdict is Status.PASSED, models["gpt2-past"]
    longer = models.checks("gpt2-past", output="present.1.1", case="batch=3,seq=17")
    assert [check.shape for check in longer] == [(3, 2, 18, 8)]
