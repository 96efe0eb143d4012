"""A result and a baseline → the result with its changes since the baseline, and with the history of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from onnx_gate.gate.baseline.changes import changes_of
from onnx_gate.gate.baseline.machines import differences, past_run, times_comparable
from onnx_gate.gate.baseline.memory import remember
from onnx_gate.records.bounds import LONGEST_NAME
from onnx_gate.records.history.past import MOST_RUNS, Baseline, Past
from onnx_gate.records.result import GateResult, ModelResult

_MOST_GONE = 10_000


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A baseline that was found."""

    result: GateResult
    """A complete result of a whole run."""
    source: str
    """Where the baseline comes from: a file, or the address of a workflow run."""
    branch: str = ""
    """The branch of the baseline; empty if unknown."""
    commit: str = ""
    """The commit that was judged; empty if unknown."""


def compare(result: GateResult, earlier: Earlier) -> GateResult:
    """The same result with its changes added: every verdict, status and exit code stays the same."""
    old = earlier.result
    runs = (*(old.baseline.runs if old.baseline else ()), past_run(old, earlier.commit))
    timed = times_comparable(old, result)
    before = {model.id: model for model in old.models}
    asked_before = before.keys() | _asked(old)
    return replace(
        result,
        baseline=Baseline(
            source=earlier.source[:LONGEST_NAME],
            branch=earlier.branch[:LONGEST_NAME],
            differences=differences(old, result),
            times_comparable=timed,
            gone=tuple(_gone(old, result))[:_MOST_GONE],
            runs=runs[-MOST_RUNS:],
        ),
        models=tuple(
            replace(
                model,
                changes=changes_of(model, before.get(model.id), new=model.id not in asked_before, timed=timed),
                past=_past(before.get(model.id), len(runs)),
            )
            for model in result.models
        ),
    )


def _gone(old: GateResult, result: GateResult) -> Iterator[str]:
    """Models of the baseline that are gone. A model that the call leaves out, or another shard holds, is not gone."""
    here = {model.id for model in result.models} | _asked(result)
    return (model.id[:LONGEST_NAME] for model in old.models if model.id not in here)


def _asked(result: GateResult) -> set[str]:
    """Every model of the manifest, if the result lists them."""
    return {model.id for model in result.scope.models} if result.scope else set()


def _past(old: ModelResult | None, runs: int) -> tuple[Past, ...]:
    """The history of a model in the baseline, plus the baseline's own result; runs beyond the limit are dropped."""
    if old is None:
        return ()
    known = (*(old.past or ()), remember(old, runs - 1))
    forgotten = max(0, runs - MOST_RUNS)
    return tuple(replace(past, run=past.run - forgotten) for past in known if past.run >= forgotten)
