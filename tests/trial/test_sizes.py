"""Sizes of real models: what is built into a file is found, and healthy models pass at all of them."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value
from tests.trial import sized_models

INPUTS = "inputs: {x: {dtype: float32, shape: [batch, seq, 3]}}"
MANIFEST = f"""
version: 1
defaults: {{framework: torch, batches: [1, 4]}}
models:
  - {{id: mean, source: 'sized_models.py:mean', {INPUTS}, data: six.npz}}
  - {{id: lstm, source: 'sized_models.py:lstm', {INPUTS}, data: six.npz, dims: {{seq: [2, 6, 13]}}}}
  - {{id: even, source: 'sized_models.py:even', {INPUTS}, data: six.npz, onnx: even.onnx}}
  - {{id: baked, source: 'sized_models.py:baked', {INPUTS}, data: six.npz, onnx: baked.onnx}}
  - {{id: unstated, source: 'sized_models.py:baked', data: six.npz, onnx: baked.onnx}}
  - {{id: unstated-mean, source: 'sized_models.py:mean', data: six.npz, onnx: mean.onnx}}
  - {{id: longer, source: 'sized_models.py:baked', data: six.npz, onnx: baked.onnx, dims: {{seq: [9]}}}}
  - {{id: reshaped, source: 'sized_models.py:reshaped', {INPUTS}, data: six.npz, onnx: reshaped.onnx}}
  - {{id: too-long, source: 'sized_models.py:short', {INPUTS}, data: six.npz, onnx: short.onnx, dims: {{seq: [4, 9]}}}}
  - {{id: folder, source: 'sized_models.py:mean', {INPUTS}, data: lengths}}
  - {{id: baked-folder, source: 'sized_models.py:baked', {INPUTS}, data: lengths, onnx: baked.onnx}}
  - {{id: fed, source: 'sized_models.py:mean', {INPUTS}, data: named.npz, feed: {{x: signal}}, ignore_data: [other]}}
"""


def export(folder: Path, name: str) -> None:
    """As many people still do: a trace, with the axes that are said to be dynamic."""
    axes = {"x": {0: "batch", 1: "seq"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = getattr(sized_models, name)()
        torch.onnx.export(
            module,
            (torch.randn(2, 6, 3),),
            str(folder / f"{name}.onnx"),
            input_names=["x"],
            dynamic_axes=axes,
            dynamo=False,
        )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("sizes")
    shutil.copy(sized_models.__file__, folder)
    for name in ("mean", "even", "baked", "reshaped", "short"):
        export(folder, name)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 6, 3)).astype(np.float32)
    np.savez(folder / "six.npz", x=rows)
    np.savez(folder / "named.npz", signal=rows, other=rows)
    (folder / "lengths").mkdir()
    for number, length in enumerate((3, 7, 7, 6)):
        np.savez(folder / "lengths" / f"{number}.npz", x=rng.normal(size=(2, length, 3)).astype(np.float32))
    return run_manifest(folder, MANIFEST)


def cases(run: Run, model: str) -> dict[str, Status]:
    """Each case, with the worst that was found in it."""
    found: dict[str, Status] = {}
    for check in run[model].checks:
        found[check.case] = check.status if check.status is not Status.PASSED else found.get(check.case, check.status)
    return found


def warnings_of(run: Run, model: str) -> str:
    coverage = run[model].coverage
    return "\n".join(coverage.warnings) if coverage else ""


def test_a_healthy_model_passes_at_shorter_cuts(models):
    """Which are run beside the data itself."""
    assert models["mean"].verdict is Status.PASSED
    assert list(cases(models, "mean")) == ["batch=1", "batch=4", "batch=2", "cut:seq=5", "cut:seq=3"]


def test_listed_sizes_are_run(models):
    """Cut, and repeated for the longer one; nothing else is cut."""
    assert models["lstm"].verdict is Status.PASSED
    assert list(cases(models, "lstm")) == ["batch=1", "batch=4", "batch=2", "batch=4,seq=2", "batch=4,seq=13"]


def test_a_cut_that_the_source_refuses_is_left_out(models):
    """Of three and five steps none makes pairs; what remains is one length, and a warning."""
    assert models["even"].verdict is Status.PASSED
    assert list(cases(models, "even")) == ["batch=1", "batch=4", "batch=2"]
    assert any("shorter cuts of the data left out" in note for note in models["even"].notes)
    assert "'seq' was run at one size only, 6" in warnings_of(models, "even")
    assert "'seq'" not in warnings_of(models, "mean")


def test_a_length_built_into_the_file_diverges_where_the_manifest_names_it(models):
    """Right at the length of the data, wrong at both cuts."""
    assert (models["baked"].verdict, models["baked"].cause) == (Status.DIVERGED, Cause.BATCH_BAKED)
    assert "wrong at seq=3, 5 and right at seq=6" in models["baked"].advice
    wrong = [case for case, status in cases(models, "baked").items() if status is Status.DIVERGED]
    assert wrong == ["cut:seq=5", "cut:seq=3"]


def test_a_length_built_into_the_file_is_a_warning_where_only_the_file_names_it(models):
    """Nobody has said that it varies; what is right there is a check like any other."""
    assert models["unstated"].verdict is Status.PASSED
    assert "cut:seq=5" not in cases(models, "unstated")
    assert "cut:seq=5: on cpu the model differs from the source" in warnings_of(models, "unstated")
    assert models["unstated-mean"].verdict is Status.PASSED
    assert "cut:seq=5" in cases(models, "unstated-mean")
    assert "cut:" not in warnings_of(models, "unstated-mean")


def test_a_listed_size_is_held_whoever_names_the_dimension(models):
    """Longer ones too."""
    assert (models["longer"].verdict, models["longer"].cause) == (Status.DIVERGED, Cause.BATCH_BAKED)
    assert cases(models, "longer")["batch=4,seq=9"] is Status.DIVERGED


def test_a_size_that_the_runtime_refuses_is_a_divergence(models):
    """The source answers it."""
    assert (models["reshaped"].verdict, models["reshaped"].cause) == (Status.DIVERGED, Cause.BATCH_BAKED)


def test_a_listed_size_that_the_source_refuses_is_an_error(models):
    """It has to be run."""
    model = models["too-long"]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.LOAD_FAILED)
    (failed,) = (check for check in model.checks if check.status is Status.ERROR)
    assert "the source itself fails on batch=4,seq=9" in failed.message
    assert "from `dims`" in failed.fix


def test_a_folder_of_lengths_is_run_at_each_of_them(models):
    """And finds what is built in."""
    assert models["folder"].verdict is Status.PASSED
    assert set(cases(models, "folder")) == {"batch=1,seq=7", "batch=4,seq=7", "batch=1,seq=3", "batch=1,seq=6"}
    assert models["baked-folder"].verdict is Status.DIVERGED
    right = [case for case, status in cases(models, "baked-folder").items() if status is Status.PASSED]
    assert right == ["batch=1,seq=6"]


def test_feed_names_the_array(models):
    """Whatever the data calls it."""
    assert models["fed"].verdict is Status.PASSED


def fixed(path: Path, shape: list[object]) -> Path:
    """y = x + 1, for one shape."""
    node = helper.make_node("Add", ["x", "one"], ["y"])
    return save(path, [node], [value("x", shape=shape)], [value("y", shape=shape)], {"one": np.float32(1)})


@pytest.mark.parametrize(
    ("own", "defaults", "verdict", "warned"),
    [
        ("batches: [1, 8]", "", Status.DIVERGED, False),
        ("batches: [1]", "", Status.PASSED, False),
        ("", "batches: [1, 8]", Status.PASSED, True),
        ("", "", Status.PASSED, True),
        ("inputs: {x: {dtype: float32, shape: [1, 3]}}", "", Status.PASSED, False),
        ("inputs: {x: {dtype: float32, shape: [batch, 3]}}", "", Status.DIVERGED, False),
        ("dims: {seq: [2, 3]}", "", Status.DIVERGED, True),
    ],
)
def test_a_batch_that_the_file_fixes(
    run: Callable[..., Run], tmp_path: Path, own: str, defaults: str, verdict: Status, warned: bool
) -> None:
    """Is a divergence where the model itself asks for others, and a warning where nobody does."""
    fixed(tmp_path / "m.onnx", [1, 3])
    found = run(f"version: 1\ndefaults: {{{defaults}}}\nmodels: [{{id: m, source: m.onnx{', ' if own else ''}{own}}}]")
    assert found["m"].verdict is verdict
    assert found["m"].cause is (Cause.BATCH_BAKED if verdict is Status.DIVERGED else None)
    assert ("the .onnx fixes the batch at 1" in warnings_of(found, "m")) is warned


@pytest.mark.parametrize("own", ["", "batches: [1, 8]", "batches: [4, 8]", "data: rows.npz", "dims: {n: [3, 6]}"])
def test_a_size_that_the_file_fixes_and_the_inputs_leave_open(
    run: Callable[..., Run], tmp_path: Path, own: str
) -> None:
    """Is a divergence, whatever the size is; what the file can do is compared."""
    fixed(tmp_path / "m.onnx", [4, 3])
    np.savez(tmp_path / "rows.npz", x=np.ones((9, 3), np.float32))
    shape = "[batch, n]" if "dims" in own else "[batch, 3]"
    keys = f"source: m.onnx, inputs: {{x: {{dtype: float32, shape: {shape}}}}}{', ' if own else ''}{own}"
    found = run(f"version: 1\nmodels: [{{id: m, {keys}}}]")
    assert (found["m"].verdict, found["m"].cause) == (Status.DIVERGED, Cause.BATCH_BAKED)
    assert "dimension 0 (batch) was asked to be dynamic and is fixed at 4" in found["m"].checks[0].message
    assert not [check for check in found["m"].checks if check.status is Status.ERROR]
    assert [check for check in found["m"].checks if check.status is Status.PASSED]


def test_sizes_that_the_file_has_elsewhere_are_not_those_of_one_dimension(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """A file that fixes [10, 5] can't run 5 and 10 in one dimension; a single size may be what it has."""
    fixed(tmp_path / "m.onnx", ["batch", 10, 5])
    entries = ["{id: m, source: m.onnx, dims: {seq: [5, 10]}}", "{id: one, source: m.onnx, dims: {seq: [10]}}"]
    found = run(f"version: 1\nmodels: [{', '.join(entries)}]")
    assert (found["m"].verdict, found["m"].cause) == (Status.DIVERGED, Cause.BATCH_BAKED)
    assert (found["one"].verdict, found["one"].cause) == (Status.ERROR, Cause.LOAD_FAILED)


def test_sizes_under_defaults_that_the_file_fixes_are_a_warning(run: Callable[..., Run], tmp_path: Path) -> None:
    """Other models of the manifest may have the dimension: nobody asks this one for it, and nobody saw it vary."""
    fixed(tmp_path / "m.onnx", ["batch", 128])
    found = run("version: 1\ndefaults: {dims: {seq: [2, 3]}}\nmodels: [{id: m, source: m.onnx}]")
    assert found["m"].verdict is Status.PASSED
    assert "`dims: {seq: [2, 3]}` is asked for" in warnings_of(found, "m")
    assert "these sizes were not compared" in warnings_of(found, "m")


def test_a_dimension_that_the_file_lacks_is_a_slip_where_it_has_another(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """An error then, as ever: nobody knows that the sizes are meant for it."""
    fixed(tmp_path / "m.onnx", ["batch", "length"])
    found = run("version: 1\nmodels: [{id: m, source: m.onnx, dims: {seq: [2, 3]}}]")
    assert (found["m"].verdict, found["m"].cause) == (Status.ERROR, Cause.LOAD_FAILED)
