"""Every row of our table of peers: what they let pass, and what onnx-gate does about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from skl2onnx import to_onnx

from onnx_gate.vocabulary import Cause, Status
from tests import onnx_models
from tests.conftest import Run, run_manifest
from tests.onnx_models import INT, D, F, value

SOURCE = """
import ctypes
import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

def regression():
    return LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])

def words():
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    return LogisticRegression().fit(rows, ["ham", "ham", "spam", "spam", "egg", "egg"])

def doubling():
    return InPlace()

class InPlace(LinearRegression):
    def __sklearn_is_fitted__(self):
        return True
    def predict(self, rows):
        rows *= 2
        return rows.astype(float)

def segfault():
    ctypes.string_at(0)
"""

MANIFEST = """
version: 1
defaults: {batches: [2]}
models:
  - {id: same, source: doubler.onnx, data: same.npz}
  - {id: element-off, source: doubler.onnx, data: element_off.npz}
  - {id: output-missing, source: 'source.py:words', framework: sklearn, onnx: label_only.onnx, outputs: {label: ignore}}
  - {id: output-extra, source: 'source.py:regression', framework: sklearn, onnx: regression_extra.onnx}
  - {id: recorded-missing, source: two_outputs.onnx, data: one_recorded.npz}
  - {id: recorded-ignored, source: two_outputs.onnx, data: one_recorded.npz, outputs: {z: ignore}}
  - {id: misspelt-rule, source: doubler.onnx, data: same.npz, outputs: {yy: exact}}
  - {id: misspelt-rule-of-provider, source: doubler.onnx, data: same.npz, providers: {cpu: {outputs: {yy: exact}}}}
  - id: ignored-nearer
    source: doubler.onnx
    data: element_off.npz
    outputs: {y: ignore}
    providers: {cpu: {outputs: {y: exact}}}
  - {id: all-ignored, source: doubler.onnx, data: element_off.npz, outputs: {y: ignore}}
  - {id: all-nan, source: logarithm.onnx, data: all_nan.npz}
  - {id: in-place, source: 'source.py:doubling', framework: sklearn, onnx: identity.onnx}
  - {id: test-set, source: 'source.py:regression', framework: sklearn, onnx: doubler_as_variable.onnx, data: sets}
  - {id: keys, source: 'source.py:words', framework: sklearn, onnx: zipmap_other_keys.onnx}
  - {id: swapped, source: two_outputs.onnx, data: swapped.npz}
  - {id: train-mode, source: dropout.onnx, data: dropout.npz}
  - {id: dtype-kind, source: 'source.py:regression', framework: sklearn, onnx: regression_int.onnx}
  - {id: dtype-width, source: 'source.py:regression', framework: sklearn, onnx: regression_double.onnx}
  - id: dtype-strict
    source: source.py:regression
    framework: sklearn
    onnx: regression_double.onnx
    strict_dtype: true
  - {id: nan-one-side, source: logarithm.onnx, data: nan_one_side.npz}
  - {id: nan-both-sides, source: logarithm.onnx, data: nan_both.npz}
  - {id: broadcast, source: column.onnx, data: broadcast.npz}
  - {id: cuda-auto, source: doubler.onnx, data: same.npz, providers: [cuda]}
  - {id: cuda-beside-cpu, source: doubler.onnx, data: same.npz, providers: [cpu, cuda]}
  - {id: cuda-required, source: doubler.onnx, data: same.npz, providers: {cuda: {required: true}}}
  - {id: segfault, source: 'source.py:segfault', framework: sklearn, inputs: {x: {dtype: float32, shape: [batch, 3]}}}
  - {id: words, source: 'source.py:words', framework: sklearn, inputs: {x: {dtype: float32, shape: [batch, 1]}}}
  - id: zipmap
    source: source.py:words
    framework: sklearn
    inputs: {x: {dtype: float32, shape: [batch, 1]}}
    convert: {zipmap: true}
"""


def regression(path: Path, kind: int = F, *, extra: bool = False) -> None:
    """x·[1, 2, 3] less the intercept of the source, as a graph of its own."""
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["product"]), node("Add", ["product", "b"], ["sum"])]
    nodes.append(node("Cast", ["sum"], ["variable"], to=kind))
    outputs = [value("variable", kind, ["batch", 1])]
    if extra:
        nodes.append(node("Identity", ["product"], ["debug"]))
        outputs.append(value("debug", F, ["batch", 1]))
    weights = np.array([[-1.0], [0.0], [1.0]], np.float32)
    onnx_models.save(path, nodes, [value("x")], outputs, {"w": weights, "b": np.float32(2.0)})


def write_models(folder: Path) -> None:
    node = helper.make_node
    (folder / "source.py").write_text(SOURCE)
    onnx_models.doubler(folder / "doubler.onnx")
    onnx_models.logarithm(folder / "logarithm.onnx")
    onnx_models.dropout(folder / "dropout.onnx", training=True)
    regression(folder / "regression_int.onnx", INT)
    regression(folder / "regression_double.onnx", D)
    regression(folder / "regression_extra.onnx", extra=True)
    x, label = value("x", F, ["batch", 1]), value("label", onnx_models.S, ["batch", 1])
    onnx_models.save(folder / "label_only.onnx", [node("Cast", ["x"], ["label"], to=onnx_models.S)], [x], [label])
    inputs, outputs = [value("x", INT, ["batch", 3])], [value("variable", F, ["batch", 3])]
    onnx_models.save(folder / "identity.onnx", [node("Cast", ["x"], ["variable"], to=F)], inputs, outputs)
    onnx_models.save(
        folder / "doubler_as_variable.onnx",
        [node("Mul", ["x", "two"], ["variable"])],
        [value("x")],
        [value("variable")],
        {"two": np.float32(2)},
    )
    _zipmap_with_other_keys(folder)
    twice = [node("Identity", ["x"], ["y"]), node("Neg", ["x"], ["z"])]
    onnx_models.save(folder / "two_outputs.onnx", twice, [value("x")], [value("y"), value("z")])
    total = [node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    onnx_models.save(
        folder / "column.onnx", total, [value("x")], [value("y", F, ["batch", 1])], {"axes": np.array([1])}
    )


def _zipmap_with_other_keys(folder: Path) -> None:
    """The right classifier, whose ZipMap calls its classes otherwise."""
    namespace: dict[str, Any] = {}
    exec(SOURCE, namespace)
    model = namespace["words"]()
    converted = to_onnx(model, np.zeros((1, 1), np.float32), target_opset={"": 18, "ai.onnx.ml": 3})
    for graph_node in converted.graph.node:
        for attribute in graph_node.attribute:
            if graph_node.op_type == "ZipMap" and attribute.name == "classlabels_strings":
                attribute.strings[:] = [b"a", b"b", b"c"]
    onnx.save(converted, str(folder / "zipmap_other_keys.onnx"))


def write_data(folder: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    off = 2 * x
    off[3, 1] += 0.5
    np.savez(folder / "same.npz", x=x, y=2 * x)
    np.savez(folder / "element_off.npz", x=x, y=off)
    np.savez(folder / "one_recorded.npz", x=x, y=x)
    np.savez(folder / "dropout.npz", x=x, y=x)
    np.savez(folder / "swapped.npz", x=x, y=-x, z=x)
    np.savez(folder / "all_nan.npz", x=-x, y=np.full_like(x, np.nan))
    sets = folder / "sets" / "test_data_set_0"
    sets.mkdir(parents=True)
    for name, array in (("input_0", x), ("output_0", 2 * x)):
        (sets / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    negative = x.copy()
    negative[1, 1] = -1
    with np.errstate(invalid="ignore"):
        np.savez(folder / "nan_both.npz", x=negative, y=np.log(negative))
    np.savez(folder / "nan_one_side.npz", x=negative, y=np.log(np.abs(negative)))
    np.savez(folder / "broadcast.npz", x=x[:2], y=x[:2].sum(axis=1))


@pytest.fixture(scope="module")
def peers(tmp_path_factory) -> Run:
    """All rows in one run."""
    folder = tmp_path_factory.mktemp("peers")
    write_models(folder)
    write_data(folder)
    return run_manifest(folder, MANIFEST)


def test_what_is_the_same_passes(peers):
    """The measure for all other rows."""
    assert peers["same"].verdict is Status.PASSED


def test_one_element_that_is_off_fails_and_is_named(peers):
    """Index, both values, and the count of one."""
    (check,) = peers["element-off"].checks
    assert check.status is Status.DIVERGED
    assert (check.mismatched, check.worst.index) == (1, (3, 1))
    assert "22 instead of 22.5 at [3, 1]" in check.message


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("output-missing", "the ONNX model has no output 'probabilities'"),
        ("output-extra", "the source has no output 'debug'"),
        ("recorded-missing", "no reference is recorded for the output 'z'"),
        ("dtype-kind", "the dtype is int64, expected float32"),
        ("dtype-strict", "the dtype is float64, expected float32"),
        ("broadcast", "the shape is (2, 1), expected (2,)"),
    ],
)
def test_a_broken_contract_fails(peers, model, words):
    """Missing and extra outputs, other dtypes, shapes that would broadcast."""
    assert (peers[model].verdict, peers[model].cause) == (Status.DIVERGED, Cause.CONTRACT)
    assert any(words in check.message for check in peers[model].checks)


@pytest.mark.parametrize("model", ["misspelt-rule", "misspelt-rule-of-provider"])
def test_a_rule_for_an_output_that_is_not_there_is_an_error(peers, model):
    """A misspelt name would loosen the gate."""
    assert (peers[model].verdict, peers[model].cause) == (Status.ERROR, Cause.CONTRACT)
    assert "has a rule for an output 'yy'; the ONNX model has: y. Fix: did you mean 'y'?" in peers[model].error


def test_an_output_without_reference_may_be_ignored(peers):
    """Only if the manifest says so."""
    assert peers["recorded-ignored"].verdict is Status.PASSED


def test_a_float_of_another_width_is_reported(peers):
    """It passes beside a shipped file unless strict_dtype is set, and the report tells."""
    assert peers["dtype-width"].verdict is Status.PASSED
    assert any("float64 in the .onnx and float32 in the source" in note for note in peers["dtype-width"].notes)


@pytest.mark.parametrize("model", ["all-ignored", "all-nan"])
def test_what_proves_nothing_does_not_pass(peers, model):
    """Every output ignored, or NaN everywhere on both sides."""
    assert peers[model].verdict is Status.ERROR


@pytest.mark.parametrize("model", ["ignored-nearer", "in-place", "test-set", "keys"])
def test_ways_to_slip_through_are_closed(peers, model):
    """A provider's nearer rule over `ignore`; a source that writes into its input; recorded outputs that are not the
    source's; a ZipMap whose keys are other classes."""
    assert peers[model].verdict is Status.DIVERGED, peers[model]


def test_swapped_outputs_are_told_as_that(peers):
    """Not as a bad conversion."""
    assert (peers["swapped"].verdict, peers["swapped"].cause) == (Status.DIVERGED, Cause.OUTPUT_ORDER)


def test_an_export_in_training_mode_fails_though_its_answers_agree(peers):
    """The optimiser removed the Dropout here, and would not elsewhere."""
    assert (peers["train-mode"].verdict, peers["train-mode"].cause) == (Status.DIVERGED, Cause.TRAIN_MODE)
    assert peers.checks("train-mode", provider="cpu", status=Status.PASSED)


def test_nan_on_one_side_fails(peers):
    """Whatever the tolerance."""
    (check,) = peers["nan-one-side"].checks
    assert (check.status, check.nonfinite_mismatched, check.worst.index) == (Status.DIVERGED, 1, (1, 1))
    assert peers["nan-one-side"].cause is Cause.NAN


def test_nan_that_meets_nan_passes_and_is_counted(peers):
    """The same place on both sides."""
    (check,) = peers["nan-both-sides"].checks
    assert (check.status, check.nan_matched) == (Status.PASSED, 1)


def test_cuda_that_does_not_load_is_never_a_pass(peers):
    """Skipped, with the runtime's own reason, where the machine has no such device."""
    (check,) = peers["cuda-auto"].checks
    assert (check.status, peers["cuda-auto"].verdict) == (Status.SKIPPED, Status.SKIPPED)
    assert "CUDAExecutionProvider did not load: libcublasLt.so" in check.message
    assert "[cuda skipped]" in peers.log
    assert peers.log.count("libcublasLt.so.13: cannot open") == 1 + peers.log.count("cuda-required")


def test_cuda_beside_the_cpu_is_a_visible_skip(peers):
    """The CPU's pass counts for the CPU only."""
    assert peers["cuda-beside-cpu"].verdict is Status.PASSED
    (check,) = peers.checks("cuda-beside-cpu", provider="cuda")
    assert check.status is Status.SKIPPED
    for report in ("summary.md", "junit.xml"):
        from onnx_gate.reports import RENDER

        assert "libcublasLt.so" in RENDER[report](peers.result)


def test_cuda_that_is_required_is_an_error(peers):
    """With the library that is missing."""
    model = peers["cuda-required"]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.PROVIDER_UNAVAILABLE)
    assert "libcublasLt.so" in model.error


def test_a_child_killed_by_a_signal_is_an_error(peers):
    """Not a pass, not a silence."""
    assert (peers["segfault"].verdict, peers["segfault"].cause) == (Status.ERROR, Cause.CRASHED)


@pytest.mark.parametrize("model", ["words", "zipmap"])
def test_string_labels_and_zipmap_are_compared(peers, model):
    """Labels as text, probabilities as the matrix that they are."""
    assert peers[model].verdict is Status.PASSED
    assert {check.dtype for check in peers[model].checks} == {"string", "float32"}
    shapes = {check.case: check.shape for check in peers[model].checks if check.dtype == "float32"}
    # Beside the batch that the manifest asks for: rows on either side of a decision.
    assert shapes.pop("domain")[1:] == (3,)
    assert list(shapes.values()) == [(2, 3)]


def test_a_divergence_ends_with_1(peers):
    """Though other models could not be judged at all."""
    assert peers.result.exit_code == 1


def test_a_run_in_which_nothing_was_compared_ends_with_3(tmp_path):
    """Skips alone are no pass; the command line agrees."""
    onnx_models.doubler(tmp_path / "doubler.onnx")
    (tmp_path / "onnx-gate.yml").write_text(
        "version: 1\nmodels: [{id: m, source: doubler.onnx, providers: [cuda], batches: [1]}]\n"
    )
    done = subprocess.run([sys.executable, "-m", "onnx_gate", "run"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3
    assert "1 of 1 model skipped" in done.stdout
