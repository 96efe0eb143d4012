"""The processor, as the reports name it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from onnx_gate import machine
from onnx_gate.gate.environment import describe_environment

# As the kernel writes them, each with two cores; the flags are shortened.
CASCADE_LAKE = """\
processor	: 0
model name	: Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz
flags		: fpu sse2 avx2 avx512f avx512_vnni
vmx flags	: vnmi preemption_timer

processor	: 1
model name	: Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz
flags		: fpu sse2 avx2 avx512f avx512_vnni
"""
SAPPHIRE_RAPIDS = """\
model name	: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
flags		: fpu avx2 amx_bf16 avx_vnni avx512_vnni amx_int8
"""
# Neither a flag that begins like one of those, nor the flags of virtual machines, count.
HASWELL = """\
model name	: Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz
flags		: fpu sse2 avx2 avx_vnni_of_tomorrow
vmx flags	: avx512_vnni
"""
GRAVITON = """\
processor	: 0
BogoMIPS	: 2100.00
Features	: fp asimd asimddp sve i8mm bf16
CPU implementer	: 0x41
"""
OLD_ARM = """\
processor	: 0
Features	: fp asimd evtstrm
"""


def be(monkeypatch: pytest.MonkeyPatch, file: Path, cpuinfo: str | None, kind: str) -> None:
    """Make this processor another one; None is a system that has no such file."""
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(machine, "Path", {"/proc/cpuinfo": file}.__getitem__)
    monkeypatch.setattr(platform, "machine", lambda: kind)
    monkeypatch.setattr(platform, "processor", lambda: "")


@pytest.mark.parametrize(
    ("cpuinfo", "kind", "name", "features", "exact"),
    [
        (CASCADE_LAKE, "x86_64", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", ("avx512_vnni",), True),
        (
            SAPPHIRE_RAPIDS,
            "x86_64",
            "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
            ("avx512_vnni", "avx_vnni", "amx_int8"),
            True,
        ),
        (HASWELL, "x86_64", "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", (), False),
        (HASWELL, "AMD64", "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", (), False),
        (GRAVITON, "aarch64", "unknown", ("asimddp", "i8mm"), True),
        # int8 products saturate on x86 alone.
        (OLD_ARM, "aarch64", "unknown", (), True),
        (None, "arm64", "unknown", (), True),
    ],
)
def test_a_processor_is_known_by_its_file(monkeypatch, tmp_path, cpuinfo, kind, name, features, exact):
    """Its name, what it has for int8, and whether int8 is exact on it."""
    be(monkeypatch, tmp_path / "cpuinfo", cpuinfo, kind)
    assert (machine.cpu_name(), machine.int8_features(), machine.has_vnni()) == (name, features, exact)


@pytest.mark.parametrize(
    ("cpuinfo", "name", "features"),
    [
        (CASCADE_LAKE, "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", ("avx512_vnni",)),
        (HASWELL, "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz, no VNNI", ()),
    ],
)
def test_the_environment_records_it(monkeypatch, tmp_path, cpuinfo, name, features):
    """Since int8 models answer differently without VNNI."""
    be(monkeypatch, tmp_path / "cpuinfo", cpuinfo, "x86_64")
    environment = describe_environment({})
    assert (environment.cpu, environment.cpu_features) == (name, features)
