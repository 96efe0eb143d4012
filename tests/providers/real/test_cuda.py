"""CUDA where it can't be used, in every way that can be had without a GPU: told apart, and never a pass."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from onnx_gate.worker.runtime.devices import device_present
from tests.providers.real import models
from tests.providers.real.conftest import Outcome, run_in

pytestmark = [
    pytest.mark.providers,
    pytest.mark.skipif(bool(device_present("cuda")), reason="this machine has an NVIDIA device"),
]

MANIFEST = """
version: 1
defaults: {batches: [2]}
models:
  - {id: auto, source: net.onnx, providers: [cuda]}
  - {id: beside, source: net.onnx, providers: [cpu, cuda]}
  - {id: required, source: net.onnx, providers: {cuda: {required: true}}}
"""
NO_DEVICE = {"CODE": 100, "COUNT": 0, "VERSION": 13000, "CAPABILITY": 9}
TOO_OLD = {"CODE": 0, "COUNT": 1, "VERSION": 13000, "CAPABILITY": 3}
OLD_DRIVER = {"CODE": 0, "COUNT": 1, "VERSION": 12040, "CAPABILITY": 9}


def compile_driver(folder: Path, told: dict[str, int]) -> dict[str, str]:
    """A libcuda.so.1 that answers as told, and the variable that leads to it."""
    given = [f"-D{name}={value}" for name, value in told.items()]
    source = Path(__file__).with_name("driver.c")
    subprocess.run(["gcc", "-shared", "-fPIC", *given, "-o", str(folder / "libcuda.so.1"), str(source)], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}


def judge(folder: Path, environment: str = "cuda", **environ: str) -> Outcome:
    models.net(folder / "net.onnx")
    return run_in(environment, folder, MANIFEST, **environ)


def assert_skipped(ran: Outcome, kind: str, words: str) -> None:
    """No device at all: auto is a skip that can be seen, required an error, and neither is a pass."""
    assert ran.code == 3
    for model_id, status in (("auto", "skipped"), ("beside", "skipped"), ("required", "error")):
        check = ran.only_check(model_id, "cuda")
        assert (check["status"], check["cause"], check["absence"]) == (status, "provider-unavailable", kind)
        assert words in check["message"]
    assert [ran.model(name)["verdict"] for name in ("auto", "beside", "required")] == ["skipped", "passed", "error"]
    state = ran.results["environment"]["providers"]["cuda"]
    assert (state["available"], state["kind"]) == (False, kind)
    assert words in ran.summary
    assert "[cuda skipped]" in ran.said


def assert_refused(ran: Outcome, kind: str, words: str) -> None:
    """A device that is there and can't be used is an error, required or not."""
    assert ran.code == 3
    for model_id in ("auto", "beside", "required"):
        check = ran.only_check(model_id, "cuda")
        assert (check["status"], check["absence"]) == ("error", kind)
        assert words in check["message"]
        assert ran.model(model_id)["verdict"] == "error"


def test_libraries_without_a_driver(tmp_path: Path) -> None:
    """They come from pip, and onnxruntime finds them only when it is told to."""
    assert_skipped(judge(tmp_path), "driver-missing", "libcuda.so.1: cannot open shared object file")


def test_a_driver_without_a_device(tmp_path: Path) -> None:
    """The driver says so; the runtime's own words are about an error of its own."""
    ran = judge(tmp_path, **compile_driver(tmp_path, NO_DEVICE))
    assert_skipped(ran, "no-device", "the driver serves CUDA 13.0 and reports no device")


def test_a_device_that_is_too_old(tmp_path: Path) -> None:
    """It is there, so that auto is an error too."""
    ran = judge(tmp_path, **compile_driver(tmp_path, TOO_OLD))
    assert_refused(ran, "device-too-old", "Paper GPU, compute capability 3.0: CUDA 13 serves 7.5 and newer")


def test_a_driver_that_is_too_old(tmp_path: Path) -> None:
    """With both versions."""
    ran = judge(tmp_path, **compile_driver(tmp_path, OLD_DRIVER))
    assert_refused(ran, "version-mismatch", "the driver serves CUDA 12.4, and this onnxruntime wants CUDA 13")


def test_no_libraries(tmp_path: Path) -> None:
    """The first of them that is missing is named."""
    ran = judge(tmp_path, "cuda-bare")
    assert_skipped(ran, "library-missing", "libcublasLt.so.13: cannot open shared object file")


def test_libraries_of_another_version(tmp_path: Path) -> None:
    """Both versions are named."""
    older = tmp_path / "libcublasLt.so.12"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", os.devnull, "-o", str(older)], check=True)
    ran = judge(tmp_path, "cuda-bare", LD_LIBRARY_PATH=str(tmp_path))
    assert_skipped(ran, "version-mismatch", "it wants libcublasLt.so.13 and found libcublasLt.so.12")


def test_a_plug_in_that_finds_no_device(tmp_path: Path) -> None:
    """A real library that ONNX Runtime registers, on a machine that has nothing for it."""
    models.net(tmp_path / "net.onnx")
    plug_in = "{mine: {library: onnxruntime_ep_webgpu}}"
    ran = run_in("cuda", tmp_path, f"version: 1\nmodels: [{{id: net, source: net.onnx, providers: {plug_in}}}]\n")
    check = ran.only_check("net", "mine")
    assert (ran.code, check["status"], check["absence"]) == (3, "skipped", "no-device")
    assert "libonnxruntime_providers_webgpu.so finds no device here" in check["message"]
