"""results.json: the seeds are parts that merge, and the check sees what it looks for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fuzz import results
from fuzz.case import Case, Failed
from onnx_gate.gate.baseline.compare import compare
from onnx_gate.reports import json as results_json
from onnx_gate.vocabulary import Status


class Chosen(Random):
    """Chooses the first of the places, and the lie of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self.number = number

    def choice(self, seq: Any) -> Any:
        """Of the lies, the one asked for."""
        return seq[self.number if seq is results.LIES else 0]


AGAIN = "write the seeds anew: python -m fuzz.record"


def test_seeds_are_parts_that_merge() -> None:
    """The real ones, and most of the golden ones."""
    told = Counter(
        results.check(Case(seed=seed.name, data=seed.data, how="nothing"))
        for seed in results.seeds()
        if not seed.name.startswith("golden-")
    )
    assert not [word for word in told if "refused" in word], AGAIN
    assert {word.rpartition(" ")[2] for word in told} >= {"passed", "diverged"}
    assert told.total() > 15


def test_a_verdict_that_a_flip_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a part's own word believed."""
    seed = next(seed for seed in results.seeds() if seed.name == "alone.json")
    monkeypatch.setattr(
        "fuzz.results._honest", lambda name: (results.Verdicts(Status.DIVERGED, 1, {"shipped": Status.DIVERGED}), None)
    )
    with pytest.raises(Failed, match="flip: verdict"):
        results.check(Case(seed=seed.name, data=seed.data, how="flip: verdict from passed to diverged"))


@pytest.mark.parametrize("number", range(len(results.LIES)))
def test_a_lie_is_refused(number: int) -> None:
    """By `report` and by `merge`, whichever number it is about."""
    seed = next(seed for seed in results.seeds() if seed.name == "alone.json")
    case = results._lie(Chosen(number), seed)
    assert case is not None
    assert results.check(case) == "report: refused, merge: refused"


@pytest.mark.parametrize("number", range(len(results.HISTORY_LIES)))
@pytest.mark.parametrize("name", ["golden-history.json", "part-history.json"])
def test_a_lie_about_earlier_runs_is_refused(name: str, number: int) -> None:
    """By `report`, and, of a part, by `merge`."""
    seed = next(seed for seed in results.seeds() if seed.name == name)
    result = results_json.parse(seed.data)
    assert result.baseline
    for model in result.models:
        lie = results.HISTORY_LIES[number](model, len(result.baseline.runs))
        models = tuple(replace(one, **lie) if one is model else one for one in result.models)
        data = results._dump(replace(result, models=models))
        assert results.check(Case(seed=seed.name, data=data, how=f"lie: {lie}")) == "report: refused, merge: refused"


def test_a_baseline_that_changes_a_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a verdict to depend on it."""
    seed = next(seed for seed in results.seeds() if seed.name == "alone.json")
    monkeypatch.setattr("fuzz.results.compare", lambda *given: replace(compare(*given), exit_code=0))
    with pytest.raises(Failed, match="changes the result"):
        results.check(Case(seed=seed.name, data=seed.data, how="nothing"))


def test_a_lie_that_is_taken_is_found() -> None:
    """Were it taken for what it says."""
    seed = next(seed for seed in results.seeds() if seed.name == "alone.json")
    with pytest.raises(Failed, match="lie: max_abs"):
        results.check(Case(seed=seed.name, data=seed.data, how="lie: max_abs"))


@pytest.mark.parametrize(
    "change", [{"status": "diverged"}, {"breaches": [{"kind": "elements", "text": "x"}]}, {"mismatched": 5}]
)
def test_what_speaks_against_a_pass_is_seen(change: dict[str, Any]) -> None:
    """By plain code, of its own."""
    said = {"status": "passed", "breaches": [], "mismatched": 0, "total": 10, "limits": {}}
    assert results._against([said]) is None
    assert results._against([said | change]) == said | change
    assert results._against([said | {"mismatched": 5, "limits": {"max_mismatch": 0.5}}]) is None
