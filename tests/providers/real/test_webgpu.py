"""WebGPU on a Vulkan device that is all software: placed, partly placed, not at all, and wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.providers.real import models
from tests.providers.real.conftest import Outcome, clean, python_of, run_in

pytestmark = pytest.mark.providers

MANIFEST = """
version: 1
defaults: {batches: [2, 3], providers: [cpu, WebGpuExecutionProvider]}
models:
  - {id: net, source: net.onnx}
  - {id: conv, source: conv.onnx, providers: {webgpu: {min_placed: 1, forbid_elsewhere: [Conv]}}}
  - {id: partly, source: partly.onnx}
  - {id: too-little, source: partly.onnx, min_placed: 0.9}
  - {id: forbidden, source: partly.onnx, providers: {webgpu: {forbid_elsewhere: [Relu, Unique]}}}
  - {id: spectrum, source: spectrum.onnx}
  - id: strict
    source: partly.onnx
    providers: {webgpu: {session: {config: {session.disable_cpu_ep_fallback: 1}}}}
  - {id: norm, source: norm.onnx, data: norm.npz, tolerance: {rtol: 1e-3, atol: 1e-3}}
  - {id: within, source: within.onnx, tolerance: {rtol: 1e-3, atol: 5e-3}}
  - {id: other-session, source: net.onnx, providers: [webgpu], session: {optimization: disabled}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, vulkan: dict[str, str]) -> Outcome:
    folder = tmp_path_factory.mktemp("webgpu")
    models.net(folder / "net.onnx")
    models.conv(folder / "conv.onnx")
    models.partly(folder / "partly.onnx")
    models.spectrum(folder / "spectrum.onnx")
    models.layer_norm(folder / "norm.onnx")
    models.norm_within(folder / "within.onnx")
    return run_in("webgpu", folder, MANIFEST, **vulkan)


def test_a_model_that_is_all_on_the_provider_passes(ran: Outcome) -> None:
    """With its nodes counted in a profile, since the runtime's own record names none."""
    model = ran.model("net")
    assert model["verdict"] == "passed", model["error"]
    assert model["placement"]["webgpu"] == {"nodes": 3, "on_provider": 3, "elsewhere": [], "counted": "ran"}
    assert ran.results["environment"]["providers"]["webgpu"]["available"] is True
    assert "webgpu ran 3 of 3 nodes (as they ran, fused ones as one)" in ran.summary


def test_a_layout_that_the_provider_changes_is_counted_as_it_ran(ran: Outcome) -> None:
    """The record names 2 transposes of 4 nodes: taken at its word, the limits of this model would break."""
    model = ran.model("conv")
    assert model["verdict"] == "passed", model["error"]
    placed = model["placement"]["webgpu"]
    assert (placed["on_provider"], placed["elsewhere"], placed["counted"]) == (placed["nodes"], [], "ran")
    assert placed["nodes"] >= 3


def test_nodes_that_ran_elsewhere_are_named(ran: Outcome) -> None:
    """The answers are right, and the report says what they rest on."""
    model = ran.model("partly")
    assert model["verdict"] == "passed", model["error"]
    placed = model["placement"]["webgpu"]
    assert (placed["nodes"], placed["on_provider"]) == (4, 3)
    assert placed["elsewhere"] == [{"node": "unique", "op": "Unique", "provider": "cpu"}]
    assert "webgpu ran 3 of 4 nodes" in ran.summary
    assert "elsewhere: Unique on cpu (1)" in ran.summary


@pytest.mark.parametrize(
    ("model_id", "words"),
    [
        ("too-little", "3 of 4 nodes (75.0%) ran on webgpu, min_placed asks for 90.0%; elsewhere ran: Unique"),
        ("forbidden", "forbid_elsewhere wants these on webgpu: Unique (unique) on cpu"),
    ],
)
def test_a_limit_on_placement_that_is_broken_is_an_error(ran: Outcome, model_id: str, words: str) -> None:
    """Though every answer is right; the comparisons are in the report all the same."""
    model = ran.model(model_id)
    assert (model["verdict"], model["cause"]) == ("error", "provider")
    assert words in model["error"]
    assert [check["status"] for check in model["checks"] if check["case"] == "placement"] == ["error"]
    assert any(check["status"] == "passed" and check["provider"] == "webgpu" for check in model["checks"])


def test_a_session_that_fell_back_whole_is_an_error(ran: Outcome) -> None:
    """The session lists WebGPU, and not one node is on it. The CPU's answers, beside it, are right."""
    model = ran.model("spectrum")
    assert (model["verdict"], model["cause"]) == ("error", "provider-unavailable")
    check = ran.only_check("spectrum", "webgpu")
    assert (check["status"], check["absence"]) == ("error", "fell-back")
    assert "its one node was not placed on webgpu; elsewhere ran: DFT" in check["message"]


def test_the_runtimes_own_ban_of_the_cpu_is_the_providers_error(ran: Outcome) -> None:
    """A session that may not use the CPU is refused by the runtime: the model is not to blame."""
    model = ran.model("strict")
    assert (model["verdict"], model["cause"]) == ("error", "provider")
    assert "explicitly disabled" in model["error"]


def test_a_provider_that_answers_otherwise_diverges(ran: Outcome) -> None:
    """The CPU is within 2e-4 of the recorded answers, WebGPU is off by 0.21."""
    model = ran.model("norm")
    assert (model["verdict"], model["cause"]) == ("diverged", "provider")
    worst = {
        name: max(check["max_abs"] for check in model["checks"] if check["provider"] == name)
        for name in ("cpu", "webgpu")
    }
    assert worst["cpu"] < 1e-3
    assert 0.05 < worst["webgpu"] < 5
    assert {check["status"] for check in model["checks"] if check["provider"] == "cpu"} == {"passed"}
    assert model["placement"]["webgpu"]["on_provider"] == 1


def test_the_node_that_the_provider_computes_wrongly_is_named(ran: Outcome) -> None:
    """From the values of the CPU, all others are right; with that one right, so are the answers."""
    model = ran.model("within")
    assert (model["verdict"], model["cause"]) == ("diverged", "provider"), model["advice"]
    place = model["place"]
    assert place["against"] == "provider"
    (fault,) = place["faults"]
    assert fault["nodes"] == [{"name": "norm", "op": "LayerNormalization"}]
    assert (fault["reads"], fault["value"]) == (["b"], "n")
    assert 0.05 < fault["error"] < 5
    assert fault["noise"] < 1e-4
    errors = {point["value"]: point["error"] / point["noise"] for point in place["along"]}
    assert errors["a"] < 8 and errors["b"] < 8
    assert errors["n"] > 100 and errors["y"] > 100
    assert "LayerNormalization `norm`, computed by webgpu, gives another value from the same inputs" in model["advice"]
    assert "`providers: {webgpu: {tolerance: {rtol: 0.001, atol: " in model["advice"]


def test_the_options_of_a_session_are_recorded(ran: Outcome) -> None:
    """And shown where they aren't the default."""
    model = ran.model("other-session")
    assert model["verdict"] == "passed", model["error"]
    assert model["sessions"]["webgpu"]["optimization"] == "disabled"
    assert "session on webgpu: optimization disabled" in ran.summary


def test_the_run_fails_for_what_diverged(ran: Outcome) -> None:
    """What could not be judged comes second."""
    assert (ran.code, ran.results["verdict"]) == (1, "diverged")


def test_no_adapter_is_no_device(tmp_path: Path, vulkan: dict[str, str]) -> None:
    """The runtime prints a line and answers from the CPU: a visible skip in auto, an error when required."""
    models.net(tmp_path / "net.onnx")
    nowhere = {**vulkan, "VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    manifest = (
        "version: 1\ndefaults: {batches: [2]}\nmodels:\n"
        "  - {id: auto, source: net.onnx, providers: [webgpu]}\n"
        "  - {id: required, source: net.onnx, providers: {webgpu: {required: true}}}\n"
    )
    ran = run_in("webgpu", tmp_path, manifest, **nowhere)
    assert ran.code == 3
    auto, required = ran.only_check("auto", "webgpu"), ran.only_check("required", "webgpu")
    # On a machine that has a GPU, auto is an error too.
    assert auto["status"] in ("skipped", "error")
    assert (required["status"], required["absence"], auto["absence"]) == ("error", "no-device", "no-device")
    assert "Failed to get a WebGPU adapter" in required["message"]
    assert "webgpu" in ran.said


def test_doctor_knows_the_provider(vulkan: dict[str, str]) -> None:
    """By running a small model on it."""
    command = [str(python_of("webgpu")), "-P", "-m", "onnx_gate", "doctor"]
    done = subprocess.run(command, env=clean(vulkan), capture_output=True, text=True, check=False, timeout=120)
    assert "  ok  webgpu" in done.stdout
    assert "  no  cuda (not-built-in): this build of onnxruntime (1.27.0) has no CUDAExecutionProvider" in done.stdout
