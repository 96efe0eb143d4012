"""junit.xml: one test suite per model, one test case per check.

The package junit-xml drops a failure whose message is empty, and a time that is 0; neither occurs here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

from junit_xml import TestCase, TestSuite

from onnx_gate.records.history.change import Change
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import Status
from onnx_gate.wording import gaps, history
from onnx_gate.wording.numbers import cosine, number, two_scalars
from onnx_gate.wording.repro import failing_lines, shows_again
from onnx_gate.wording.strength import in_short
from onnx_gate.wording.text import LONGEST, LONGEST_NAME, one_line, shorten, visible
from onnx_gate.wording.verdicts import compared, mismatched, recalled, tolerance, with_fix

# Sums of decimals are exact, and the same in every version of Python.
_SHORTEST = Decimal("0.001")
_COUNTED = ("disabled", "errors", "failures", "tests")
_DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'
# This matches only ends of tags: in texts and attributes the last character is written as an entity.
_EMPTY = re.compile(b" />")
MOST_WORDS = 8_000_000
"""The most characters for what is wrong, over all checks; results.json has everything."""
MOST_WORDS_OF_A_MODEL = 2_000_000
_LONGEST_NAME = 200
_NO_ROOM = "there are too many of these to say it here: see results.json"
_MOST_BREACHES = 10
# Readers of XML turn all of these into the last one.
_LINE_ENDS = re.compile(r"\r\n?|\n")
_OF_MANY_LINES = ("output", "stdout", "stderr")
"""The values that the library writes between tags; all others are attributes."""


class _Room:
    """The space that is left for what is wrong: a hostile model can fill it for thousands of checks."""

    def __init__(self) -> None:
        self._page, self._suite = MOST_WORDS, 0

    def next_suite(self) -> None:
        self._suite = MOST_WORDS_OF_A_MODEL

    def takes(self, words: int) -> bool:
        """Whether this many characters fit; if so, they are subtracted from the space."""
        if words > min(self._page, self._suite):
            return False
        self._page, self._suite = self._page - words, self._suite - words
        return True


def render(result: GateResult) -> str:
    """The report as XML text."""
    return b"".join(render_pieces(result)).decode()


def render_pieces(result: GateResult) -> list[bytes]:
    """The report as bytes, one model after the other: all at once would take many times as much memory."""
    counts, time, written = Counter[str](), Decimal(), list[bytes]()
    for suite in _suites(result):
        tree = _tree(suite)
        counts.update({name: int(tree.attrib[name]) for name in _COUNTED})
        time += sum((case.elapsed_sec for case in suite.test_cases), Decimal())
        written.append(_indented(tree))
    counted = "".join(f' {name}="{counts[name]}"' for name in _COUNTED)
    start, end = (f'<testsuites{counted} time="{time}">\n', "</testsuites>\n") if written else ("<testsuites/>\n", "")
    return [f"{_DECLARATION}{start}".encode(), *written, end.encode()]


def _suites(result: GateResult) -> Iterator[TestSuite]:
    names, room = Counter[tuple[str, str]](), _Room()
    for model in result.models:
        room.next_suite()
        yield _suite(model, result, names, room)
    if result.problems or not result.complete:
        yield _stopped(result)


def _tree(suite: TestSuite) -> ElementTree.Element:
    """The only place where text enters the XML: characters that XML can't hold are spelled out, markup is escaped."""
    tree: ElementTree.Element = _writable(suite).build_xml_doc("utf-8")
    return tree


def _indented(suite: ElementTree.Element) -> bytes:
    ElementTree.indent(suite, "\t", level=1)
    return b"\t%s\n" % _EMPTY.sub(b"/>", ElementTree.tostring(suite, encoding="utf-8", xml_declaration=False))


def _writable(value: Any, key: str = "") -> Any:
    """The values of suites and cases without control characters, which are spelled out, not lost."""
    if isinstance(value, str):
        return _LINE_ENDS.sub("\n", visible(value)) if key in _OF_MANY_LINES else one_line(value)
    if isinstance(value, dict):
        return {one_line(name): _writable(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, TestSuite | TestCase):
        vars(value).update(_writable(vars(value)))
    return value


def _suite(model: ModelResult, result: GateResult, names: Counter[tuple[str, str]], room: _Room) -> TestSuite:
    # A suite without testcases looks like a pass.
    checks = model.checks or (_nothing(model),)
    return _named_suite(
        model.id, [_case(check, model, result, names, room) for check in checks], result, _properties(model, result)
    )


def _properties(model: ModelResult, result: GateResult) -> dict[str, str]:
    """The properties of a suite: what is about the model as a whole."""
    known = {"variant_of": model.variant_of} if model.variant_of else {}
    if model.verdict is Status.SKIPPED or (skipped := gaps.skipped_providers(model)):
        known["not compared"] = "the model" if model.verdict is Status.SKIPPED else gaps.few(skipped)
    if model.weak_reference:
        known["reference"] = f"{gaps.ITSELF}: {gaps.WHY_ITSELF}"
    if model.cached:
        known["cached"] = recalled(model.cached)
    if model.strength:
        known |= _strength(model.strength)
    if result.baseline and model.changes:
        known["baseline"] = history.name_of(result.baseline)
        known["changed"] = shorten("; ".join(map(_change, model.changes)), LONGEST)
    warnings = [str(warning) for warning in result.warnings if warning.concerns(model.base) or not warning.models]
    if model.coverage:
        known["coverage"] = compared(model.coverage)
        warnings += model.coverage.warnings
    for count, warning in enumerate(warnings, start=1):
        known[f"warning {count}"] = shorten(one_line(warning), LONGEST)
    return known


def _change(change: Change) -> str:
    words = history.change_words(change)
    return f"{history.KINDS[change.kind][1]}{f' ({words})' if words else ''}"


def _strength(strength: Strength) -> dict[str, str]:
    """The strength in words, and its numbers."""
    counts = {name: getattr(strength, name) for name in ("planned", "tried", "counted", "caught", "aimed")}
    return {"strength": in_short(strength)} | {f"strength_{name}": str(count) for name, count in counts.items()}


def _nothing(model: ModelResult) -> Check:
    return Check(provider="", case="run", output="", status=Status.ERROR, message=model.error or "nothing was compared")


def _stopped(result: GateResult) -> TestSuite:
    """A separate suite for problems that are not about one model."""
    messages = result.problems or ("the run was stopped before all models were judged",)
    return _named_suite("onnx-gate", [_whole_case(*each, result) for each in enumerate(messages, start=1)], result)


def _whole_case(number: int, message: str, result: GateResult) -> TestCase:
    name = "run" if number == 1 else f"run ({number})"
    case = TestCase(name, classname="onnx-gate", elapsed_sec=_SHORTEST, file=result.manifest, line=1)
    kind = "manifest" if result.complete else "incomplete"
    case.add_error_info(shorten(one_line(message), LONGEST), error_type=kind)
    return case


def _named_suite(
    name: str, cases: list[TestCase], result: GateResult, properties: dict[str, str] | None = None
) -> TestSuite:
    return TestSuite(name, cases, timestamp=result.started_at, file=result.manifest, properties=properties)


def _case(
    check: Check, model: ModelResult, result: GateResult, names: Counter[tuple[str, str]], room: _Room
) -> TestCase:
    # Names as they are written: two names that differ only in unwritten characters are the same.
    classname = one_line(".".join(part for part in ("onnx-gate", model.id, check.provider, check.runtime) if part))
    name = " ".join(shorten(one_line(part), _LONGEST_NAME) for part in (check.case, check.output) if one_line(part))
    case = TestCase(
        _unique(classname, name or "run", names),
        classname=classname,
        elapsed_sec=_elapsed(check.seconds),
        file=result.manifest,
        line=model.line,
    )
    if check.status is not Status.PASSED:
        _say_what_is_wrong(case, check, model, room)
    return case


def _say_what_is_wrong(case: TestCase, check: Check, model: ModelResult, room: _Room) -> None:
    message = shorten(one_line(with_fix(check)), LONGEST) or check.status
    details = _details(check, model) if check.status is Status.DIVERGED else with_fix(check)
    if check.status in (Status.DIVERGED, Status.ERROR) and model.repro:
        details = "\n".join([details, *(f"Shows it again: {command}" for command in shows_again(model.repro))])
    if not room.takes(len(message) + len(details)):
        message, details = shorten(message, LONGEST_NAME), _NO_ROOM
    if check.status is Status.DIVERGED and model.allow_failure:
        case.add_skipped_info(f"diverged, which allow_failure allows: {message}", details)
    elif check.status is Status.DIVERGED:
        case.add_failure_info(message, details, failure_type=model.cause or "diverged")
    elif check.status is Status.ERROR:
        case.add_error_info(message, details, error_type=check.cause or "error")
    else:
        case.add_skipped_info(message)


def _elapsed(seconds: float) -> Decimal:
    return max(_SHORTEST, Decimal(f"{seconds:.3f}")) if math.isfinite(seconds) else _SHORTEST


def _unique(classname: str, name: str, names: Counter[tuple[str, str]]) -> str:
    """A unique name for a test case, since readers drop a second test case of the same name."""
    names[classname, name] += 1
    while names[classname, name] > 1:
        name = f"{name} ({names[classname, name]})"
        names[classname, name] += 1
    return name


def _details(check: Check, model: ModelResult) -> str:
    lines = [shorten(breach.text, LONGEST) for breach in check.breaches[:_MOST_BREACHES]]
    if check.total:
        lines.append(f"Mismatched: {mismatched(check)}; allowed: {tolerance(check)}")
    if check.worst:
        words = two_scalars(check.worst.actual, check.worst.reference)
        lines.append(f"Worst: {words} at index {list(check.worst.index)}")
    if check.max_abs is not None:
        lines.append(
            f"Differences: max {number(check.max_abs)}, mean {number(check.mean_abs)}, "
            f"relative max {number(check.max_rel)}, RMSE {number(check.rmse)}, cosine {cosine(check.cosine)}"
        )
    if model.failing and check.provider == model.failing.provider:
        lines += [shorten(one_line(line), LONGEST) for line in failing_lines(model.failing)]
    if model.advice:
        lines.append(f"Cause: {model.cause}. {shorten(one_line(model.advice), LONGEST)}")
    return "\n".join(lines)
