"""Whether this machine has a device for a provider, found without the provider's own libraries.

A provider that doesn't load is a skip only where there is no device at all; a device that is there and
can't be used is an error, since its owner believes that it is being used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_NVIDIA = "0x10de"
_AMD = "0x1002"


def device_present(provider: str, root: Path = Path("/")) -> str:
    """What shows that a device is there; empty where there is none, or where it can't be known."""
    probe = _PROBES.get(provider)
    return probe(root) if probe else ""


def _nvidia(root: Path) -> str:
    found = _first(root, "dev/nvidia[0-9]*") or _first(root, "proc/driver/nvidia/gpus/*")
    # Under WSL the driver is a library of the host.
    if not found and _first(root, "usr/lib/wsl/lib/libcuda.so.1"):
        found = _first(root, "dev/dxg")
    return found or _display_adapter(root, _NVIDIA)


def _amd(root: Path) -> str:
    return _first(root, "dev/kfd") or _display_adapter(root, _AMD)


def _first(root: Path, pattern: str) -> str:
    found = sorted(root.glob(pattern))
    return f"/{found[0].relative_to(root)}" if found else ""


def _display_adapter(root: Path, vendor: str) -> str:
    """A PCI display controller of this vendor; a container without the GPU still sees it here."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            if (device / "vendor").read_text().strip() == vendor and (device / "class").read_text().startswith("0x03"):
                return f"PCI device {device.name}"
        except OSError:
            continue
    return ""


def _render_node(root: Path) -> str:
    """A GPU with a driver; a virtual machine's plain display adapter has none."""
    return _first(root, "dev/dri/renderD*")


_PROBES: dict[str, Callable[[Path], str]] = {
    "cuda": _nvidia,
    "tensorrt": _nvidia,
    "nv_tensorrt_rtx": _nvidia,
    "rocm": _amd,
    "migraphx": _amd,
    "webgpu": _render_node,
    "qnn": lambda root: _first(root, "dev/fastrpc*") or _first(root, "dev/adsprpc*"),
    "vitisai": lambda root: _first(root, "dev/accel/accel[0-9]*"),
    "cann": lambda root: _first(root, "dev/davinci[0-9]*"),
}
