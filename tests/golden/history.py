"""A run beside its baseline, with every kind of change, and the runs before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onnx_gate.gate.baseline.compare import Earlier, compare
from onnx_gate.records.found import ConvertInfo
from onnx_gate.records.ran import Elsewhere, Latency, Placement, Timing
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.records.strength import Survivors
from onnx_gate.vocabulary import Cause
from tests.golden.records import error, floats, gate, labels, model, skip, strength_of

SOURCE = "https://github.example/acme/models/actions/runs/5"
BRANCH = "main"


def _file(size: int = 148450, opset: int = 18) -> ConvertInfo:
    return ConvertInfo(opset=opset, ir_version=10, nodes=42, size_bytes=size, seconds=1.1, shipped=False)


def _time(actual: float, source: float = 4e-3) -> Latency:
    return Latency(
        provider="cpu",
        case="batch=32",
        batch=32,
        source=Timing(median=source, p95=1.2 * source),
        actual=Timing(median=actual, p95=1.1 * actual),
        speedup=source / actual,
        repeats=50,
    )


def _placed(there: int) -> dict[str, Placement]:
    away = tuple(Elsewhere(node=f"n{number}", op="TopK", provider="cpu") for number in range(42 - there))
    return {"cuda": Placement(nodes=42, on_provider=there, elsewhere=away)}


def _strong(caught: int) -> Any:
    missed = Survivors(mutants=50 - caught, reason="no row of the data reaches 31 of 64 leaves of tree 7")
    return strength_of((("negated", 50, 50, caught, caught),), survivors=(missed,) if caught < 50 else ())


def before(difference: float = 2e-7) -> GateResult:
    """As a push to main had it."""
    return _gate(
        model("steady", floats("batch=7", "y", 3e-7)),
        model("encoder", floats("batch=7", "y", difference), line=7),
        model("ranker", floats("batch=7", "y", 2e-7), latency=(_time(1e-3),), line=11),
        model("broke", floats("batch=7", "y", 3e-6), line=15),
        model("mended", floats("batch=7", "y", 0.31, mismatched=3), cause=Cause.CONVERSION, line=19),
        model("vision", floats("batch=7", "y", 2e-6, provider="cuda"), placement=_placed(42), line=23),
        model("trees", labels("data"), strength=_strong(49), convert=_file(opset=15), line=27),
        model("lost", floats("batch=7", "y", 1e-6), floats("batch=7", "y", 2e-6, provider="cuda"), line=31),
        model("gone-wrong", floats("batch=7", "y", 1e-6), line=35),
        model("removed", floats("batch=7", "y", 1e-6), line=39),
    )


def after() -> GateResult:
    """As a pull request has it, on another runtime."""
    worse = {"cause": Cause.CONVERSION, "advice": "The converter translates a part of it differently."}
    made = _gate(
        model("steady", floats("batch=7", "y", 3e-7)),
        model("encoder", floats("batch=7", "y", 5e-5), line=7),
        model("ranker", floats("batch=7", "y", 2e-7), latency=(_time(2.4e-3),), convert=_file(size=400_000), line=11),
        model("broke", floats("batch=7", "y", 0.25, mismatched=9), line=15, **worse),
        model("mended", floats("batch=7", "y", 4e-6), line=19),
        model("vision", floats("batch=7", "y", 2e-6, provider="cuda"), placement=_placed(37), line=23),
        model("trees", labels("data"), strength=_strong(31), convert=_file(opset=21), line=27),
        model("lost", floats("batch=7", "y", 1e-6), skip(), line=31),
        model("gone-wrong", error("", "convert", Cause.CONVERSION_FAILED, "no translation for aten::unfold"), line=35),
        model("brand-new", floats("batch=7", "y", 1e-6), line=43),
    )
    runtime = replace(made.environment, onnxruntime="1.31.0", versions={**made.environment.versions, "torch": "2.10.0"})
    return replace(made, environment=runtime, started_at="2026-03-06T12:00:00+00:00")


def _gate(*models: ModelResult) -> GateResult:
    made = gate(*models)
    return replace(made, environment=replace(made.environment, onnxruntime="1.30.0"))


def history() -> GateResult:
    """Every kind of change, after five pushes."""
    earlier = replace(before(8e-8), started_at="2026-02-25T12:00:00+00:00")
    for number, difference in enumerate((1e-7, 5e-8, 3e-7, 2e-7)):
        push = replace(before(difference), started_at=f"2026-03-0{number + 1}T12:00:00+00:00")
        earlier = compare(push, _earlier(earlier, number + 1))
    return compare(after(), _earlier(earlier, 5))


def _earlier(result: GateResult, number: int) -> Earlier:
    return Earlier(result=result, source=SOURCE, branch=BRANCH, commit=f"{number:x}" * 40)
