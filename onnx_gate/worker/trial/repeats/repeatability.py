"""One feed is run twice on a provider: what differs from run to run, and by how much."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from onnx_gate.records.asked import OutputRule
from onnx_gate.records.found import Actual, Answer, Breach, OutputDiff
from onnx_gate.records.ran import RunToRun
from onnx_gate.vocabulary import BreachKind
from onnx_gate.wording.numbers import number
from onnx_gate.worker.compare.differing import same_values
from onnx_gate.worker.compare.form import dtype_name, parts_of
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.compare.rules import EXACT
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.trial.run import Answering


def case_to_repeat(cases: list[Case], provider: str) -> str:
    """The largest case, where sums run in parallel; on the CPU, where one thread adds in one order, a medium one."""
    ordinary = sorted(
        (case for case in cases if not case.edge and not case.cut),
        key=lambda case: (case.sizes.get("batch", 0), case.name),
    )
    if not ordinary:
        return cases[0].name
    return ordinary[len(ordinary) // 2 if provider == "cpu" else -1].name


@dataclass
class Twice:
    """A session that runs its first feed twice, and records the differences."""

    session: Answering
    provider: str
    case: str
    rules: dict[str, OutputRule]
    found: list[RunToRun] = field(default_factory=list)
    diffs: list[OutputDiff] = field(default_factory=list)
    """Outputs that differ by more than their rules allow."""
    _done: bool = False

    def run(self, feed: dict[str, Any]) -> dict[str, Actual]:
        """The session's answers; the first feed is run a second time."""
        first = self.session.run(feed)
        if not self._done:
            self._done = True
            second = self.session.run(feed)
            for name, rule in self.rules.items():
                if name in first and not _same(first[name], second[name]):
                    self._note(name, rule, first[name], second[name])
        return first

    def note(self) -> str:
        """A note for the report; empty if both runs are the same."""
        if not self.found:
            return ""
        told = "; ".join(describe(each) for each in self.found)
        return f"nondeterministic: two runs of {self.provider} on the same input ({self.case}) differ: {told}"

    def _note(self, name: str, rule: OutputRule, first: Actual, second: Actual) -> None:
        exact = self._compare(name, OutputRule(tolerance=EXACT), first, second)
        if not exact.breaches:
            return
        self.found.append(
            RunToRun(
                output=name,
                differing=exact.total if exact.contract else exact.mismatched,
                total=exact.total,
                max_abs=exact.max_abs,
            )
        )
        judged = self._compare(name, rule, first, second)
        if judged.breaches:
            # Whatever the kind of breach, its reason is that the second answer differs from the first.
            self.diffs.append(replace(judged, breaches=tuple(map(_between_runs, judged.breaches))))

    def _compare(self, name: str, rule: OutputRule, first: Actual, second: Actual) -> OutputDiff:
        comparison = OutputComparison(provider=self.provider, case=f"{self.case} (run twice)", output=name, rule=rule)
        parts = parts_of(first.value)
        comparison.add(Answer(value=first.value, dtype=dtype_name(parts[0]) if parts else ""), second)
        return comparison.finish()


def _between_runs(breach: Breach) -> Breach:
    return Breach(kind=BreachKind.RUN_TO_RUN, text=f"two runs on the same feed differ: {breach.text}")


def describe(found: RunToRun) -> str:
    """The difference in words: `y` in 3 of 35 elements, by up to 1e-7."""
    largest = f", by up to {number(found.max_abs)}" if found.max_abs is not None else ""
    return f"`{found.output}` in {found.differing:,} of {found.total:,} elements{largest}"


def _same(first: Actual, second: Actual) -> bool:
    one, other = parts_of(first.value), parts_of(second.value)
    return (
        type(first.value) is type(second.value)
        and len(one) == len(other)
        and all(a.dtype == b.dtype and same_values(a, b) for a, b in zip(one, other, strict=True))
    )
