"""Every measured fact about exporting PyTorch, row by row, through the whole gate."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from onnx_gate.cli.environ import worker_environ
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value

pytestmark = pytest.mark.models

MANIFEST = """
version: 1
defaults:
  framework: torch
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  batches: [1, 2, 5]
models:
  - {id: int-of-batch, source: 'torch_facts.py:int_of_batch'}
  - {id: special-at-one, source: 'torch_facts.py:special_at_one'}
  - {id: special-at-one-torchscript, source: 'torch_facts.py:special_at_one', convert: {exporter: torchscript}}
  - {id: positions-torchscript, source: 'torch_facts.py:positions', convert: {exporter: torchscript}}
  - {id: literal-torchscript, source: 'torch_facts.py:literal', convert: {exporter: torchscript}}
  - {id: default-opset, source: 'torch_facts.py:net'}
  - {id: opset-9, source: 'torch_facts.py:net', convert: {opset: 9}}
  - {id: opset-50, source: 'torch_facts.py:net', convert: {opset: 50}}
  - {id: opset-27, source: 'torch_facts.py:net', convert: {opset: 27}}
  - {id: opset-9-torchscript, source: 'torch_facts.py:net', convert: {opset: 9, exporter: torchscript}}
  - {id: opset-50-torchscript, source: 'torch_facts.py:net', convert: {opset: 50, exporter: torchscript}}
  - {id: wide-example, source: 'torch_facts.py:net', inputs: {x: {dtype: float64, shape: [batch, 4]}}}
  - {id: wide-promoted, source: 'torch_facts.py:promotes', inputs: {x: {dtype: float64, shape: [batch, 4]}}}
  - {id: training, source: 'torch_facts.py:training'}
  - {id: branches, source: 'torch_facts.py:branches'}
  - id: branches-torchscript
    source: torch_facts.py:branches
    convert: {exporter: torchscript}
    batches: [1, 2, 3, 5, 7]
  - {id: writes-slice, source: 'torch_facts.py:writes_slice'}
  - {id: writes-slice-torchscript, source: 'torch_facts.py:writes_slice', convert: {exporter: torchscript}}
  - {id: archive, source: archive.pt}
  - {id: program, source: program.pt2}
  - {id: pickled, source: pickled.pt}
  - {id: pointer, source: pointer.pt}
  - {id: counts, source: 'torch_facts.py:counts'}
  - {id: dataclass, source: 'torch_facts.py:dataclass'}
  - {id: with-none, source: 'torch_facts.py:with_none'}
  - {id: too-new, source: 'torch_facts.py:net', onnx: too-new.onnx}
  - id: logaddexp
    source: torch_facts.py:logaddexp
    inputs: {x: {dtype: float32, shape: [batch, 4], values: [100.0]}}
  - id: log1p
    source: torch_facts.py:log1p
    inputs: {x: {dtype: float32, shape: [batch, 4], values: [1.0e-8]}}
    tolerance: {rtol: 1e-3, atol: 0}
  - id: expm1
    source: torch_facts.py:expm1
    inputs: {x: {dtype: float32, shape: [batch, 4], values: [1.0e-8]}}
    tolerance: {rtol: 1e-3, atol: 0}
  - id: masked-attention
    source: torch_facts.py:attends
    inputs:
      q: {dtype: float32, shape: [batch, 2, 3, 4]}
      mask: {dtype: bool, shape: [batch, 1, 3, 3], values: [false]}
  - {id: half-sum, source: 'torch_facts.py:half_sum', inputs: {x: {dtype: float16, shape: [batch, 4]}}}
  - {id: nan-in-max, source: 'torch_facts.py:largest', data: nan.npz}
  - {id: nan-in-pool, source: 'torch_facts.py:pooled', data: nan.npz}
  - {id: ties, source: 'torch_facts.py:ties', inputs: {x: {dtype: float32, shape: [batch, 40], values: [1.0]}}}
  - id: index-minus-one
    source: torch_facts.py:embeds
    inputs: {tokens: {dtype: int64, shape: [batch, 3], values: [-1]}}
  - id: matmul
    source: torch_facts.py:multiplies
    onnx: permuted.onnx
    inputs: {x: {dtype: float32, shape: [batch, 512]}}
    batches: [32]
    tolerance: {rtol: 1e-6, atol: 1e-6}
"""


def write_permuted(path: Path, weight: np.ndarray) -> None:
    """The same product, with the terms of each sum in another order."""
    order = np.random.default_rng(0).permutation(len(weight))
    save(
        path,
        [
            onnx.helper.make_node("Gather", ["x", "order"], ["shuffled"], axis=1),
            onnx.helper.make_node("MatMul", ["shuffled", "weight"], ["output"]),
        ],
        [value("x", shape=["batch", len(weight)])],
        [value("output", shape=["batch", weight.shape[1]])],
        {"order": order, "weight": weight[order]},
    )


def write_models(folder: Path) -> None:
    """The files that the manifest names."""
    from tests.frameworks import torch_facts

    shutil.copy(Path(torch_facts.__file__), folder)
    x = torch.ones(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(torch_facts.net().eval(), (x,)).save(folder / "archive.pt")
        dynamic = ({0: torch.export.Dim("rows")},)
        torch.export.save(
            torch.export.export(torch_facts.net().eval(), (x,), dynamic_shapes=dynamic), folder / "program.pt2"
        )
    torch.save(torch_facts.net(), folder / "pickled.pt")
    (folder / "pointer.pt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    rows[1, 2] = rows[3, 0] = np.nan
    np.savez(folder / "nan.npz", x=rows)
    write_permuted(folder / "permuted.onnx", torch_facts.multiplies().weight.detach().numpy())
    node = onnx.helper.make_node("Identity", ["x"], ["output"])
    ends = [value(name, shape=["batch", 4]) for name in ("x", "output")]
    graph = onnx.helper.make_graph([node], "new", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph), folder / "too-new.onnx")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run, whose workers have an ASCII terminal."""
    folder = tmp_path_factory.mktemp("facts")
    write_models(folder)
    ascii_only = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    return run_manifest(folder, MANIFEST, strength=True, environ=worker_environ() | ascii_only)


@pytest.mark.parametrize(
    "model",
    [
        "default-opset",
        "opset-9-torchscript",
        "wide-promoted",
        "training",
        "writes-slice",
        "archive",
        "program",
        "dataclass",
        "with-none",
    ],
)
def test_what_exports_rightly_passes(models, model):
    """Also with an ASCII terminal, on which the exporter's own words would raise."""
    assert models[model].verdict is Status.PASSED, models[model]


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("int-of-batch", Cause.BATCH_BAKED, "int(x.shape[0])"),
        ("special-at-one", Cause.BATCH_BAKED, "wrong at batch 1."),
        ("special-at-one-torchscript", Cause.BATCH_BAKED, "depends on a size: torch_facts.py, line "),
        ("positions-torchscript", Cause.BATCH_BAKED, "depends on a size: torch_facts.py, line"),
        # A tensor that is written in the code is no decision that was frozen.
        ("literal-torchscript", Cause.CONVERSION, "doesn't compute what the source computes"),
        ("opset-9", Cause.CONTRACT, "are not those of the source"),
        ("opset-50", Cause.CONTRACT, "are not those of the source"),
        ("branches-torchscript", Cause.CONVERSION, "torch_facts.py, line"),
        ("writes-slice-torchscript", Cause.CONVERSION, "doesn't compute what the source computes"),
        ("counts", Cause.NONDETERMINISTIC, "each call changes `calls`"),
        ("logaddexp", Cause.NAN, "NaN or Inf"),
        ("log1p", Cause.PRECISION, "float64"),
        ("expm1", Cause.PRECISION, "float64"),
        ("half-sum", Cause.CONTRACT, "dtypes"),
        ("nan-in-max", Cause.NAN, "NaN"),
        ("nan-in-pool", Cause.NAN, "NaN"),
        ("ties", Cause.OPERATOR, ""),
    ],
)
def test_what_exports_wrongly_is_found(models, model, cause, words):
    """A clean export with different answers, and why."""
    assert (models[model].verdict, models[model].cause) == (Status.DIVERGED, cause), models[model]
    assert words in models[model].advice


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("opset-27", Cause.INVALID_MODEL, "export with opset 26 of ai.onnx instead of 27"),
        ("opset-50-torchscript", Cause.CONVERSION_FAILED, "ask for another opset"),
        (
            "wide-example",
            Cause.LOAD_FAILED,
            "the input 'x' is float64 in the manifest, and the model's weights are float32",
        ),
        ("branches", Cause.CONVERSION_FAILED, "torch_facts.py, line"),
        ("pickled", Cause.LOAD_FAILED, "write a factory and name both"),
        ("pointer", Cause.LOAD_FAILED, "LFS file not pulled"),
        ("too-new", Cause.INVALID_MODEL, "lower the IR version from 14 to 13"),
        ("index-minus-one", Cause.LOAD_FAILED, "index out of range"),
    ],
)
def test_what_cannot_be_judged_says_why(models, model, cause, words):
    """With the way out."""
    assert (models[model].verdict, models[model].cause) == (Status.ERROR, cause), models[model]
    assert words in models[model].error
    assert "Fix: " in models[model].error
    assert len(models[model].error) < 2000


@pytest.mark.parametrize(("model", "asked"), [("opset-9", 9), ("opset-50", 50)])
def test_an_opset_that_was_not_written_is_named(models, model, asked):
    """Silently another one, without the gate."""
    written = models[model].convert.opset
    assert written != asked
    assert f"asked for opset {asked}, the converter wrote {written}" in models.checks(model, output="opset")[0].message


def test_the_torchscript_exporter_writes_old_opsets(models):
    """Which the other one doesn't."""
    assert models["opset-9-torchscript"].convert.opset == 9
    assert models["default-opset"].convert.opset >= 18


def test_a_branch_on_values_tells_what_to_write_instead(models):
    """And none of torch's advice to those who debug torch."""
    assert "torch.where(x.sum() > 0, x * 2, x - 1)" in models["branches"].error
    assert "TORCH_LOGS" not in models["branches"].error


def test_a_program_has_its_dimensions_named_as_in_the_manifest(models):
    """And not `s77`."""
    graph = onnx.load(models.output / "models" / "program.onnx", load_external_data=False).graph
    shapes = [
        [dim.dim_param or dim.dim_value for dim in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)
    ]
    assert shapes == [["batch", 4], ["batch", 3]]


def test_weights_are_kept_beside_the_model(models):
    """The exporter writes them into a file of their own."""
    folder = models.output / "models"
    model = onnx.load(folder / "default-opset.onnx", load_external_data=False)
    named = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    assert all((folder / name).is_file() for name in named)
    assert onnx.load(folder / "default-opset.onnx").graph.initializer


def test_a_fully_masked_row_of_attention_is_found(models):
    """torch answers 0 where every key is masked, the graph the mean of the values."""
    model = models["masked-attention"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.OPERATOR), model
    assert all(check.worst.reference == 0 and check.mismatched == check.total for check in model.checks)


def test_a_matrix_product_is_noise_not_a_fault(models):
    """512 terms a sum, summed in another order: on some processors both sides would sum them in the same one."""
    model = models["matmul"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.TOLERANCE), model


@pytest.mark.large
def test_more_than_two_gib(tmp_path):
    """Written, loaded and compared by path: no message of protobuf holds it."""
    write_models(tmp_path)
    run = run_manifest(
        tmp_path,
        """
        version: 1
        models:
          - id: huge
            framework: torch
            source: torch_facts.py:huge
            inputs: {x: {dtype: float32, shape: [batch, 24000]}}
            batches: [1, 2]
        """,
        strength=True,
    )
    assert run["huge"].verdict is Status.PASSED, run["huge"]
    convert = run["huge"].convert
    assert convert is not None
    assert convert.size_bytes > 2**31
