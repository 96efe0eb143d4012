"""Whether a machine has a device, told apart from whether it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.worker.runtime.devices import device_present


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a machine that has nothing."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    return tmp_path


def add_pci(machine: Path, vendor: str, kind: str) -> None:
    device = machine / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir()
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")


def test_a_machine_without_devices_has_none(machine):
    """For any provider."""
    assert not device_present("cuda", machine)
    assert not device_present("rocm", machine)
    assert not device_present("cpu", machine)


def test_a_device_file_shows_a_gpu(machine):
    """As the driver makes it."""
    (machine / "dev/nvidia0").touch()
    assert device_present("cuda", machine) == "/dev/nvidia0"
    assert device_present("tensorrt", machine)
    assert not device_present("rocm", machine)


@pytest.mark.parametrize(
    ("provider", "device"),
    [
        ("webgpu", "dev/dri/renderD128"),
        ("qnn", "dev/fastrpc-cdsp"),
        ("vitisai", "dev/accel/accel0"),
        ("cann", "dev/davinci0"),
        ("migraphx", "dev/kfd"),
        ("nv_tensorrt_rtx", "dev/nvidia0"),
    ],
)
def test_other_kinds_of_devices_have_files_too(machine, provider, device):
    """As their drivers make them; a plain display adapter is no GPU for WebGPU."""
    add_pci(machine, "0x1414", "0x030000")
    assert not device_present(provider, machine)
    (machine / device).parent.mkdir(parents=True, exist_ok=True)
    (machine / device).touch()
    assert device_present(provider, machine) == f"/{device}"


def test_under_wsl_the_hosts_driver_and_the_device_together_show_a_gpu(machine):
    """The device file alone is there on machines without an NVIDIA GPU too."""
    (machine / "dev/dxg").touch()
    assert not device_present("cuda", machine)
    (machine / "usr/lib/wsl/lib").mkdir(parents=True)
    (machine / "usr/lib/wsl/lib/libcuda.so.1").touch()
    assert device_present("cuda", machine) == "/dev/dxg"


def test_a_container_without_the_gpu_still_sees_it_on_the_bus(machine):
    """The machine has a GPU and the job can't use it: that must not be a skip."""
    add_pci(machine, "0x10de", "0x030000")
    assert device_present("cuda", machine) == "PCI device 0000:01:00.0"


@pytest.mark.parametrize(("vendor", "kind"), [("0x10de", "0x040300"), ("0x8086", "0x030000")])
def test_other_devices_on_the_bus_are_no_gpu_of_that_kind(machine, vendor, kind):
    """An NVIDIA sound function, an Intel display adapter."""
    add_pci(machine, vendor, kind)
    assert not device_present("cuda", machine)
