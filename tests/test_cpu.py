"""The processor, as the reports name it."""

from __future__ import annotations

from onnx_gate import cpu
from onnx_gate.environment import describe_environment


def test_features_decide_on_vnni(monkeypatch):
    """On x86 int8 is exact only with them; elsewhere nobody has to ask."""
    lines = {"model name": "Some CPU", "flags": "fpu avx2", "Features": ""}
    monkeypatch.setattr(cpu, "_line", lines.get)
    monkeypatch.setattr(cpu.platform, "machine", lambda: "x86_64")
    assert (cpu.cpu_name(), cpu.int8_features(), cpu.has_vnni()) == ("Some CPU", (), False)
    lines["flags"] += " avx512_vnni avx_vnni"
    assert (cpu.int8_features(), cpu.has_vnni()) == (("avx512_vnni", "avx_vnni"), True)
    lines["flags"] = ""
    monkeypatch.setattr(cpu.platform, "machine", lambda: "aarch64")
    assert cpu.has_vnni()


def test_the_environment_records_it():
    """Since int8 models answer differently without VNNI."""
    environment = describe_environment({})
    assert environment.cpu == cpu.cpu_name() + ("" if cpu.has_vnni() else ", no VNNI")
    assert environment.cpu_features == cpu.int8_features()
