"""PyTorch through the whole gate: forms of inputs and outputs, weights, and what exporting hides."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from onnx import helper

from onnx_gate.vocabulary import AIMED_CASE, Cause, Status
from tests import onnx_models
from tests.conftest import Run, run_manifest

MANIFEST = """
version: 1
defaults:
  framework: torch
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  batches: [1, 2, 5]
models:
  - {id: single, source: 'torch_models.py:single'}
  - {id: training, source: 'torch_models.py:training'}
  - {id: pair, source: 'torch_models.py:pair'}
  - {id: nested, source: 'torch_models.py:nested'}
  - {id: labels, source: 'torch_models.py:labels'}
  - {id: named, source: 'torch_models.py:pair', output_names: [doubled, total]}
  - {id: misnamed, source: 'torch_models.py:pair', output_names: [doubled]}
  - id: by-name
    source: torch_models.py:by_name
    inputs:
      key: {dtype: float32, shape: [batch, keys, 4]}
      query: {dtype: float32, shape: [batch, queries, 4]}
    dims: {keys: [1, 3], queries: [2, 4]}
  - id: by-position
    source: torch_models.py:by_name
    inputs:
      q: {dtype: float32, shape: [batch, n, 4]}
      k: {dtype: float32, shape: [batch, m, 4]}
    dims: {n: [2], m: [3]}
  - id: embedding
    source: torch_models.py:embedding
    inputs: {tokens: {dtype: int64, shape: [batch, seq], range: [0, 9]}}
    dims: {seq: [1, 6]}
    edges: true
  - id: out-of-range
    source: torch_models.py:embedding
    inputs: {tokens: {dtype: int64, shape: [batch, seq], range: [5, 40]}}
    dims: {seq: [6]}
  - id: later-size
    source: torch_models.py:of_eight
    inputs: {x: {dtype: float32, shape: [batch, seq]}}
    dims: {seq: [1, 16]}
  - id: colliding
    source: torch_models.py:colliding
    inputs: {tokens: {dtype: int64, shape: [batch, seq], range: [0, 9]}}
    dims: {seq: [6]}
  - {id: echo, source: 'torch_models.py:echo'}
  - {id: writes-input, source: 'torch_models.py:writes_input'}
  - {id: fixed, source: 'torch_models.py:single', inputs: {x: {dtype: float32, shape: [3, 4]}}}
  - {id: double, source: 'torch_models.py:pair', inputs: {x: {dtype: float64, shape: [batch, 4]}}}
  - {id: safetensors, source: 'torch_models.py:single', weights: net.safetensors}
  - {id: state-dict, source: 'torch_models.py:single', weights: net.pt}
  - {id: other-weights, source: 'torch_models.py:single', weights: other.pt}
  - {id: whole-module, source: 'torch_models.py:single', weights: module.pt}
  - {id: opset, source: 'torch_models.py:single', convert: {opset: 19}}
  - {id: old-opset, source: 'torch_models.py:single', convert: {opset: 9}}
  - {id: baked, source: 'torch_models.py:baked'}
  - {id: special-at-one, source: 'torch_models.py:special_at_one'}
  - {id: branch, source: 'torch_models.py:branch'}
  - {id: moody-more, source: 'torch_models.py:moody_more', onnx: one.onnx}
  - {id: moody-less, source: 'torch_models.py:moody_less', onnx: two.onnx}
  - {id: random, source: 'torch_models.py:random'}
  - {id: raises, source: 'torch_models.py:raises'}
  - {id: returns-number, source: 'torch_models.py:returns_number'}
  - {id: not-a-module, source: 'torch_models.py:not_a_module'}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run, from one warm server."""
    folder = tmp_path_factory.mktemp("torch")
    shutil.copy(Path(__file__).parent / "torch_models.py", folder)
    node, value = helper.make_node, onnx_models.value
    outputs = [value(name, shape=["batch", 4]) for name in ("y", "z")]
    nodes = [node("Mul", ["x", "two"], ["y"]), node("Identity", ["x"], ["z"])]
    for name, count in (("one", 1), ("two", 2)):
        onnx_models.save(
            folder / f"{name}.onnx",
            nodes[:count],
            [value("x", shape=["batch", 4])],
            outputs[:count],
            {"two": np.float32(2)},
        )
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
    state = {f"layers.{name}": tensor for name, tensor in net.state_dict().items()}
    safetensors.torch.save_file(state, folder / "net.safetensors")
    torch.save(state, folder / "net.pt")
    torch.save({"other": torch.ones(2)}, folder / "other.pt")
    torch.save(net, folder / "module.pt")
    return run_manifest(folder, MANIFEST)


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("single", {"output"}),
        ("training", {"output"}),
        ("pair", {"output_0", "output_1"}),
        ("nested", {"logits", "aux.0", "aux.1.mean"}),
        ("labels", {"best", "positive"}),
        ("named", {"doubled", "total"}),
        ("by-name", {"output"}),
        ("by-position", {"output"}),
        ("embedding", {"output"}),
        ("colliding", {"scores", "embedding", "embedding.weight"}),
        ("writes-input", {"output"}),
        ("fixed", {"output"}),
        ("double", {"output_0", "output_1"}),
        ("safetensors", {"output"}),
        ("state-dict", {"output"}),
        ("opset", {"output"}),
    ],
)
def test_models_pass_with_the_outputs_that_they_have(models, model, outputs):
    """Every form of output has the name that the contract gives it, and each one is compared."""
    assert models[model].verdict is Status.PASSED, models[model].error
    assert {check.output for check in models[model].checks} == outputs


def test_every_batch_and_every_dimension_is_run(models):
    """All combinations of batch and dims are cases."""
    cases = {check.case for check in models["by-name"].checks}
    assert cases == {f"batch={b},keys={k},queries={q}" for b in (1, 2, 5) for k in (1, 3) for q in (2, 4)}


def test_a_fixed_batch_replaces_batches(models):
    """One case, of the size that the schema gives, and so are those that are aimed at what it would have missed."""
    checks = models["fixed"].checks
    assert [check.case for check in checks if not check.case.startswith(AIMED_CASE)] == ["fixed"]
    assert {check.shape for check in checks} == {(3, 3)}


def test_edges_are_named_cases(models):
    """Extremes of the range among them."""
    cases = {check.case for check in models["embedding"].checks}
    assert {"edge=lowest", "edge=highest", "edge=zeros", "edge=repeated-rows"} <= cases


def test_the_opset_asked_for_is_the_opset_written(models):
    """And the report tells which."""
    assert models["opset"].convert.opset == 19


def test_the_converted_model_is_kept_with_its_weights(models):
    """models/<id>.onnx loads on its own."""
    import onnxruntime as ort

    path = models.output / "models" / "single.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]


def test_weights_are_those_of_the_file(models):
    """safetensors and a state dict of the same weights give the same model."""
    one, other, built = (
        _weights(models.output / "models" / f"{name}.onnx") for name in ("safetensors", "state-dict", "single")
    )
    assert one == other
    assert one != built


def _weights(path: Path) -> dict[str, bytes]:
    import onnx

    return {tensor.name: onnx.numpy_helper.to_array(tensor).tobytes() for tensor in onnx.load(path).graph.initializer}


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("echo", Cause.CONVERSION_FAILED, "the name 'x' is that of an input and of an output"),
        ("misnamed", Cause.LOAD_FAILED, "got 1 names, and the model has 2 outputs: output_0, output_1"),
        ("out-of-range", Cause.LOAD_FAILED, "the source itself fails on batch=1"),
        ("later-size", Cause.LOAD_FAILED, "the source itself fails on batch=2,seq=16"),
        ("other-weights", Cause.LOAD_FAILED, "missing: layers.0.weight, layers.0.bias"),
        ("whole-module", Cause.LOAD_FAILED, "save a state dict"),
        ("branch", Cause.CONVERSION_FAILED, "write `return torch.where(x.sum() > 0, x * 2, x)` in the place of lines"),
        ("raises", Cause.LOAD_FAILED, "no_such_method"),
        ("returns-number", Cause.LOAD_FAILED, "returns a int as 'output_1', expected tensors"),
        ("not-a-module", Cause.LOAD_FAILED, "got a dict, expected a torch.nn.Module"),
    ],
)
def test_models_that_cannot_be_judged_say_why(models, model, cause, words):
    """The cause, and what to do."""
    assert (models[model].verdict, models[model].cause) == (Status.ERROR, cause), models[model].error
    assert words in models[model].error
    assert len(models[model].error) < 2000


def test_a_branch_on_values_names_the_line(models):
    """The user's own file and line, not torch's."""
    assert "torch_models.py, line" in models["branch"].error


@pytest.mark.parametrize("model", ["baked", "special-at-one"])
def test_a_batch_that_is_baked_in_is_found(models, model):
    """Though the export succeeded without a word."""
    assert (models[model].verdict, models[model].cause) == (Status.DIVERGED, Cause.BATCH_BAKED)
    assert "x.shape[0]" in models[model].advice


@pytest.mark.parametrize(
    ("model", "words"), [("moody-more", "doesn't have it"), ("moody-less", "gives no such output")]
)
def test_a_source_whose_outputs_come_and_go_is_a_breach(models, model, words):
    """What it gives on some feeds only can't be compared on all."""
    assert (models[model].verdict, models[model].cause) == (Status.DIVERGED, Cause.CONTRACT), models[model]
    assert any(words in check.message for check in models[model].checks)


def test_an_opset_that_the_exporter_does_not_write_is_a_breach(models):
    """Asked for 9, silently got another."""
    model = models["old-opset"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.CONTRACT)
    assert any("asked for opset 9, the converter wrote" in check.message for check in model.checks)


def test_a_random_graph_is_refused(models):
    """No two runtimes draw the same: the node and the user's line are named."""
    assert (models["random"].verdict, models["random"].cause) == (Status.ERROR, Cause.NONDETERMINISTIC)
    assert "RandomUniformLike, torch_models.py, line" in models["random"].error
    assert "make the noise an input" in models["random"].error


def test_what_the_exporter_prints_is_in_the_log(models):
    """And not on the screen."""
    assert "torchvision" not in models.log
