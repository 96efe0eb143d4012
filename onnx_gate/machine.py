"""The processor: its name, and its instructions for int8."""

from __future__ import annotations

import platform
from pathlib import Path

_FOR_INT8 = ("avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8", "asimddp", "i8mm")


def cpu_name() -> str:
    """The processor's name, as the system reports it."""
    name = _line("model name")
    return name or platform.processor() or "unknown"


def int8_features() -> tuple[str, ...]:
    """The instructions that multiply bytes without saturating; empty if there are none, or if they are not known."""
    flags = f"{_line('flags')} {_line('Features')}".split()
    return tuple(name for name in _FOR_INT8 if name in flags)


def has_vnni() -> bool:
    """Whether int8 is exact here; on x86 processors without VNNI it is not."""
    return platform.machine().lower() not in ("x86_64", "amd64") or bool(int8_features())


def processor() -> str:
    """The properties by which libraries choose their instructions; in a virtual machine the name alone says nothing."""
    wanted = ["vendor_id", "cpu family", "model", "model name", "flags"]
    wanted += ["CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"]
    lines = _described()
    return "\n".join((platform.machine(), *(_first(lines, name) for name in wanted)))


def _line(name: str) -> str:
    return _first(_described(), name)


def _first(lines: list[str], name: str) -> str:
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")


def _described() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
