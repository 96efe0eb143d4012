"""Every form of PyTorch source, input, output and state, through the whole gate."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import onnx
import pytest
import torch

from onnx_gate.machine import has_vnni
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.models

MANIFEST = """
version: 1
defaults:
  framework: torch
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  batches: [1, 3]
models:
  - id: nested
    source: torch_forms.py:nested
    inputs:
      batch.image: {dtype: float32, shape: [batch, 4]}
      state.0: {dtype: float32, shape: [batch, 4]}
      state.1: {dtype: float32, shape: [batch, 4]}
      batch.more.deep: {dtype: float32, shape: [batch, 4]}
  - id: nested-by-position
    source: torch_forms.py:nested
    inputs:
      s.0: {dtype: float32, shape: [batch, 4]}
      s.1: {dtype: float32, shape: [batch, 4]}
      b.image: {dtype: float32, shape: [batch, 4]}
      b.more.deep: {dtype: float32, shape: [batch, 4]}
      m: null
  - id: nested-torchscript
    source: torch_forms.py:nested
    convert: {exporter: torchscript}
    inputs:
      state.0: {dtype: float32, shape: [batch, 4]}
      state.1: {dtype: float32, shape: [batch, 4]}
      batch.image: {dtype: float32, shape: [batch, 4]}
      batch.more.deep: {dtype: float32, shape: [batch, 4]}
      mask: {dtype: float32, shape: [batch, 4]}
  - id: listed
    source: torch_forms.py:listed
    inputs: {parts.0: {dtype: float32, shape: [batch, 4]}, parts.1: {dtype: float32, shape: [batch, 2]}}
  - id: typed
    source: torch_forms.py:typed
    inputs:
      batch.image: {dtype: float32, shape: [batch, 4]}
      batch.weight: {dtype: float32, shape: [batch, 4]}
      pair.left: {dtype: float32, shape: [batch, 4]}
      pair.right: {dtype: float32, shape: [batch, 4]}
  - id: keyword-only
    source: torch_forms.py:keyword_only
    inputs: {x: {dtype: float32, shape: [batch, 4]}, gain: null, bias: {dtype: float32, shape: [batch, 4]}}
  - {id: dotted-alone, source: 'torch_forms.py:net', inputs: {input.1: {dtype: float32, shape: [batch, 4]}}}
  - {id: result, source: 'torch_forms.py:result'}
  - {id: result-torchscript, source: 'torch_forms.py:result', convert: {exporter: torchscript, opset: 13}}
  - {id: scalars, source: 'torch_forms.py:scalars'}
  - {id: twice, source: 'torch_forms.py:twice'}
  - {id: same, source: 'torch_forms.py:same'}
  - {id: clashing-keys, source: 'torch_forms.py:clashing_keys'}
  - {id: nothing, source: 'torch_forms.py:nothing'}
  - {id: complex, source: 'torch_forms.py:complex_output'}
  - {id: sparse, source: 'torch_forms.py:sparse_output'}
  - id: arithmetic
    source: torch_forms.py:arithmetic
    inputs:
      i8: {dtype: int8, shape: [batch, 4], range: [-5, 5]}
      u8: {dtype: uint8, shape: [batch, 4]}
      i32: {dtype: int32, shape: [batch, 4]}
      b: {dtype: bool, shape: [batch, 4]}
      f16: {dtype: float16, shape: [batch, 4]}
      f64: {dtype: float64, shape: [batch, 4]}
  - {id: brain, source: 'torch_forms.py:brain', inputs: {x: {dtype: bfloat16, shape: [batch, 4]}}}
  - id: half
    source: torch_forms.py:half
    inputs: {x: {dtype: float16, shape: [batch, 4]}}
    tolerance: {rtol: 1e-2, atol: 1e-2}
  - {id: bfloat16, source: 'torch_forms.py:bfloat16', inputs: {x: {dtype: bfloat16, shape: [batch, 4]}}}
  - {id: double, source: 'torch_forms.py:double', inputs: {x: {dtype: float64, shape: [batch, 4]}}}
  - {id: double-erf, source: 'torch_forms.py:double_erf', inputs: {x: {dtype: float64, shape: [batch, 4]}}}
  - {id: quantised, source: 'torch_forms.py:quantised'}
  - {id: quantised-torchscript, source: 'torch_forms.py:quantised', convert: {exporter: torchscript}}
  - id: statically-quantised
    source: torch_forms.py:statically_quantised
    convert: {exporter: torchscript}
    tolerance: {rtol: 0, atol: 0.004}  # a step of its scale is 0.0033
    batches: [1, 400]
  - id: blocks
    source: torch_forms.py:blocks
    inputs: {x: {dtype: float32, shape: [batch, seq]}}
    dims: {seq: {min: 8, max: 64, multiple: 8}}
  - id: positions
    source: torch_forms.py:positions
    inputs: {x: {dtype: float32, shape: [batch, seq, 4]}}
    dims: {seq: {min: 2, max: 32}}
  - id: too-many-positions
    source: torch_forms.py:positions
    inputs: {x: {dtype: float32, shape: [batch, seq, 4]}}
    dims: {seq: {min: 2, max: 64}}
  - id: by-length
    source: torch_forms.py:by_length
    inputs: {x: {dtype: float32, shape: [batch, seq]}}
    dims: {seq: {min: 2, max: 64, values: [5, 16, 40]}}
  - {id: counting-buffer, source: 'torch_forms.py:counting_buffer'}
  - {id: remembering, source: 'torch_forms.py:remembering'}
  - {id: harmless, source: 'torch_forms.py:harmless'}
  - {id: restless, source: 'torch_forms.py:restless', batches: [3, 5]}
  - {id: always-dropped, source: 'torch_forms.py:always_dropped'}
  - {id: normal-noise, source: 'torch_forms.py:normal_noise'}
  - {id: coin, source: 'torch_forms.py:coin'}
  - id: script
    source: script.pt
    inputs:
      state.0: {dtype: float32, shape: [batch, 4]}
      state.1: {dtype: float32, shape: [batch, 4]}
      batch.image: {dtype: float32, shape: [batch, 4]}
    edges: [zeros, ones]
  - id: trace
    source: trace.jit
    inputs: {y: {dtype: float32, shape: [batch, 4]}, x: {dtype: float32, shape: [batch, 4]}}
  - {id: scripted-factory, source: 'torch_forms.py:scripted'}
  - {id: script-by-dynamo, source: 'torch_forms.py:scripted', convert: {exporter: dynamo}}
  - id: program
    source: program.pt2
    inputs:
      batch.image: {dtype: float32, shape: [batch, 4]}
      state.0: {dtype: float32, shape: [batch, 4]}
      state.1: {dtype: float32, shape: [batch, 4]}
      scale: null
  - id: program-by-position
    source: program.pt2
    inputs:
      a: {dtype: float32, shape: [batch, 4]}
      b: {dtype: float32, shape: [batch, 4]}
      c: {dtype: float32, shape: [batch, 4]}
  - {id: program-of-too-few, source: program.pt2}
  - {id: fixed-program, source: fixed.pt2}
  - {id: baked-program, source: fixed.pt2, batches: [2]}
  - {id: program-as-script, source: fixed.pt2, convert: {exporter: torchscript}, batches: [2]}
  - {id: pickled, source: pickled.pt}
  - {id: only-weights, source: weights.pth}
  - {id: pointer, source: pointer.pt}
  - {id: pointer-weights, source: 'torch_forms.py:net', weights: pointer.pt}
  - {id: truncated, source: truncated.pt}
  - {id: garbage, source: garbage.ts}
  - {id: checkpoint, source: 'torch_forms.py:net', weights: checkpoint.pt}
  - {id: wrapped-weights, source: 'torch_forms.py:net', weights: wrapped.pt}
  - {id: other-shapes, source: 'torch_forms.py:net', weights: shapes.pt}
  - {id: custom, source: 'torch_forms.py:custom', register: 'torch_forms.py:register'}
  - {id: untranslated, source: 'torch_forms.py:untranslated', register: 'torch_forms.py:register'}
  - {id: undeclared, source: 'torch_forms.py:undeclared', register: 'torch_forms.py:register'}
  - id: custom-as-script
    source: torch_forms.py:custom
    register: torch_forms.py:register
    convert: {exporter: torchscript}
  - {id: bad-hook, source: 'torch_forms.py:net', register: 'torch_forms.py:register_nothing'}
  - {id: no-operator, source: 'torch_forms.py:no_operator'}
"""


def write_models(folder: Path) -> None:
    """The files that the manifest names."""
    from tests.frameworks import torch_forms

    shutil.copy(Path(torch_forms.__file__), folder)
    x = torch.ones(2, 4)
    batch = torch.export.Dim("rows")
    with warnings.catch_warnings():
        # torch.jit is deprecated, and what people have.
        warnings.simplefilter("ignore")
        torch.jit.script(torch_forms.Script().eval()).save(folder / "script.pt")
        torch.jit.trace(torch_forms.TwoTensors().eval(), (x, x.clone()), strict=False).save(folder / "trace.jit")
        nested = torch.export.export(
            torch_forms.Program().eval(),
            ((x, x.clone()), {"image": x.clone()}, None),
            dynamic_shapes={"state": ({0: batch}, {0: batch}), "batch": {"image": {0: batch}}, "scale": None},
        )
        torch.export.save(nested, folder / "program.pt2")
        torch.export.save(torch.export.export(torch_forms.net().eval(), (x,)), folder / "fixed.pt2")
    net = torch_forms.net()
    state = net.state_dict()
    torch.save(net, folder / "pickled.pt")
    torch.save(state, folder / "weights.pth")
    torch.save({"epoch": 3, "state_dict": state}, folder / "checkpoint.pt")
    torch.save({f"module.{name}": tensor for name, tensor in state.items()}, folder / "wrapped.pt")
    torch.save(state | {"0.weight": torch.ones(2, 4)}, folder / "shapes.pt")
    (folder / "pointer.pt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    (folder / "truncated.pt").write_bytes((folder / "script.pt").read_bytes()[:500])
    (folder / "garbage.ts").write_bytes(b"no model at all" * 10)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run, from one warm server."""
    folder = tmp_path_factory.mktemp("forms")
    write_models(folder)
    return run_manifest(folder, MANIFEST, strength=True)


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("nested", {"output"}),
        ("nested-by-position", {"output"}),
        ("nested-torchscript", {"output"}),
        ("listed", {"output"}),
        ("typed", {"image"}),
        ("keyword-only", {"output"}),
        ("dotted-alone", {"output"}),
        ("result", {"image.pair.left", "image.pair.right.0", "image.pair.right.2.0", "weight"}),
        ("result-torchscript", {"image.pair.left", "image.pair.right.0", "image.pair.right.2.0", "weight"}),
        ("scalars", {"mean", "any", "count", "row"}),
        ("twice", {"output_0", "output_1", "output_2"}),
        ("same", {"same", "other"}),
        ("arithmetic", {"ints", "bools", "half", "double"}),
        ("brain", {"output"}),
        ("half", {"output"}),
        ("double", {"output"}),
        ("blocks", {"output"}),
        ("positions", {"output"}),
        ("harmless", {"output"}),
        ("script", {"output_0.mixed", "output_0.double", "output_1"}),
        ("trace", {"a", "b"}),
        ("scripted-factory", {"output"}),
        ("program", {"out"}),
        ("program-by-position", {"out"}),
        ("custom", {"output"}),
    ],
)
def test_models_pass_with_the_outputs_that_they_have(models, model, outputs):
    """Every form of source, input and output has its place and its name, and is compared."""
    assert models[model].verdict is Status.PASSED, models[model]
    assert {check.output for check in models[model].checks} == outputs


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("clashing-keys", Cause.LOAD_FAILED, "two outputs of forward() are called 'a.b'"),
        ("nothing", Cause.LOAD_FAILED, "forward() returns no tensor"),
        ("complex", Cause.LOAD_FAILED, "torch.view_as_real"),
        ("sparse", Cause.LOAD_FAILED, ".to_dense()"),
        ("bfloat16", Cause.UNSUPPORTED_OPERATOR, "no kernel for this operator and type"),
        ("double-erf", Cause.UNSUPPORTED_OPERATOR, "Erf"),
        ("quantised", Cause.UNSUPPORTED_OPERATOR, "variants: [int8-dynamic]"),
        ("quantised-torchscript", Cause.UNSUPPORTED_OPERATOR, "variants: [int8-dynamic]"),
        ("too-many-positions", Cause.LOAD_FAILED, "the source itself fails on batch=1,seq=64"),
        ("always-dropped", Cause.TRAIN_MODE, "training=self.training"),
        ("normal-noise", Cause.NONDETERMINISTIC, "RandomNormalLike, torch_forms.py, line"),
        ("coin", Cause.NONDETERMINISTIC, "Bernoulli, torch_forms.py, line"),
        ("script-by-dynamo", Cause.CONVERSION_FAILED, "convert: {exporter: torchscript}"),
        ("program-of-too-few", Cause.LOAD_FAILED, "the program takes 3 tensors (state.0, state.1, batch.image)"),
        ("fixed-program", Cause.LOAD_FAILED, "exported for other sizes"),
        ("program-as-script", Cause.CONVERSION_FAILED, "convert: {exporter: dynamo}"),
        ("pickled", Cause.LOAD_FAILED, "this is a pickled module"),
        ("only-weights", Cause.LOAD_FAILED, "this holds a state dict of 6 entries"),
        ("pointer", Cause.LOAD_FAILED, "LFS file not pulled"),
        ("pointer-weights", Cause.LOAD_FAILED, "LFS file not pulled"),
        ("truncated", Cause.LOAD_FAILED, "it was truncated"),
        ("garbage", Cause.LOAD_FAILED, "neither a TorchScript archive nor a .pt2 program"),
        ("checkpoint", Cause.LOAD_FAILED, "torch.save(checkpoint['state_dict'], …)"),
        ("wrapped-weights", Cause.LOAD_FAILED, "save model.module.state_dict()"),
        ("other-shapes", Cause.LOAD_FAILED, "0.weight is (2, 4), the module's is (8, 4)"),
        ("untranslated", Cause.UNSUPPORTED_OPERATOR, "no translation for the operator gate_forms.untranslated"),
        ("undeclared", Cause.CONVERSION_FAILED, "def f(x: FLOAT[...]) -> FLOAT[...]"),
        ("custom-as-script", Cause.CONVERSION_FAILED, "convert: {exporter: dynamo}"),
        ("bad-hook", Cause.LOAD_FAILED, "got a int, expected None or a dict"),
        ("no-operator", Cause.UNSUPPORTED_OPERATOR, "aten._linalg_eigh (torch_forms.py, line"),
    ],
)
def test_models_that_cannot_be_judged_say_why(models, model, cause, words):
    """The cause, and what to do."""
    assert (models[model].verdict, models[model].cause) == (Status.ERROR, cause), models[model]
    assert words in models[model].error
    assert "Fix: " in models[model].error
    assert len(models[model].error) < 2000


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("counting-buffer", Cause.NONDETERMINISTIC, "each call changes `calls`,"),
        ("remembering", Cause.NONDETERMINISTIC, "each call changes `0.last`,"),
        ("restless", Cause.TRAIN_MODE, "norm (BatchNorm1d)"),
        ("by-length", Cause.BATCH_BAKED, "seq to sizes from 2 to 20"),
        ("baked-program", Cause.BATCH_BAKED, "built in"),
    ],
)
def test_models_that_diverge_say_why(models, model, cause, words):
    """What the source itself tells is said: which buffer, which part, which sizes."""
    assert (models[model].verdict, models[model].cause) == (Status.DIVERGED, cause), models[model]
    assert words in models[model].advice


def test_every_script_branch_is_run(models):
    """The script's own `if` is in the graph: zeros take one side, ones the other."""
    assert {check.case for check in models["script"].checks} >= {"edge=zeros", "edge=ones"}
    graph = onnx.load(models.output / "models" / "script.onnx").graph
    assert "If" in {node.op_type for node in graph.node}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("nested", ["batch.image", "state.0", "state.1", "batch.more.deep"]),
        ("nested-torchscript", ["state.0", "state.1", "batch.image", "batch.more.deep", "mask"]),
        ("keyword-only", ["x", "bias"]),
        ("program", ["state.0", "state.1", "batch.image"]),
        ("script", ["state.0", "state.1", "batch.image"]),
    ],
)
def test_inputs_have_the_names_and_dimensions_of_the_manifest(models, model, names):
    """Dotted as they are there, with no input for None, and every dynamic dimension by its name."""
    graph = onnx.load(models.output / "models" / f"{model}.onnx", load_external_data=False).graph
    assert [value.name for value in graph.input] == names
    assert {value.type.tensor_type.shape.dim[0].dim_param for value in graph.input} == {"batch"}


def test_nodes_tell_where_in_the_source_they_come_from(models):
    """The user's own module and line: the one that is wrapped around it for the export is taken out again."""
    model = onnx.load(models.output / "models" / "result.onnx", load_external_data=False)
    told = {entry.key: entry.value for node in model.graph.node for entry in node.metadata_props}
    assert "torch_forms.py" in told["pkg.torch.onnx.stack_trace"]
    assert not [value for value in told.values() if "onnx_gate" in value.replace("onnx_gate_", "")]
    assert "scale" in {tensor.name for tensor in model.graph.initializer}


def test_limits_of_a_dimension_choose_the_sizes(models):
    """Multiples of 8 only, from the shortest to the longest."""
    assert {check.case for check in models["blocks"].checks} >= {"batch=1,seq=8", "batch=3,seq=64"}


def test_state_is_told_in_a_note(models):
    """Which buffer a call changes; a counter that changes no answer is nobody's business."""
    assert any("forward() changes calls" in note for note in models["counting-buffer"].notes)
    assert not any("changes" in note for note in models["harmless"].notes)


def test_a_statically_quantised_module_is_exported_and_compared(models):
    """Through TorchScript; the dynamo exporter refuses it."""
    assert models["statically-quantised"].convert is not None, models["statically-quantised"].error
    [one] = models.checks("statically-quantised", case="batch=1")
    assert (one.status, one.total) == (Status.PASSED, 3)


@pytest.mark.skipif(has_vnni(), reason="int8 products saturate only on CPUs without VNNI")
def test_int8_that_saturates_is_found(models):
    """ONNX Runtime's optimised int8 is off by many steps here and there; a tolerance of one step tells."""
    model = models["statically-quantised"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPTIMIZER), model.advice
    [many] = models.checks("statically-quantised", case="batch=400")
    assert many.max_abs > 0.01
    assert 0 < many.mismatched < 100
