"""What NVIDIA's driver says of itself, asked without any CUDA library.

Only in a worker, and only after a provider failed: the driver must not be loaded before a fork.
"""

from __future__ import annotations

import ctypes
import re
import site
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_gate.vocabulary import Absence

_NO_DEVICE, _DRIVER_MISMATCH, _TOO_OLD_TO_RUN = 100, 803, 804
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_OLDEST = {12: (5, 0), 13: (7, 5)}
"""Compute capabilities that a CUDA version still serves."""
_VERSIONED = re.compile(r"(lib\w+)\.so\.(\d+)")


@dataclass(frozen=True, kw_only=True)
class Driver:
    """What the driver answered."""

    kind: Absence | None
    """What is wrong; None where nothing is."""
    words: str
    """In a sentence."""
    devices: tuple[str, ...] = ()
    """Their names."""


def ask_driver(wanted_cuda: int | None) -> Driver:
    """Whether there is a driver, a device, and whether both serve the CUDA version that is wanted."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        words = str(error).removeprefix("libcuda.so.1: ")
        return Driver(kind=Absence.DRIVER_MISSING, words=f"NVIDIA's driver (libcuda.so.1) is missing: {words}")
    try:
        return _ask(cuda, wanted_cuda)
    except AttributeError as error:
        return Driver(kind=Absence.UNKNOWN, words=f"libcuda.so.1 is no driver of NVIDIA's: {error}")


def _ask(cuda: Any, wanted: int | None) -> Driver:
    code = cuda.cuInit(0)
    serves = _number(cuda.cuDriverGetVersion)
    version = f"the driver serves CUDA {serves // 1000}.{serves % 1000 // 10}" if serves else "there is a driver"
    if code in (_DRIVER_MISMATCH, _TOO_OLD_TO_RUN):
        words = f"{version}, and its library is of another version than its kernel module (error {code})"
        return Driver(kind=Absence.VERSION_MISMATCH, words=words)
    count = _number(cuda.cuDeviceGetCount) if not code else 0
    if code == _NO_DEVICE or (not code and not count):
        return Driver(kind=Absence.NO_DEVICE, words=f"{version} and reports no device")
    if code:
        return Driver(kind=Absence.UNKNOWN, words=f"{version} and fails to start with error {code}")
    devices = [_describe(cuda, number) for number in range(count)]
    names = tuple(f"{name}, compute capability {major}.{minor}" for name, (major, minor) in devices)
    if wanted and serves and serves // 1000 < wanted:
        words = f"{version}, and this onnxruntime wants CUDA {wanted}"
        return Driver(kind=Absence.VERSION_MISMATCH, words=words, devices=names)
    oldest = _OLDEST.get(wanted or 0)
    if oldest and all(capability < oldest for _, capability in devices):
        words = f"{names[0]}: CUDA {wanted} serves {oldest[0]}.{oldest[1]} and newer"
        return Driver(kind=Absence.DEVICE_TOO_OLD, words=words, devices=names)
    return Driver(kind=None, words=f"{version} and reports {'; '.join(names)}", devices=names)


def _number(ask: Any, *arguments: Any) -> int:
    found = ctypes.c_int(0)
    return 0 if ask(ctypes.byref(found), *arguments) else found.value


def _describe(cuda: Any, number: int) -> tuple[str, tuple[int, int]]:
    device = _number(cuda.cuDeviceGet, number)
    name = ctypes.create_string_buffer(100)
    cuda.cuDeviceGetName(name, len(name), device)
    major = _number(cuda.cuDeviceGetAttribute, _CAPABILITY_MAJOR, device)
    minor = _number(cuda.cuDeviceGetAttribute, _CAPABILITY_MINOR, device)
    return name.value.decode("utf-8", "replace"), (major, minor)


def other_version(library: str) -> str:
    """Another version of a library that is missing, such as `libcublasLt.so.12`; empty where there is none."""
    match = _VERSIONED.match(library)
    if not match:
        return ""
    stem, wanted = match[1], int(match[2])
    for path in _installed(stem):
        if path.name != library:
            return path.name
    for number in (wanted - 1, wanted + 1, wanted - 2, wanted + 2):
        try:
            ctypes.CDLL(f"{stem}.so.{number}")
        except OSError:
            continue
        return f"{stem}.so.{number}"
    return ""


def _installed(stem: str) -> Iterable[Path]:
    """Of the wheels that pip installs CUDA from."""
    folders = {*site.getsitepackages(), *(entry for entry in sys.path if entry.endswith("site-packages"))}
    for folder in sorted(folders):
        yield from sorted(Path(folder, "nvidia").glob(f"*/lib/{stem}.so.*"))
