"""The other honest reference: what a source that computes in float64 answers on the data before it was rounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_gate.frameworks.plugin import Answers, Plugin
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import ModelSpec, OutputRule
from onnx_gate.records.found import Actual, OutputDiff
from onnx_gate.wording.numbers import number
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.user_code import describe


@dataclass(frozen=True, kw_only=True)
class Unrounded:
    """The source and its spec in float64."""

    framework: Plugin
    source: Any
    spec: ModelSpec


def unrounded(framework: Plugin, source: Any, spec: ModelSpec) -> Unrounded | None:
    """Of a source that computes in float64 itself; a copy in another width would be another model."""
    info = REGISTRY.get(spec.framework)
    if info is None or not info.computes_in_float64:
        # What `widen` makes of it, often a large copy, would be made for nothing.
        return None
    widened = framework.widen(source, spec)
    if widened is None or widened[0] is not source:
        return None
    return Unrounded(framework=framework, source=source, spec=widened[1])


@dataclass
class GivenComparison:
    """Compares on one provider, call after call; `note` says what came of it. Nothing is judged by it."""

    wide: Unrounded | None
    names: Mapping[str, str]
    """ONNX output name → the reference's name."""
    rules: Mapping[str, OutputRule]
    provider: str
    _runtime: dict[str, OutputComparison] = field(default_factory=dict)
    _source: dict[str, OutputComparison] = field(default_factory=dict)
    _failed: str = ""

    def add(self, call: Call, reference: Answers, actual: dict[str, Actual]) -> None:
        """Take in one call of the data."""
        if self.wide is None or call.given is None or self._failed:
            return
        wide = self.wide
        try:
            answers = wide.framework.predict(wide.source, wide.spec, call.given)
        except Exception as error:
            self._failed = describe(error)
            return
        for name in self.rules:
            answer = answers.get(self.names.get(name, ""))
            if answer is None or name not in reference or name not in actual:
                continue
            self._of(self._runtime, name).add(answer, actual[name], lenient=True)
            self._of(self._source, name).add(answer, Actual(value=reference[name].value), lenient=True)

    def _of(self, comparisons: dict[str, OutputComparison], name: str) -> OutputComparison:
        rule = OutputRule(tolerance=self.rules[name].tolerance)
        return comparisons.setdefault(
            name, OutputComparison(provider=self.provider, case="given", output=name, rule=rule)
        )

    def note(self, *, judged_differs: bool = False) -> tuple[str, bool]:
        """What came of it, and whether that is news; empty where nothing was rounded."""
        about = "judged are the answers to the data rounded to the schema's dtype"
        if self._failed:
            return f"On the data as given the source fails ({self._failed}): {about}", True
        if not self._runtime:
            return "", False
        runtime, source = (_tell(comparisons) for comparisons in (self._runtime, self._source))
        if not runtime and not source:
            return f"ONNX Runtime on {self.provider} agrees with the source on the data as given too", False
        if not runtime:
            return (
                f"On the data as given ONNX Runtime on {self.provider} agrees with the source. Rounded to the schema's "
                f"dtype, which is what is judged, the data makes the source itself answer otherwise: {source}"
            ), True
        own = f"the source itself answers those otherwise: {source}" if source else "the source answers those alike"
        return (
            f"On the data as given ONNX Runtime on {self.provider} differs from the source: {runtime}. "
            f"{about.capitalize()}; {own}"
        ), bool(source) or not judged_differs


def _tell(comparisons: dict[str, OutputComparison]) -> str:
    """The outputs that differ; empty where none does."""
    finished = {name: comparison.finish() for name, comparison in comparisons.items()}
    return ", ".join(f"`{name}` {_numbers(diff)}" for name, diff in finished.items() if diff.breaches)


def _numbers(diff: OutputDiff) -> str:
    if diff.contract:
        return "has another form"
    if diff.tolerance is None:
        return f"in {diff.mismatched} of {diff.total} labels"
    largest = f", by up to {number(diff.max_abs)}" if diff.max_abs is not None else ""
    return f"in {diff.mismatched} of {diff.total} elements beyond the tolerance{largest}"
