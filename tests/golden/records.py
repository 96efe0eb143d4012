"""Shorthand for the records that the families are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onnx_gate.gate.coverage import state_coverage
from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.verdict import judge_run, worst
from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import Breach, Confusion, ConvertInfo, Worst
from onnx_gate.records.result import Check, Environment, GateResult, ModelResult, ProviderState
from onnx_gate.records.strength import KindStrength, Strength
from onnx_gate.vocabulary import BreachKind, Cause, Status
from onnx_gate.wording.verdicts import with_fix

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
NO_GPU = (
    "this machine has no such device: CUDAExecutionProvider did not load: libcublasLt.so.13: cannot open shared "
    "object file: No such file or directory"
)


def breaches_of(kind: BreachKind, *texts: str) -> tuple[Breach, ...]:
    """Breaches of one kind."""
    return tuple(Breach(kind=kind, text=text) for text in texts)


def floats(case: str, output: str, difference: float = 0.0, **given: Any) -> Check:
    """A comparison of floats, of numbers that can all be true; it diverged if a number of mismatches is given."""
    wrong = given.get("mismatched", 0)
    total = given.setdefault("total", 35)
    reference = given.pop("reference", 0.1)
    at = Worst(index=(3, 1), reference=reference, actual=reference + difference)
    given = {"lowest": min(-1.25, reference), "highest": max(2.5, reference)} | given
    rmse = difference / min(5.0, math.sqrt(total))
    signal = max(abs(given["lowest"] or 0.0), abs(given["highest"] or 0.0))
    quietest = round(20 * math.log10(signal / rmse) - 6, 4) if rmse else math.inf
    fields: dict[str, Any] = {
        "provider": "cpu",
        "status": Status.DIVERGED if wrong else Status.PASSED,
        "dtype": "float32",
        "shape": (7, 5),
        "max_abs": difference,
        "mean_abs": difference / 10,
        "max_rel": 10 * difference,
        "mean_rel": difference,
        "rmse": rmse,
        "cosine": 1.0 - difference / 15,
        "snr_db": min(120.0 - difference, quietest),
        "worst": at,
        "tolerance": TOLERANCE,
        "calls": 1,
        "rows": 7,
        "mismatched_rows": min(wrong, 7, total),
        "samples": 7,
        "fed": ("7×4",),
        "seconds": 0.0125,
    }
    if wrong:
        count = (
            f"{wrong} of {total} elements ({100 * wrong / total:.3g} %) are out of tolerance (rtol 0.001, atol 1e-05)"
        )
        where = f"the worst is {at.actual:.9g} instead of {at.reference:.9g} at [3, 1]"
        fields |= {"breaches": breaches_of(BreachKind.ELEMENTS, f"{count}; {where}"), "message": f"{count}; {where}"}
    fields |= given
    tolerance, odd = fields["tolerance"], bool(fields.get("nonfinite_mismatched"))
    used = math.inf if odd else difference / (tolerance.atol + tolerance.rtol * abs(reference))
    fields.setdefault("used", used)
    return Check(case=case, output=output, **fields)


def labels(case: str, output: str = "label", confusion: tuple[tuple[Any, Any, int], ...] = (), **given: Any) -> Check:
    """A comparison of labels; it diverged if some are taken for others."""
    wrong = sum(count for reference, actual, count in confusion if reference != actual)
    total = sum(count for _, _, count in confusion) or 90
    fields: dict[str, Any] = {
        "provider": "cpu",
        "status": Status.DIVERGED if wrong else Status.PASSED,
        "dtype": "int64",
        "shape": (total,),
        "total": total,
        "mismatched": wrong,
        "mismatched_rows": wrong,
        "confusion": tuple(Confusion(reference=r, actual=a, count=count) for r, a, count in confusion),
        "calls": 1,
        "rows": total,
        "samples": total,
        "fed": (f"{total}×4",),
        "labels": (0, 1, 2),
        "seconds": 0.004,
    }
    if wrong:
        reference, actual = next((r, a) for r, a, _ in confusion if r != a)
        message = (
            f"{wrong} of {total} labels differ ({100 * wrong / total:.3g} %; all must agree); "
            f"the first is {actual!r} instead of {reference!r} at [17]"
        )
        fields |= {
            "breaches": breaches_of(BreachKind.LABELS, message),
            "message": message,
            "worst": Worst(index=(17,), reference=reference, actual=actual),
        }
    return Check(case=case, output=output, **(fields | given))


def given_rows(output: str, wrong: int, rows: int, *, reference: Any, actual: Any, **given: Any) -> Check:
    """Rows held against the source's answers to the data as given; it diverged above one in a hundred."""
    is_float = isinstance(reference, float)
    diverged = wrong > rows / 100 and wrong > 2
    words = (
        f"{wrong} of {rows} rows ({100 * wrong / rows:.3g} %) differ from the source's answers to the data as given "
        f"(float64); at most 1 % may differ; the worst is {actual} instead of {reference} at [3]"
    )
    return Check(
        provider="cpu",
        case="given",
        output=output,
        status=Status.DIVERGED if diverged else Status.PASSED,
        dtype="float32" if is_float else "int64",
        total=rows,
        rows=rows,
        mismatched=wrong,
        calls=19,
        max_abs=abs(actual - reference) if is_float else None,
        worst=Worst(index=(3,), reference=reference, actual=actual),
        tolerance=TOLERANCE if is_float else None,
        limits={"given.max_mismatch": 0.01},
        breaches=breaches_of(BreachKind.GIVEN, words) if diverged else (),
        message=words if diverged else "",
        **given,
    )


def breach(provider: str, case: str, output: str, message: str, kind: BreachKind = BreachKind.NAMES) -> Check:
    """An output, or the file, whose form isn't what it has to be."""
    return Check(
        provider=provider,
        case=case,
        output=output,
        status=Status.DIVERGED,
        breaches=breaches_of(kind, message),
        message=message,
    )


def error(provider: str, stage: str, cause: Cause, message: str, fix: str = "") -> Check:
    """What could not be judged."""
    return Check(provider=provider, case=stage, output="", status=Status.ERROR, cause=cause, message=message, fix=fix)


def skip(provider: str = "cuda", message: str = NO_GPU) -> Check:
    """A provider that this machine hasn't got."""
    return Check(
        provider=provider,
        case=f"run on {provider}",
        output="",
        status=Status.SKIPPED,
        cause=Cause.PROVIDER_UNAVAILABLE,
        message=message,
    )


def strength_of(kinds: Sequence[tuple[str, int, int, int, int]], **given: Any) -> Strength:
    """Strength by kind: its name, how many were tried, counted, caught, and caught with aimed cases."""
    names = ("tried", "counted", "caught", "aimed")
    rows = tuple(KindStrength(kind=kind, **dict(zip(names, counts, strict=True))) for kind, *counts in kinds)
    sums = {name: sum(getattr(kind, name) for kind in rows) for name in names}
    return Strength(**{"planned": sums["tried"], "rows": 40, "all_rows": 40, "kinds": rows, **sums, **given})


def model(model_id: str, *checks: Check, line: int = 3, **given: Any) -> ModelResult:
    """A model with the verdict that its checks give it."""
    verdict = worst(check.status for check in checks)
    first_error = next((check for check in checks if check.status is Status.ERROR), None)
    fields: dict[str, Any] = {
        "framework": "torch",
        "headroom": headroom_of(checks),
        "verdict": verdict,
        "cause": first_error.cause if first_error and verdict is Status.ERROR else None,
        "error": with_fix(first_error) if first_error else "",
        "seconds": 3.2,
        "convert": ConvertInfo(opset=18, ir_version=10, nodes=42, size_bytes=148450, seconds=1.1, shipped=False),
        "coverage": state_coverage(checks),
        "log": f"logs/{model_id}.log",
    }
    return ModelResult(id=model_id, line=line, checks=checks, **(fields | given))


def gate(*models: ModelResult, **given: Any) -> GateResult:
    """A run of these models, on a machine that is always the same."""
    verdict, exit_code = judge_run(models, empty_shard=not models)
    unavailable = any(check.status is Status.SKIPPED for one in models for check in one.checks)
    providers = {"cpu": ProviderState(available=True)}
    if unavailable:
        providers["cuda"] = ProviderState(available=False, reason=NO_GPU)
    fields: dict[str, Any] = {
        "verdict": verdict,
        "exit_code": exit_code,
        "complete": True,
        "started_at": "2026-03-01T12:00:00+00:00",
        "seconds": 12.345,
        "manifest": "onnx-gate.yml",
        "environment": Environment(
            onnx_gate="0.1.0",
            python="3.12.9",
            platform="Linux x86_64",
            cpu="AMD EPYC, no VNNI",
            ort_threads=1,
            onnxruntime="1.23.0 (onnxruntime-gpu)",
            versions={"onnx": "1.19.0", "numpy": "2.3.1", "torch": "2.9.0+cpu"},
            providers=providers if models else {},
        ),
    }
    return GateResult(models=models, **(fields | given))
