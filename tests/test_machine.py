"""The processor, as the reports name it."""

from __future__ import annotations

from onnx_gate import machine
from onnx_gate.gate.environment import describe_environment


def test_features_decide_on_vnni(monkeypatch):
    """On x86 int8 is exact only with them; elsewhere nobody has to ask."""
    lines = {"model name": "Some CPU", "flags": "fpu avx2", "Features": ""}
    monkeypatch.setattr(machine, "_line", lines.get)
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    assert (machine.cpu_name(), machine.int8_features(), machine.has_vnni()) == ("Some CPU", (), False)
    lines["flags"] += " avx512_vnni avx_vnni"
    assert (machine.int8_features(), machine.has_vnni()) == (("avx512_vnni", "avx_vnni"), True)
    lines["flags"] = ""
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert machine.has_vnni()


def test_the_environment_records_it():
    """Since int8 models answer differently without VNNI."""
    environment = describe_environment({})
    assert environment.cpu == machine.cpu_name() + ("" if machine.has_vnni() else ", no VNNI")
    assert environment.cpu_features == machine.int8_features()
