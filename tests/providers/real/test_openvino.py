"""OpenVINO, which runs on any x86 processor: placed, partly placed, not at all, and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.providers.real import models
from tests.providers.real.conftest import Outcome, run_in

pytestmark = pytest.mark.providers

MANIFEST = """
version: 1
defaults: {batches: [2, 3], providers: [cpu, openvino]}
models:
  - {id: net, source: net.onnx, providers: {OpenVINOExecutionProvider: {min_placed: 1, options: {num_of_threads: 1}}}}
  - {id: conv, source: conv.onnx, forbid_elsewhere: [Conv]}
  - {id: partly, source: partly.onnx}
  - {id: too-little, source: partly.onnx, min_placed: 0.9}
  - {id: spectrum, source: spectrum.onnx}
  - id: strict
    source: partly.onnx
    providers: {openvino: {session: {config: {session.disable_cpu_ep_fallback: 1}}}}
  - {id: nan, source: nan.onnx, data: nan.npz, batches: [2]}
  - {id: bad-value, source: net.onnx, providers: {openvino: {options: {precision: FP7}}}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("openvino")
    models.net(folder / "net.onnx")
    models.conv(folder / "conv.onnx")
    models.partly(folder / "partly.onnx")
    models.spectrum(folder / "spectrum.onnx")
    models.relu_of_nan(folder / "nan.onnx")
    return run_in("openvino", folder, MANIFEST)


@pytest.mark.parametrize("model_id", ["net", "conv"])
def test_a_model_that_is_all_on_the_provider_passes(ran: Outcome, model_id: str) -> None:
    """Its nodes are counted as they were before OpenVINO made one of them, which is all that a profile sees."""
    model = ran.model(model_id)
    assert model["verdict"] == "passed", model["error"]
    assert model["placement"]["openvino"] == {"nodes": 3, "on_provider": 3, "elsewhere": [], "counted": "assigned"}
    assert "openvino ran 3 of 3 nodes" in ran.summary


def test_nodes_that_ran_elsewhere_are_named(ran: Outcome) -> None:
    """Two compiled parts, and a node between them."""
    model = ran.model("partly")
    assert model["verdict"] == "passed", model["error"]
    placed = model["placement"]["openvino"]
    assert (placed["nodes"], placed["on_provider"]) == (4, 3)
    assert placed["elsewhere"] == [{"node": "unique", "op": "Unique", "provider": "cpu"}]


def test_a_limit_on_placement_that_is_broken_is_an_error(ran: Outcome) -> None:
    """Though every answer is right."""
    model = ran.model("too-little")
    assert (model["verdict"], model["cause"]) == ("error", "provider")
    assert "3 of 4 nodes (75.0%) ran on openvino, min_placed asks for 90.0%; elsewhere ran: Unique" in model["error"]


def test_a_session_that_fell_back_whole_is_an_error(ran: Outcome) -> None:
    """OpenVINO has no DFT of this kind."""
    check = ran.only_check("spectrum", "openvino")
    assert (check["status"], check["absence"]) == ("error", "fell-back")
    assert "its one node was not placed on openvino; elsewhere ran: DFT" in check["message"]


def test_the_runtimes_own_ban_of_the_cpu_is_the_providers_error(ran: Outcome) -> None:
    """A session that may not use the CPU is refused by the runtime: the model is not to blame."""
    model = ran.model("strict")
    assert (model["verdict"], model["cause"]) == ("error", "provider")
    assert "explicitly disabled" in model["error"]


def test_a_provider_that_answers_otherwise_diverges(ran: Outcome) -> None:
    """The CPU keeps NaN, as the recorded answers do; OpenVINO answers 0."""
    model = ran.model("nan")
    assert model["verdict"] == "diverged"
    by_provider = {check["provider"]: check for check in model["checks"]}
    assert by_provider["cpu"]["status"] == "passed"
    assert (by_provider["openvino"]["status"], by_provider["openvino"]["nonfinite_mismatched"]) == ("diverged", 1)


def test_a_value_that_the_provider_refuses_is_an_error_in_auto_too(ran: Outcome) -> None:
    """The runtime logs it and answers from the CPU; the processor is there, so nothing is skipped."""
    check = ran.only_check("bad-value", "openvino")
    assert (check["status"], check["absence"]) == ("error", "bad-option")
    assert "Unsupported inference precision" in check["message"]


def test_a_provider_of_another_build_is_a_visible_skip(tmp_path: Path) -> None:
    """Only one build can be installed; alone it leaves nothing compared, beside another it is listed."""
    models.net(tmp_path / "net.onnx")
    manifest = "version: 1\nmodels: [{id: net, source: net.onnx, batches: [2], providers: [openvino, webgpu]}]\n"
    ran = run_in("openvino", tmp_path, manifest)
    check = ran.only_check("net", "webgpu")
    assert check["absence"] == "not-built-in"
    # Where there is a GPU, a build that can't use it is an error.
    assert (ran.code, check["status"]) in ((0, "skipped"), (3, "error"))
    assert "has no WebGpuExecutionProvider" in ran.summary
    assert run_in("openvino", tmp_path, manifest, "--provider", "webgpu").code == 3
