"""Precision variants through the whole gate: made with the real tools, judged against the same source."""

from __future__ import annotations

import textwrap
from pathlib import Path

import joblib
import numpy as np
import onnx
import pytest
from onnx import helper
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onnx_gate.machine import has_vnni
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value

DIGITS = load_digits()
TORCH = """
import torch


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.last = torch.nn.Linear(8 * 64, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return self.last(torch.relu(self.second(x)).flatten(1))


def build():
    return Digits().eval()
"""
MANIFEST = """
version: 1
defaults: {batches: [1, 7, 64]}
models:
  - id: mlp
    source: mlp.joblib
    inputs: {X: {dtype: float32, shape: [batch, 64]}}
    data: test.npz
    edges: [zeros, huge]
    variants:
      - fp16
      - fp16: {name: fp16-io, keep_io: false}
      - int8-dynamic
      - int8-static: {data: train.npz}
      - int8-static: {name: own-feeds, min_top1: 0.9}
      - int8-static: {name: strict, data: train.npz, min_snr_db: 200}
      - int8-static: {name: misspelt, exclude_nodes: [MatMull]}
      - int8-static: {name: refused, activations: int8, weights: uint8}
      - int8-static: {name: no-such-data, data: other.npz}
      - fp16: {name: unknown-op, exclude_ops: [Softmaxx]}
      - fp16: {name: no-such-output, outputs: {probabilitys: {max_abs: 0}}}
      - fp16: {name: tight, tolerance: {rtol: 0, atol: 1e-7}}
  - id: regressor
    source: regressor.joblib
    inputs: {X: {dtype: float32, shape: [batch, 64]}}
    data: test.npz
    variants: [fp16, {int8-dynamic: {per_channel: true, reduce_range: true}}]
  - id: forest
    source: forest.joblib
    inputs: {X: {dtype: float32, shape: [batch, 64]}}
    data: test.npz
    variants: [fp16, int8-dynamic, int8-static]
  - id: shipped
    source: shipped.onnx
    variants: [fp16, int8-dynamic]
  - id: overflow
    source: overflow.onnx
    inputs: {x: {dtype: float32, shape: [batch, 4], range: [300, 400]}}
    variants: [fp16, {fp16: {name: kept, exclude_ops: [Mul, Sqrt]}}]
  - id: beyond
    source: overflow.onnx
    inputs: {x: {dtype: float32, shape: [batch, 4], range: [100000, 200000]}}
    variants: [{fp16: {keep_io: false}}]
  - id: wrong
    source: mlp.joblib
    onnx: wrong.onnx
    inputs: {X: {dtype: float32, shape: [batch, 64]}}
    outputs: {label: ignore}
    data: test.npz
    variants: [fp16]
"""


def _mlp() -> MLPClassifier:
    model = make_pipeline(
        StandardScaler(), MLPClassifier((32,), max_iter=300, random_state=0, tol=1e-2, n_iter_no_change=5)
    )
    return model.fit(DIGITS.data, DIGITS.target)


def _shipped(path: Path) -> None:
    """Nodes without names, an output that is read again, and a constant that is no weight."""
    rng = np.random.default_rng(0)
    weights = {name: (rng.standard_normal((8, 8)) / 8).astype(np.float32) for name in ("a", "b")}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["features"]),
        helper.make_node("MatMul", ["features", "b"], ["y"]),
    ]
    shape = ["batch", 8]
    outputs = [value("features", shape=shape), value("y", shape=shape)]
    save(path, nodes, [value("x", shape=shape)], outputs, weights)


def _overflow(path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"], name="squared"),
        helper.make_node("Sqrt", ["square"], ["root"], name="rooted"),
        helper.make_node("Add", ["root", "one"], ["y"], name="added"),
    ]
    shape = ["batch", 4]
    constants = {"one": np.ones(1, np.float32)}
    save(path, nodes, [value("x", shape=shape)], [value("y", shape=shape)], constants)


@pytest.fixture(scope="module")
def variants(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("variants")
    np.savez(folder / "train.npz", X=DIGITS.data[:1000])
    np.savez(folder / "test.npz", X=DIGITS.data[1000:1150])
    np.savez(folder / "other.npz", Y=DIGITS.data[:10], Z=DIGITS.data[:10])
    joblib.dump(_mlp(), folder / "mlp.joblib")
    regressor = MLPRegressor(hidden_layer_sizes=(16,), max_iter=300, random_state=0, tol=1e-2, n_iter_no_change=5)
    joblib.dump(regressor.fit(DIGITS.data, DIGITS.target), folder / "regressor.joblib")
    joblib.dump(RandomForestClassifier(3, random_state=0).fit(DIGITS.data, DIGITS.target), folder / "forest.joblib")
    _shipped(folder / "shipped.onnx")
    _overflow(folder / "overflow.onnx")
    nodes = [helper.make_node("MatMul", ["X", "w"], ["probabilities"]), helper.make_node("ArgMax", ["X"], ["label"])]
    shapes = [value("probabilities", shape=["batch", 10]), value("label", onnx.TensorProto.INT64, [1, 64])]
    constants = {"w": np.ones((64, 10), np.float32)}
    save(folder / "wrong.onnx", nodes, [value("X", shape=["batch", 64])], shapes, constants)
    return run_manifest(folder, MANIFEST)


def _ops(run: Run, model_id: str) -> set[str]:
    model = onnx.load(run.output / "models" / f"{model_id}.onnx")
    return {node.op_type for node in model.graph.node}


def _has_note(model: ModelResult, words: str) -> bool:
    return any(words in note for note in model.notes)


@pytest.mark.parametrize(
    "model_id",
    [
        *("mlp@fp16", "mlp@fp16-io", "mlp@int8-dynamic", "mlp@int8-static", "mlp@own-feeds"),
        *("regressor@fp16", "regressor@int8-dynamic", "shipped@fp16", "shipped@int8-dynamic", "overflow@kept"),
    ],
)
def test_a_good_variant_passes_held_to_its_own_limits(variants, model_id):
    """Against the same source; beside it the model itself passes with its own tolerance."""
    result = variants[model_id]
    assert result.verdict is Status.PASSED, (result.error, [check.message for check in result.checks])
    assert result.variant_of == model_id.partition("@")[0]
    assert variants[result.variant_of].verdict is Status.PASSED
    assert variants[result.variant_of].variant_of is None


def test_what_is_kept_is_the_variant_that_was_judged(variants):
    """And nothing of what it was made of."""
    kept = {path.name for path in (variants.output / "models").glob("mlp@*")}
    made = ("fp16", "fp16-io", "int8-dynamic", "int8-static", "own-feeds", "strict", "tight", "no-such-output")
    assert kept == {f"mlp@{name}.onnx" for name in made}
    assert "MatMulInteger" in _ops(variants, "mlp@int8-dynamic")
    assert {"QuantizeLinear", "DequantizeLinear"} <= _ops(variants, "mlp@int8-static")
    assert variants["mlp@fp16"].convert.variant == "fp16"


def test_fp16_answers_differ_as_float16_does(variants):
    """About 5e-4 on the CPU: more than float32 ever, less than a wrong model."""
    [worst] = [max(check.max_abs for check in variants.checks(name, output="probabilities")) for name in ("mlp@fp16",)]
    assert 1e-6 < worst < 1e-2
    assert _has_note(variants["mlp@fp16"], "in float16: MatMul (2), Add (2)")
    assert _has_note(variants["mlp@fp16"], "still float32: Scaler")


def test_float16_inputs_and_outputs_are_taken_where_they_were_asked_for(variants):
    """`keep_io: false`: no breach of the contract, and the report says what they are."""
    assert {check.dtype for check in variants.checks("mlp@fp16-io", output="probabilities")} == {"float16"}
    assert _has_note(variants["mlp@fp16-io"], "probabilities is float16 in the .onnx and float32 in the source")


def test_labels_of_int8_may_differ_a_little(variants):
    """At least 95 of 100 agree, where the model itself has to agree in all."""
    for check in variants.checks("mlp@int8-dynamic", output="label"):
        assert check.limits == {"min_agreement": 0.95}
    assert all(check.limits == {} for check in variants.checks("mlp", output="label"))


def test_limits_of_a_variant_are_its_own(variants):
    """SNR by default, top-1 where the manifest says so."""
    [check] = variants.checks("mlp@int8-static", output="probabilities", case="batch=64")
    assert check.limits["min_snr_db"] == 15.0
    [check] = variants.checks("mlp@own-feeds", output="probabilities", case="batch=64")
    assert check.top1 >= check.limits["min_top1"] == 0.9


def test_calibration_with_the_models_own_feeds_is_said(variants):
    """Data that is given is used; else the feeds that it is judged on are, and that flatters it."""
    assert _has_note(variants["mlp@own-feeds"], "calibrated with the feeds that it is judged on (`data: test.npz`)")
    assert not _has_note(variants["mlp@int8-static"], "calibrated with")


def test_a_limit_that_does_not_hold_is_precision(variants):
    """The model in float32 holds it: the advice says what was reached and what to try."""
    result = variants["mlp@strict"]
    assert (result.verdict, result.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert "In float32 the model is far nearer to the source (`" in result.advice
    assert ", at least 200 is required" in result.advice
    assert "`per_channel: true`" in result.advice
    assert ("`reduce_range: true` may help" in result.advice) is not has_vnni()
    shown = [check for check in result.checks if check.limit_breaches and check.limit_breaches[0].text in result.advice]
    assert min(check.snr_db for check in result.checks if check.snr_db is not None) in [one.snr_db for one in shown]
    assert "set `min_snr_db: " in result.advice


def test_the_cpu_is_part_of_an_int8_answer(variants):
    """Without VNNI products saturate; a variant that reduces the range is not concerned."""
    words = "this CPU has no VNNI"
    assert _has_note(variants["mlp@int8-static"], words) is not has_vnni()
    assert not _has_note(variants["regressor@int8-dynamic"], words)
    environment = variants.result.environment
    assert ("no VNNI" in environment.cpu) is not has_vnni()


def test_a_tight_tolerance_on_fp16_is_precision_too(variants):
    """With operators to leave out."""
    result = variants["mlp@tight"]
    assert (result.verdict, result.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert "exclude_ops" in result.advice


def test_an_overflow_that_the_cpu_hides_shows(variants):
    """300² is beyond float16: ONNX Runtime's CPU computes the chain in float32, half precision answers Inf."""
    result = variants["overflow@fp16"]
    assert (result.verdict, result.cause) == (Status.DIVERGED, Cause.PRECISION)
    [warning] = [told for told in result.coverage.warnings if "65,504" in told]
    assert "squared (Mul) goes beyond it" in warning
    assert "`exclude_ops: [Mul]` or `exclude_nodes: [squared]`" in warning
    assert not any("65,504" in told for told in variants["overflow@kept"].coverage.warnings)


def test_an_overflow_that_shows_is_precision(variants):
    """Inputs in float16 can't hold 100,000."""
    result = variants["beyond@fp16"]
    assert (result.verdict, result.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert "65,504" in result.advice


def test_edges_beyond_the_precision_are_left_out(variants):
    """A huge number is for the model itself; the report says what was not fed."""
    assert variants.checks("mlp", case="edge=huge")
    assert not variants.checks("mlp@fp16", case="edge=huge")
    assert variants.checks("mlp@fp16", case="edge=zeros")
    assert _has_note(variants["mlp@fp16"], "edges beyond what the variant is made for were not fed to it: ")
    assert not variants.checks("mlp@int8-static", case="edge=zeros")


def test_a_variant_of_a_wrong_model_is_not_blamed_on_precision(variants):
    """The model in float32 is as wrong."""
    assert variants["wrong"].cause is variants["wrong@fp16"].cause
    assert variants["wrong@fp16"].cause is not Cause.PRECISION


@pytest.mark.parametrize("kind", ["fp16", "int8-dynamic", "int8-static"])
def test_a_variant_in_which_nothing_changed_does_not_pass(variants, kind):
    """A tree ensemble has no weights to make smaller: an error that says so, and no file."""
    result = variants[f"forest@{kind}"]
    assert (result.verdict, result.cause) == (Status.ERROR, Cause.CONVERSION_FAILED)
    assert "nothing is in float16" in result.error or "nothing was quantised" in result.error
    assert "the model has TreeEnsembleClassifier" in result.error
    assert f"Fix: remove the variant {kind}" in result.error
    assert kind == "fp16" or f"{kind} takes Conv, Gemm, MatMul" in result.error
    assert not (variants.output / "models" / f"forest@{kind}.onnx").exists()


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        ("misspelt", "`exclude_nodes` names 'MatMull': the model has none such", "did you mean 'MatMul'?"),
        ("unknown-op", "`exclude_ops` names 'Softmaxx': the model has none such", "did you mean 'Softmax'?"),
        ("refused", "onnxruntime.quantization can't make it: ValueError: ONNXRuntime quantization doesn't", "onnx:"),
        ("no-such-output", "the manifest has a rule for an output 'probabilitys'", "did you mean 'probabilities'?"),
        ("no-such-data", "other.npz: no array for the input 'X'", "rename"),
    ],
)
def test_what_a_tool_refuses_has_a_reason_and_a_way_out(variants, name, message, fix):
    """The tools pass a misspelt name by; here it is an error."""
    result = variants[f"mlp@{name}"]
    assert result.verdict is Status.ERROR
    assert message in result.error
    assert fix in result.error.partition("Fix: ")[2]
    assert len(result.error) <= 2000


def test_the_reference_of_a_shipped_files_variant_is_that_file(variants):
    """Which shows what precision costs, and is said so."""
    assert variants["shipped"].weak_reference
    assert not variants["shipped@fp16"].weak_reference
    assert _has_note(variants["shipped@fp16"], "the reference is the model that the variant was made of")
    worst = max(check.max_abs for check in variants.checks("shipped@fp16", output="y"))
    assert worst > 0


@pytest.fixture(scope="module")
def torch_variants(tmp_path_factory) -> Run:
    """A convolutional net of torch."""
    folder = tmp_path_factory.mktemp("torch_variants")
    (folder / "digits.py").write_text(textwrap.dedent(TORCH))
    np.savez(folder / "images.npz", x=(DIGITS.images[:300, None] / 16).astype(np.float32))
    return run_manifest(
        folder,
        """
        version: 1
        models:
          - id: conv
            framework: torch
            source: digits.py:build
            inputs: {x: {dtype: float32, shape: [batch, 1, 8, 8], range: [0, 1]}}
            batches: [1, 32]
            variants:
              - fp16
              - int8-dynamic: {reduce_range: true}
              - int8-static: {data: images.npz, reduce_range: true, per_channel: true}
              - int8-static: {name: u8u8, data: images.npz, weights: uint8}
        """,
    )


@pytest.mark.parametrize("name", ["fp16", "int8-dynamic", "int8-static", "u8u8"])
def test_variants_of_a_torch_model_pass(torch_variants, name):
    """Weights beside the exported file, a Gemm that becomes a MatMul, Conv and BatchNormalization in one."""
    result = torch_variants[f"conv@{name}"]
    assert result.verdict is Status.PASSED, (result.error, [check.message for check in result.checks])
    assert result.convert.opsets.keys() <= {"com.microsoft", "pkg.onnxscript.torch_lib.common"}
