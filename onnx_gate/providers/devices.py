"""Whether this machine has a device for a provider, found without the provider's own libraries.

A provider that doesn't load is a skip only where there is no device at all; a device that is there and
can't be used is an error, since its owner believes that it is being used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_NVIDIA = "0x10de"
_AMD = "0x1002"


def device_present(provider: str) -> str:
    """What shows that a device is there; empty where there is none, or where it can't be known."""
    probe = _PROBES.get(provider)
    return probe() if probe else ""


def _nvidia() -> str:
    for pattern in ("/dev/nvidia[0-9]*", "/proc/driver/nvidia/gpus/*"):
        if found := _first(pattern):
            return found
    # Under WSL the driver is a library of the host.
    if Path("/dev/dxg").exists() and Path("/usr/lib/wsl/lib/libcuda.so.1").exists():
        return "/dev/dxg"
    return _display_adapter(_NVIDIA)


def _amd() -> str:
    return _first("/dev/kfd") or _display_adapter(_AMD)


def _first(pattern: str) -> str:
    found = sorted(Path("/").glob(pattern.lstrip("/")))
    return str(found[0]) if found else ""


def _display_adapter(vendor: str) -> str:
    """A PCI display controller of this vendor; a container without the GPU still sees it here."""
    for device in sorted(Path("/sys/bus/pci/devices").glob("*")):
        try:
            if (device / "vendor").read_text().strip() == vendor and (device / "class").read_text().startswith("0x03"):
                return f"PCI device {device.name}"
        except OSError:
            continue
    return ""


_PROBES: dict[str, Callable[[], str]] = {
    "cuda": _nvidia,
    "tensorrt": _nvidia,
    "rocm": _amd,
    "migraphx": _amd,
}
