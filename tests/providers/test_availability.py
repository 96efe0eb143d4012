"""The kinds of reasons, in the words of the runtime and of the driver."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

import pytest

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.vocabulary import Absence
from onnx_gate.worker.runtime import availability
from onnx_gate.worker.runtime.availability import did_not_load, explain, lost, not_built_in
from onnx_gate.worker.runtime.nvidia import Driver, ask_driver, other_version

CUDA = ProviderSpec(name="cuda")
HEALTHY = Driver(kind=None, words="the driver serves CUDA 13.0 and reports Some GPU", devices=("Some GPU",))


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver with a device, which this machine hasn't got."""
    monkeypatch.setattr(availability, "ask_driver", lambda wanted: HEALTHY)


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("libcudnn.so.9: cannot open shared object file: No such file or directory", Absence.LIBRARY_MISSING),
        ("CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", Absence.VERSION_MISMATCH),
        ("CUDA failure 209: no kernel image is available for execution on the device", Absence.DEVICE_TOO_OLD),
        ("CUDA failure 2: out of memory ; GPU=0", Absence.OUT_OF_MEMORY),
        ("CUDA failure 100: no CUDA-capable device is detected", Absence.NO_DEVICE),
        ("Unknown provider option: use_tf23", Absence.BAD_OPTION),
        ("something else altogether", Absence.UNKNOWN),
        ("", Absence.UNKNOWN),
    ],
)
def test_the_runtimes_words_have_a_kind(told: str, kind: Absence) -> None:
    """With a device that is there, each is an error: nothing of it can be skipped."""
    found = did_not_load(CUDA, "CUDAExecutionProvider", told)
    assert (found.kind, found.device_present) == (kind, True)
    assert found.fix
    assert str(found).startswith("CUDAExecutionProvider did not load: ")


def test_the_line_that_shows_the_kind_is_quoted() -> None:
    """Not the first that sounds like one."""
    first = "Warning: loader_get_json: Failed to open JSON file"
    failed = "wgpu::Adapter*)> status == Success was false. Failed to get a WebGPU adapter: No supported adapters"
    log = f"{first}\nEP Error /onnxruntime_src/webgpu_context.cc:65 {failed}"
    assert explain("webgpu", "WebGpu", log).words == (
        "WebGpu did not load: Failed to get a WebGPU adapter: No supported adapters"
    )


def test_a_driver_that_knows_better_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's error is often about something that follows from it."""
    old = Driver(kind=Absence.DEVICE_TOO_OLD, words="Old GPU, compute capability 3.0", devices=("Old GPU",))
    monkeypatch.setattr(availability, "ask_driver", lambda wanted: old)
    found = explain("cuda", "CUDA", "CUDA failure 999: unknown error")
    assert (found.kind, found.device) == (Absence.DEVICE_TOO_OLD, "Old GPU")
    missing = explain("cuda", "CUDA", "libcublasLt.so.99: cannot open shared object file")
    assert missing.kind is Absence.LIBRARY_MISSING
    assert "libcublasLt.so.99" in missing.fix


def test_a_build_without_the_provider_says_what_brings_it() -> None:
    """A wheel, where there is one."""
    found = not_built_in(ProviderSpec(name="openvino"), "OpenVINOExecutionProvider")
    assert (found.kind, found.device_present) == (Absence.NOT_BUILT_IN, False)
    assert "pip install onnxruntime-openvino" in found.fix


def test_a_processor_is_always_there() -> None:
    """OpenVINO that is built in and doesn't load is an error on any machine."""
    assert did_not_load(ProviderSpec(name="openvino"), "OpenVINO", "no luck").device_present


def test_a_device_that_fails_in_a_run_is_no_fault_of_the_model() -> None:
    """Memory that ran out has a cause of its own; what is about the model stays so."""
    out = lost(CUDA, "CUDA failure 2: out of memory")
    assert isinstance(out, CannotJudge)
    assert out.cause == "out-of-memory"
    old = lost(CUDA, "no kernel image is available")
    assert isinstance(old, NotAvailable)
    assert (old.kind, old.device_present) == (Absence.DEVICE_TOO_OLD, True)
    late = lost(CUDA, "libcudnn.so.9: cannot open shared object file: No such file or directory")
    assert isinstance(late, NotAvailable)
    assert late.kind == Absence.LIBRARY_MISSING
    assert "libcudnn.so.9" in late.fix
    own = lost(ProviderSpec(name="openvino"), "[ONNXRuntimeError] : 11 : EP_FAIL : Exception from core.cpp")
    assert isinstance(own, CannotJudge)
    assert own.cause == "provider"
    assert lost(CUDA, "Non-zero status code returned while running Reshape") is None
    assert lost(ProviderSpec(name="cpu"), "out of memory") is None


def has_driver() -> bool:
    with suppress(OSError):
        return bool(ctypes.CDLL("libcuda.so.1"))
    return False


@pytest.mark.skipif(has_driver(), reason="this machine has NVIDIA's driver")
def test_no_driver_is_told_as_such() -> None:
    """Whatever CUDA was asked for."""
    found = ask_driver(13)
    assert found.kind is Absence.DRIVER_MISSING
    assert found.words == (
        "NVIDIA's driver (libcuda.so.1) is missing: cannot open shared object file: No such file or directory"
    )


def test_other_versions_of_a_library_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip puts them; what has no version has no other one."""
    library = tmp_path / "site-packages" / "nvidia" / "made_up" / "lib" / "libmadeup.so.12"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    assert other_version("libmadeup.so.13") == "libmadeup.so.12"
    assert other_version("libmadeup.so.12") == ""
    assert other_version("libmadeup.so") == ""
