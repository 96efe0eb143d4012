"""Real file systems that are full or read-only; only root may mount them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faults.plan import Fault

READ_ONLY = "read-only"
FOLDER = "out"
BALLAST = "ballast"


def can_mount() -> bool:
    """Whether mounts are allowed on this machine."""
    if os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(place: Path, fault: Fault) -> Iterator[Path]:
    """The output folder in a tmpfs with the options of the fault; it is always unmounted at the end."""
    place.mkdir()
    options = "size=1m" if fault.what == READ_ONLY else fault.what
    _mount("-t", "tmpfs", "-o", options, "onnx-gate-faults", str(place))
    try:
        if fault.at == "the folder is there":
            (place / FOLDER).mkdir()
        if fault.what == READ_ONLY:
            _mount("-o", "remount,ro", str(place))
        yield place / FOLDER
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no byte free."""
    with suppress(OSError), (place / BALLAST).open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
