"""junit.xml: one testsuite a model, one testcase a check.

The package junit-xml drops a failure whose message is empty, and a time that is 0; nothing here is either.
"""

from __future__ import annotations

from collections import Counter

from junit_xml import TestCase, TestSuite, to_xml_report_string

from onnx_gate.records import Check, GateResult, ModelResult, Status
from onnx_gate.wording import number, one_line, scalar, tolerance, visible

_SHORTEST = 0.001


def render(result: GateResult) -> str:
    """The report as XML text."""
    suites = [_suite(model, result) for model in result.models]
    return str(to_xml_report_string(suites, encoding="utf-8"))


def _suite(model: ModelResult, result: GateResult) -> TestSuite:
    names: Counter[tuple[str, str]] = Counter()
    cases = [_case(check, model, result, names) for check in model.checks]
    if not result.complete:
        note = TestCase(
            "run",
            classname=f"onnx-gate.{model.id}",
            elapsed_sec=_SHORTEST,
            file=result.manifest,
            line=model.line,
        )
        note.add_error_info("the run was stopped before all models were judged", error_type="incomplete")
        cases.append(note)
    return TestSuite(one_line(model.id), cases, timestamp=result.started_at, file=one_line(result.manifest))


def _case(check: Check, model: ModelResult, result: GateResult, names: Counter[tuple[str, str]]) -> TestCase:
    classname = one_line(".".join(part for part in ("onnx-gate", model.id, check.provider) if part))
    name = one_line(f"{check.case} {check.output}".strip())
    names[classname, name] += 1
    repeated = names[classname, name]
    case = TestCase(
        # Consumers drop a second testcase of the same name.
        name if repeated == 1 else f"{name} ({repeated})",
        classname=classname,
        elapsed_sec=max(_SHORTEST, round(check.seconds, 3)),
        file=one_line(result.manifest),
        line=model.line,
    )
    message = one_line(check.message) or check.status
    if check.status is Status.DIVERGED and model.allow_failure:
        case.add_skipped_info(f"diverged, which allow_failure allows: {message}")
    elif check.status is Status.DIVERGED:
        case.add_failure_info(message, _details(check, model), failure_type=model.cause or "diverged")
    elif check.status is Status.ERROR:
        case.add_error_info(message, visible(check.message) or message, error_type=check.cause or "error")
    elif check.status is Status.SKIPPED:
        case.add_skipped_info(message)
    return case


def _details(check: Check, model: ModelResult) -> str:
    lines = [visible(breach) for breach in check.breaches]
    if check.total:
        lines.append(f"Mismatched: {check.mismatched} of {check.total}; allowed: {tolerance(check)}")
    if check.max_abs is not None:
        lines.append(
            f"Differences: max {number(check.max_abs)}, mean {number(check.mean_abs)}, "
            f"relative max {number(check.max_rel)}, RMSE {number(check.rmse)}, cosine {number(check.cosine)}"
        )
    if check.worst:
        worst = check.worst
        lines.append(f"Worst: {scalar(worst.actual)} instead of {scalar(worst.reference)} at index {list(worst.index)}")
    if model.advice:
        lines.append(f"Cause: {model.cause}. {visible(model.advice)}")
    return "\n".join(lines)
