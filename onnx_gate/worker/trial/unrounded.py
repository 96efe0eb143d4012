"""A second reference: the answers of a source that computes in float64 to the data before it was rounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Answers, Plugin
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import GivenSpec, ModelSpec, OutputRule
from onnx_gate.records.found import Actual, Answer, Breach, OutputDiff
from onnx_gate.records.limits import MAX_ROWS, any_element_may_differ, too_many_rows
from onnx_gate.vocabulary import GIVEN_CASE, BreachKind, Cause
from onnx_gate.wording.numbers import number, percent, plural, two_scalars
from onnx_gate.worker.compare.rows import RowComparison
from onnx_gate.worker.compare.rules import EXACT
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.trial.veil import veiled
from onnx_gate.worker.user_code import failed


@dataclass(frozen=True, kw_only=True)
class Unrounded:
    """The source and its spec in float64."""

    framework: Plugin
    source: Any
    spec: ModelSpec

    def answer(self, call: Call, names: Mapping[str, str]) -> Answers:
        """The source's answers to the data as given, by ONNX output name; raises CannotJudge if the source fails."""
        try:
            answers = self.framework.predict(self.source, self.spec, call.given or {})
        except MemoryError:
            raise
        except Exception as error:
            what = "the source fails on the data as given, before it is rounded to the schema's dtype"
            fix = "give data that the source takes, or turn this comparison into a note with `given: false`"
            told = failed(Cause.LOAD_FAILED, what, error, fix=fix)
            raise CannotJudge(told.cause, veiled(str(told), self.spec, call), fix=fix) from error
        return {name: answers[own] for name, own in names.items() if own in answers}


def unrounded(framework: Plugin, source: Any, spec: ModelSpec) -> Unrounded | None:
    """The source in float64, if it computes in float64 itself; a copy in another width would be another model."""
    info = REGISTRY.get(spec.framework)
    if info is None or not info.computes_in_float64:
        # `widen` often makes a large copy, which would not be used.
        return None
    widened = framework.widen(source, spec)
    if widened is None or widened[0] is not source:
        return None
    return Unrounded(framework=framework, source=source, spec=widened[1])


@dataclass(frozen=True, kw_only=True)
class GivenFinding:
    """The result for one output in which too many rows differ."""

    diff: OutputDiff
    """ONNX Runtime, compared with the source's answers to the data as given."""
    own: int
    """Number of rows that the source itself answers differently after the data is rounded."""


@dataclass
class GivenComparison:
    """Compares one provider call by call, and row by row; `finish` returns the result."""

    wide: Unrounded | None
    names: Mapping[str, str]
    """ONNX output name → the reference's name."""
    rules: Mapping[str, OutputRule]
    provider: str
    spec: GivenSpec | None
    """The limits of this comparison; None if it is only reported, not judged."""
    _runtime: dict[str, RowComparison] = field(default_factory=dict)
    _source: dict[str, RowComparison] = field(default_factory=dict)
    _failed: CannotJudge | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are compared; not those whose rule sets no limit for a single element."""
        return tuple(name for name, rule in self.rules.items() if not any_element_may_differ(rule.limits))

    def add(self, call: Call, reference: Answers, actual: dict[str, Actual], rows: int | None = None) -> None:
        """Add one call of the data."""
        if self._failed or (answers := self._ask(call)) is None:
            return
        rows = _common_rows(call) if rows is None else rows
        for name in self.outputs:
            if name not in answers or name not in reference or name not in actual:
                continue
            known, own = answers[name], Actual(value=reference[name].value)
            others = _without_repeated(call, rows, known, actual[name], own) if call.repeated else None
            wide, got, own = others or (known, actual[name], own)
            first = call.repeated if others else 0
            count = rows - first if rows is not None else None
            where: dict[str, Any] = {"rows": count, "first_row": call.first_row + first}
            self._of(self._runtime, name).add(wide, got, **where)
            self._of(self._source, name).add(wide, own, **where)

    def _ask(self, call: Call) -> Answers | None:
        if call.given_answers is not None:
            return call.given_answers
        if self.wide is None or call.given is None:
            return None
        try:
            return self.wide.answer(call, self.names)
        except CannotJudge as error:
            self._failed = error
            return None

    def _of(self, comparisons: dict[str, RowComparison], name: str) -> RowComparison:
        return comparisons.setdefault(name, RowComparison(tolerance=self.rules[name].tolerance or EXACT))

    def finish(self) -> list[OutputDiff]:
        """One check per compared output; raises CannotJudge if the source can't answer."""
        if self.spec is None:
            return []
        if self._failed:
            raise self._failed
        return [self._diff(name, found) for name, found in self._runtime.items()]

    def findings(self, diffs: Iterable[OutputDiff]) -> list[GivenFinding]:
        """The findings for those checks that diverged."""
        return [GivenFinding(diff=diff, own=self._source[diff.output].mismatched) for diff in diffs if diff.breaches]

    def _diff(self, name: str, found: RowComparison) -> OutputDiff:
        share = self._share(name, found)
        return OutputDiff(
            provider=self.provider,
            case=GIVEN_CASE,
            output=name,
            dtype=found.dtype,
            shape=found.shape,
            total=found.rows,
            rows=found.rows,
            mismatched=found.mismatched,
            calls=found.calls,
            max_abs=found.max_abs if found.floats else None,
            worst=found.worst,
            tolerance=found.tolerance if found.floats else None,
            limits={MAX_ROWS: share},
            breaches=_breaches(found, share),
        )

    def _share(self, name: str, found: RowComparison) -> float:
        """The share of rows that may differ; at least what the output's rule allows for elements."""
        limits = self.rules[name].limits
        each = found.elements / found.rows if found.rows else 1.0
        own = limits.get("max_mismatch", 0.0) if found.floats else 1.0 - limits.get("min_agreement", 1.0)
        return min(1.0, max(self.spec.max_mismatch if self.spec else 0.0, own * each))

    def note(self, *, judged_differs: bool = False) -> tuple[str, bool]:
        """A note for the report, and whether it must stand out; empty if nothing was rounded."""
        if self._failed:
            return (f"{self._failed}", False) if self.spec is None else ("", False)
        if not self._runtime:
            return "", False
        runtime, source = (_tell(comparisons) for comparisons in (self._runtime, self._source))
        stands_out = self.spec is not None
        if not runtime and not source:
            return f"ONNX Runtime on {self.provider} agrees with the source on the data as given too", False
        rounding = f"Rounding the data to the schema's dtype already changes the source's own answers: {source}"
        if not runtime:
            agrees = f"On the data as given ONNX Runtime on {self.provider} agrees with the source"
            return f"{agrees}. {rounding}", stands_out
        differs = f"On the data as given ONNX Runtime on {self.provider} differs from the source: {runtime}"
        own = rounding if source else "The source answers the rounded data as it answers the data as given"
        return f"{differs}. {own}", stands_out and (bool(source) or not judged_differs)


def _breaches(found: RowComparison, share: float) -> tuple[Breach, ...]:
    if found.refused or not found.rows:
        why = "; ".join(breach.text for breach in found.refused) or "it has no rows"
        text = f"the answers to the data as given could not be compared: {why}"
        return (Breach(kind=BreachKind.NOT_COMPARED, text=text),)
    if not too_many_rows(found.mismatched, found.rows, share):
        return ()
    worst = f"; the worst is {two_scalars(found.worst.actual, found.worst.reference)}" if found.worst else ""
    where = f" at {list(found.worst.index)}" if found.worst else ""
    of_rows = f"{plural(found.rows, 'row')} ({percent(found.mismatched, found.rows)})"
    text = (
        f"{found.mismatched:,} of {of_rows} differ from the source's answers to the data as given (float64); "
        f"at most {number(100 * share)} % may differ{worst}{where}"
    )
    return (Breach(kind=BreachKind.GIVEN, text=text),)


def _without_repeated(
    call: Call, rows: int | None, wide: Answer, actual: Actual, own: Actual
) -> tuple[Answer, Actual, Actual] | None:
    """The answers without those to repeated rows; None if an answer doesn't have one row per row of the feed."""
    found = (wide.value, actual.value, own.value)
    if not all(isinstance(value, np.ndarray) and value.shape[:1] == (rows,) for value in found):
        return None
    first, second, third = (value[call.repeated :] for value in found)
    return replace(wide, value=first), replace(actual, value=second), replace(own, value=third)


def _common_rows(call: Call) -> int | None:
    """The number of rows if no dimension is called `batch`: the first size, if it is the same in all inputs."""
    sizes = {value.shape[0] if getattr(value, "ndim", 0) else None for value in call.feed.values()}
    return sizes.pop() if len(sizes) == 1 else None


def _tell(comparisons: dict[str, RowComparison]) -> str:
    """The outputs that differ, in words; empty if no output differs."""
    return ", ".join(f"`{name}` {_numbers(found)}" for name, found in comparisons.items() if found.mismatched)


def _numbers(found: RowComparison) -> str:
    largest = f", by up to {number(found.max_abs)}" if found.floats and found.max_abs is not None else ""
    return f"in {found.mismatched:,} of {plural(found.rows, 'row')}{largest}"
