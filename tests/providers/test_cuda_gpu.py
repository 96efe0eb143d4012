"""On an NVIDIA GPU, which the machines of this project haven't got: `make test-cuda` on one that has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Absence, Cause, Status
from onnx_gate.worker.runtime.devices import device_present
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value
from tests.providers.real import models

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not device_present("cuda"), reason="no NVIDIA device here: `make test-cuda` wants one"),
]

MANIFEST = """
version: 1
defaults: {batches: [2, 3], providers: {cuda: {required: true}}}
models:
  - {id: net, source: net.onnx, min_placed: 1}
  - {id: conv, source: conv.onnx, forbid_elsewhere: [Conv]}
  - {id: partly, source: partly.onnx}
  - {id: too-little, source: partly.onnx, min_placed: 0.9}
  - {id: fell-back, source: unique.onnx}
  - {id: no-such-device, source: net.onnx, providers: {cuda: {options: {device_id: 99}}}}
  - id: exact
    source: matmul.onnx
    data: matmul.npz
    tolerance: {rtol: 1e-4, atol: 1e-3}
    providers: {cuda: {options: {use_tf32: 0}}}
  - id: tf32
    source: matmul.onnx
    data: matmul.npz
    tolerance: {rtol: 1e-4, atol: 1e-3}
    providers: {cuda: {options: {use_tf32: 1}}}
"""


def matmul(path: Path) -> None:
    """A product large enough for tensor cores, with the answer of float64."""
    random = np.random.default_rng(3)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 1024), (1024, 256)))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    save(path, [node], [value("x", shape=["batch", 1024])], [value("y", shape=["batch", 256])], {"w": w})
    np.savez(path.with_suffix(".npz"), x=x, y=(x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("cuda")
    models.net(folder / "net.onnx")
    models.conv(folder / "conv.onnx")
    models.partly(folder / "partly.onnx")
    matmul(folder / "matmul.onnx")
    unique = helper.make_node("Unique", ["x"], ["y"], name="unique", axis=0)
    save(folder / "unique.onnx", [unique], [value("x")], [value("y")])
    return run_manifest(folder, MANIFEST, jobs=1)


@pytest.mark.parametrize("model_id", ["net", "conv"])
def test_a_net_runs_on_the_gpu(ran: Run, model_id: str) -> None:
    """All of its nodes."""
    assert ran[model_id].verdict is Status.PASSED, ran[model_id].error
    placed = ran[model_id].placement["cuda"]
    assert placed.nodes == placed.on_provider > 0


def test_nodes_that_run_elsewhere_are_named(ran: Run) -> None:
    """Unique has no kernel on the GPU; a limit on placement that it breaks is an error."""
    assert [node.op for node in ran["partly"].placement["cuda"].elsewhere] == ["Unique"]
    assert ran["partly"].verdict is Status.PASSED
    assert (ran["too-little"].verdict, ran["too-little"].cause) == (Status.ERROR, Cause.PROVIDER)


def test_a_session_that_fell_back_whole_is_an_error(ran: Run) -> None:
    """It is on the GPU by name only."""
    (check,) = ran["fell-back"].checks
    assert (check.status, check.absence) == (Status.ERROR, Absence.FELL_BACK)


def test_a_device_that_is_not_there_is_an_error(ran: Run) -> None:
    """The CPU would have answered."""
    assert ran["no-such-device"].verdict is Status.ERROR


def largest_difference(model: ModelResult) -> float:
    """Every check has one."""
    found = []
    for check in model.checks:
        assert check.max_abs is not None
        found.append(check.max_abs)
    return max(found)


def test_tf32_costs_precision_where_the_gpu_has_it(ran: Run) -> None:
    """Without it, float32 is float32."""
    exact, rounded = (largest_difference(ran[name]) for name in ("exact", "tf32"))
    assert ran["exact"].verdict is Status.PASSED
    assert exact < 1e-3
    assert rounded >= exact
