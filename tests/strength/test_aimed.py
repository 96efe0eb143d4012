"""Witnesses: other feeds that show a difference. Within what the manifest allows they become cases of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from onnx_gate.protocol import Event
from onnx_gate.records.asked import StrengthSpec
from onnx_gate.records.found import Expectation, Failure, OutputDiff
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.strength.aimed import MOST_CASES, _name
from onnx_gate.worker.strength.kinds.mutants import Kind, TreeSpot
from onnx_gate.worker.strength.measure import measure_strength
from onnx_gate.worker.strength.stage import WEAK_INPUTS
from tests.strength.measured import (
    EVERY,
    NEVER,
    judged_events,
    measured,
    outcome,
    prepared_model,
    save_source,
    strength_of,
)

X = {"dtype": "float32", "shape": ["batch", 2]}


def scaled_tree(depth: int = 3) -> Any:
    """A tree behind a scaler, on features of different sizes."""
    rng = np.random.default_rng(0)
    features = np.stack([rng.uniform(1000, 9000, 300), rng.uniform(-3, 3, 300)], 1)
    targets = np.where(features[:, 0] > 4000, 10, 0) + np.sin(2 * features[:, 1]) + features[:, 0] / 3000
    return make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=depth, random_state=0)).fit(
        features, targets
    )


def keys_of(folder: Path, source: Any, **given: Any) -> dict[str, Any]:
    """A model with one input."""
    return {"source": save_source(folder, source), "framework": "sklearn", "inputs": {"X": {**X, **given}}}


def cases_of(events: list[Event]) -> list[tuple[str, ...]]:
    """The cases that were announced, time after time."""
    return [event.cases for event in events if isinstance(event, Expectation)]


class TestWitnesses:
    """What can be shown is shown."""

    def test_every_leaf_behind_a_scaler_is_reached(self, tmp_path: Path) -> None:
        """Boxes are solved exactly and followed back: a narrow range leaves no leaf and no threshold unshown."""
        found = measured(tmp_path, **keys_of(tmp_path, scaled_tree(), range=[0, 1]))
        trees = [each for each in found.tried if isinstance(each.mutant.aim, TreeSpot)]
        leaves = [each for each in trees if each.mutant.kind is Kind.LEAF]
        assert len(leaves) == scaled_tree()[-1].get_n_leaves()
        assert {outcome(each) for each in leaves} <= {"caught", "counted"}
        turned = [each for each in trees if each.mutant.kind is Kind.BRANCH]
        assert {outcome(each) for each in turned} <= {"caught", "counted"}
        assert found.strength.share is not None
        assert found.strength.share < 0.7

    def test_a_range_holds_what_becomes_a_case(self, tmp_path: Path) -> None:
        """Whatever lies outside of it is offered, and fed to no provider."""
        found = measured(tmp_path, **keys_of(tmp_path, scaled_tree(), range=[0, 100]))
        assert found.aimed.offered
        assert (found.aimed.offered["X"] > 100).any()
        for case in found.aimed.cases:
            for call in case.calls():
                assert ((call.feed["X"] >= 0) & (call.feed["X"] <= 100)).all()

    def test_values_hold_it_too(self, tmp_path: Path) -> None:
        """Only listed ones are fed."""
        found = measured(tmp_path, **keys_of(tmp_path, scaled_tree(), values=[0.0, 1.0, 5000.0]))
        assert found.aimed.offered_rows > 0
        for case in found.aimed.cases:
            for call in case.calls():
                assert set(np.unique(call.feed["X"])) <= {0.0, 1.0, 5000.0}

    def test_a_missing_value_is_a_witness(self, tmp_path: Path) -> None:
        """Of what an imputer does with it."""
        features = np.random.default_rng(0).normal(size=(60, 2))
        features[::5, 1] = np.nan
        source = make_pipeline(SimpleImputer(), LinearRegression()).fit(features, np.nan_to_num(features, nan=5).sum(1))
        np.savez(tmp_path / "rows.npz", X=np.ones((3, 2), np.float32))
        found = measured(tmp_path, **keys_of(tmp_path, source), data="rows.npz")
        shown = [each for each in found.tried if "Imputer" in each.mutant.place or "imputed" in each.mutant.place]
        assert "counted" in {outcome(each) for each in shown}

    def test_their_number_is_fixed(self, tmp_path: Path) -> None:
        """The same rows each time, however many mutants ask for them."""
        keys = keys_of(tmp_path, scaled_tree(), range=[0, 1])
        one, two = (measured(tmp_path, **keys).strength for _ in range(2))
        assert one.witnesses == two.witnesses > 0
        assert one.witnesses < 20_000


class TestCases:
    """Cases that are made of witnesses."""

    def test_they_are_announced_and_compared(self, tmp_path: Path) -> None:
        """A range in which rows are rarely drawn where thresholds move: the second announcement holds the first."""
        events, _ = judged_events(tmp_path, **keys_of(tmp_path, scaled_tree(4), range=[-10, 10000]), batches=[1])
        strength = strength_of(events)
        assert strength is not None
        assert strength.caught < strength.aimed <= strength.counted
        first, second = cases_of(events)
        aimed = [case for case in second if case.startswith("aimed:")]
        assert second[: len(first)] == first
        assert aimed == list(second[len(first) :]) != []
        compared = [event for event in events if isinstance(event, OutputDiff) and event.case in aimed]
        assert {event.case for event in compared} == set(aimed)
        assert not [event for event in compared if event.breaches]
        assert not [event for event in events if isinstance(event, Failure)]

    def test_they_catch_what_is_counted_as_aimed(self, tmp_path: Path) -> None:
        """Measured again with these cases among the judged ones, at least as many mutants are caught."""
        keys = keys_of(tmp_path, scaled_tree(4), range=[-10, 10000]) | {"batches": [1]}
        prepared = prepared_model(tmp_path, **keys)
        before = measure_strength(prepared, StrengthSpec(mutants=EVERY), deadline=NEVER)
        assert before is not None
        prepared.cases += before.aimed.cases
        after = measure_strength(prepared, StrengthSpec(mutants=EVERY), deadline=NEVER)
        assert after is not None
        caught = {each.mutant.place for each in after.tried if each.caught}
        assert {mutant.place for mutant in before.aimed.caught} <= caught
        assert after.strength.caught >= before.strength.aimed > before.strength.caught

    def test_with_data_there_are_none(self, tmp_path: Path) -> None:
        """Rows are offered instead, in a file that the worker leaves."""
        np.savez(tmp_path / "rows.npz", X=np.array([[1500, 0], [1600, 1]], np.float32))
        events, scratch = judged_events(tmp_path, **keys_of(tmp_path, scaled_tree()), data="rows.npz")
        strength = strength_of(events)
        assert strength is not None
        assert strength.aimed == strength.caught < strength.counted
        assert len(cases_of(events)) == 1
        offered = np.load(scratch / WEAK_INPUTS)
        assert offered["X"].shape == (strength.offered, 2)
        assert offered["X"].dtype == np.float32

    def test_names_that_are_cut_stay_apart(self) -> None:
        """Answers of the source are kept by the name of the case: two of one name would share them."""
        first = _name("encoder." * 20 + "first", [])
        case = Case(name=first, calls=lambda: iter(()), sizes={})
        second = _name("encoder." * 20 + "second", [case])
        third = _name("encoder." * 20 + "third", [case, Case(name=second, calls=lambda: iter(()), sizes={})])
        assert len({first, second, third}) == 3
        assert max(len(name) for name in (first, second, third)) < 100


def test_what_the_source_refuses_is_left_out(tmp_path: Path) -> None:
    """No failure, no case: the survivors are offered."""
    prepared = prepared_model(tmp_path, **keys_of(tmp_path, scaled_tree(4), range=[-10, 10000]), batches=[1])
    rows = [call.feed["X"] for case in prepared.cases for call in case.calls()]
    asked: list[int] = []
    predict = prepared.framework.predict

    class Refusing:
        """The framework, with a source that answers what was judged and nothing else."""

        def __getattr__(self, name: str) -> Any:
            return getattr(prepared_framework, name)

        def predict(self, source: Any, spec: Any, feed: Any) -> Any:
            if not any(feed["X"].shape == known.shape and np.array_equal(feed["X"], known) for known in rows):
                asked.append(1)
                raise ValueError("not one of mine")
            return predict(source, spec, feed)

    prepared_framework = prepared.framework
    prepared.framework = Refusing()  # type: ignore[assignment]
    found = measure_strength(prepared, StrengthSpec(mutants=EVERY), deadline=NEVER)
    assert found is not None
    assert asked
    assert found.aimed.cases == []
    assert found.strength.aimed == found.strength.caught < found.strength.counted
    assert found.strength.offered > 0
    assert len(asked) <= MOST_CASES


@pytest.mark.parametrize("depth", [2, 4])
def test_offered_rows_are_different_and_few(depth: int, tmp_path: Path) -> None:
    """Each once, at most 64."""
    found = measured(tmp_path, **keys_of(tmp_path, scaled_tree(depth), range=[0, 1]))
    rows = found.aimed.offered["X"]
    assert len(np.unique(rows, axis=0)) == len(rows) == found.strength.offered <= 64
