"""Whether this machine has a device for a provider, found without the provider's own libraries.

A provider that doesn't load is a skip only where there is no device at all; a device that is there and
can't be used is an error, since its owner believes that it is being used.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onnx_gate.providers import provider_info


def device_present(provider: str, root: Path = Path("/")) -> str:
    """What shows that a device is there; empty where there is none, or where it can't be known."""
    device = provider_info(provider).device
    if device is None:
        return ""
    found = next(filter(None, (_last_of(root, patterns) for patterns in device.files)), "")
    return found or (_display_adapter(root, device.pci_vendor) if device.pci_vendor else "")


def _last_of(root: Path, patterns: Iterable[str]) -> str:
    """The file that the last pattern finds, where all of them find one."""
    found = [_first(root, pattern) for pattern in patterns]
    return found[-1] if all(found) else ""


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
