"""Decides whether a wrong model would be `diverged`: checks its answers with the limits of the judged model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import OutputRule
from onnx_gate.records.found import Actual, Answer
from onnx_gate.worker.compare.columns import Columns
from onnx_gate.worker.compare.form import dtype_name, parts_of
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.runtime.options import runtime_words
from onnx_gate.worker.strength.feeds import JudgedCall
from onnx_gate.worker.trial.doubts.near import wrong_rows
from onnx_gate.worker.trial.run import refuses_form

_WELL = 0.999
"""Share of the tolerance; differences above it are left to the full comparison, which rounds less."""
_WIDTHS = ("float32", "float64")
"""Float types that may replace each other if the source computes in another width than the file."""
Run = Callable[[Feed], Mapping[str, Actual]]


class Discarded(Exception):
    """Raised for a wrong model that does not run: it would be an error, and says nothing about the inputs."""


@dataclass(frozen=True, kw_only=True)
class Jury:
    """The limits that apply on the CPU."""

    rules: Mapping[str, OutputRule]
    """Rules by output, without the outputs that are ignored."""
    lenient: bool
    """Whether floats may differ in width."""

    def catches(self, calls: Iterable[JudgedCall], run: Run, *, ran: bool = False) -> bool:
        """Whether any of these calls breaks a limit; raises Discarded if the model does not run.

        `ran`: the model has run on another feed. If it then refuses the shape of a feed, a size is baked in: a breach.
        """
        seen = {name: Columns() for name in self.rules}
        open_cases: dict[str, dict[str, OutputComparison]] = {}
        for call in calls:
            actual = _run(run, call.feed, first=not ran)
            if actual is None:
                return True
            ran = True
            comparisons = open_cases.setdefault(call.case, self._comparisons(call.case, seen))
            if self._breaks_now(comparisons, call, actual):
                return True
        return any(
            comparison.finish().breaches
            for comparisons in open_cases.values()
            for name, comparison in comparisons.items()
            if self.rules[name].limits
        )

    def _comparisons(self, case: str, seen: Mapping[str, Columns]) -> dict[str, OutputComparison]:
        return {
            name: OutputComparison(provider="cpu", case=case, output=name, rule=rule, columns=seen[name])
            for name, rule in self.rules.items()
        }

    def _breaks_now(
        self, comparisons: Mapping[str, OutputComparison], call: JudgedCall, actual: Mapping[str, Actual]
    ) -> bool:
        """Whether this call alone breaks a limit: without limits over a whole case, one wrong element is enough."""
        for name, comparison in comparisons.items():
            if name not in call.reference or name not in actual:
                return True
            rule, answer = self.rules[name], call.reference[name]
            if not rule.limits and _surely_within(answer, actual[name], rule, lenient=self.lenient):
                continue
            comparison.add(call.reference[name], actual[name], lenient=self.lenient, rows=call.counted)
            if not self.rules[name].limits and comparison.finish().breaches:
                return True
        return False

    def differing_rows(self, reference: Answers, actual: Mapping[str, Actual], rows: int) -> Any:
        """The rows of a call that are out of tolerance; None if differences can't be assigned to rows."""
        wrong = np.zeros(rows, dtype=bool)
        for name, rule in self.rules.items():
            found = wrong_rows(reference[name], actual[name], rule, rows) if name in actual else None
            if found is None:
                return None
            wrong |= found
        return np.flatnonzero(wrong)


def _surely_within(answer: Answer, given: Actual, rule: OutputRule, *, lenient: bool) -> bool:
    """Whether a quick check is enough: arrays of the same shape that are well within the tolerance, or equal labels."""
    reference, actual = answer.value, given.value
    if not isinstance(reference, np.ndarray) or not isinstance(actual, np.ndarray):
        return False
    if reference.shape != actual.shape:
        if not answer.column or reference.size != actual.size or max(reference.ndim, actual.ndim) > 2:
            return False
        reference = reference.reshape(actual.shape)
    if (given.columns or answer.columns) is not None:
        return False
    if actual.dtype.name != answer.dtype and not (lenient and actual.dtype.name in _WIDTHS and answer.dtype in _WIDTHS):
        return False
    if actual.dtype.kind in "iub":
        return bool(np.array_equal(reference, actual))
    if actual.dtype.kind != "f" or reference.dtype.kind != "f" or rule.tolerance is None:
        return False
    with np.errstate(all="ignore"):
        allowed = rule.tolerance.atol + rule.tolerance.rtol * np.abs(reference)
        return bool((np.abs(actual - reference) <= _WELL * allowed).all())


def _run(run: Run, feed: Feed, *, first: bool) -> Mapping[str, Actual] | None:
    """The answers; None if the model takes other feeds but refuses this one, which is a divergence."""
    try:
        return run(feed)
    except Exception as error:
        if not first and refuses_form(runtime_words(error)):
            return None
        raise Discarded(str(error)[:200]) from error


def as_reference(actual: Mapping[str, Actual]) -> Answers:
    """The answers of the judged file as a reference, in place of the source's."""
    return {
        name: Answer(
            value=given.value,
            dtype=dtype_name(parts[0]) if (parts := parts_of(given.value)) else "",
            columns=given.columns,
        )
        for name, given in actual.items()
    }
