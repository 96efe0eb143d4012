"""How long a run will still take: a guess that nothing can spoil."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.cli import estimate
from onnx_gate.cli.estimate import Estimate, last_seconds
from onnx_gate.records.asked import Location, ModelSpec, ProviderSpec
from onnx_gate.reports import json as results_json
from tests.golden.families import FAMILIES


def specs(*ids: str, framework: str = "torch") -> list[ModelSpec]:
    return [
        ModelSpec(
            id=name,
            line=1,
            framework=framework,
            folder="/",
            source=Location(),
            providers=(ProviderSpec(name="cpu"),),
        )
        for name in ids
    ]


def began(last: dict[str, float], *ids: str) -> Estimate:
    made = Estimate(last)
    made.began(specs(*ids))
    return made


def test_results_of_the_last_run_are_read(tmp_path: Path) -> None:
    """From the folder that this run is going to write to."""
    result = FAMILIES["diverged"]()
    (tmp_path / "results.json").write_text(results_json.render(result))
    assert last_seconds(tmp_path) == {model.id: model.seconds for model in result.models}


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", "[]", "{}", "null", '{"models": 7}', '{"models": [7, null, [], {}]}', "[" * 100_000),
        '{"models": [{"id": 7, "seconds": 1}, {"id": "a"}, {"id": "a", "seconds": "1"}, {"id": "a", "seconds": true}]}',
        '{"models": [{"id": "a", "seconds": -1}, {"id": "b", "seconds": 0}, {"id": "c", "seconds": 1e300}]}',
        '{"models": [{"id": "a", "seconds": NaN}, {"id": "b", "seconds": Infinity}]}',
    ],
)
def test_what_is_no_result_is_as_good_as_none(text: str, tmp_path: Path) -> None:
    """However odd it is, the run goes on."""
    (tmp_path / "results.json").write_text(text)
    assert last_seconds(tmp_path) == {}


def test_nothing_but_a_plain_file_of_some_size_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link may lead anywhere, a pipe would have us wait."""
    good = json.dumps({"models": [{"id": "a", "seconds": 2}]})
    for name in ("gone", "linked", "pipe", "folder", "large"):
        (tmp_path / name).mkdir()
    (tmp_path / "good.json").write_text(good)
    (tmp_path / "linked" / "results.json").symlink_to(tmp_path / "good.json")
    os.mkfifo(tmp_path / "pipe" / "results.json")
    (tmp_path / "folder" / "results.json").mkdir()
    (tmp_path / "large" / "results.json").write_text(good)
    monkeypatch.setattr(estimate, "LARGEST_RESULTS", len(good) - 1)
    assert [last_seconds(folder) for folder in sorted(tmp_path.iterdir())] == [{}] * 6


def test_nothing_is_known_at_first() -> None:
    """No guess is better than a wrong one."""
    assert began({}, "a", "b").left({"a": 3.0}) is None


def test_the_last_times_are_added_up() -> None:
    """Less what a model has run already; an unknown one takes as long as others do."""
    assert began({"a": 10.0, "b": 20.0}, "a", "b").left({"a": 4.0}) == pytest.approx(26)
    assert began({"a": 10.0}, "a", "b").left({}) == pytest.approx(20)
    assert began({"other": 10.0}, "a").left({}) is None


def test_models_that_run_side_by_side_share_the_time() -> None:
    """But none is done before its own time."""
    assert began({"a": 10.0, "b": 10.0, "c": 10.0, "d": 10.0}, *"abcd").left({"a": 0.0, "b": 0.0}) == pytest.approx(20)
    assert began({"a": 2.0, "b": 40.0}, "a", "b").left({"a": 0.0, "b": 0.0}) == pytest.approx(40)


def test_a_model_that_takes_longer_than_expected_takes_no_time_back() -> None:
    """It is not known how long it will take."""
    assert began({"a": 10.0, "b": 5.0}, "a", "b").left({"a": 300.0}) == pytest.approx(5)


def test_a_slower_machine_shows_by_what_has_ended() -> None:
    """Within reason."""
    made = began({"a": 10.0, "b": 10.0}, "a", "b")
    made.ended("a", 30.0)
    assert made.left({}) == pytest.approx(30)
    made.ended("a", 1e5)
    assert made.left({}) == pytest.approx(100)


def test_without_last_results_those_that_have_ended_are_the_measure() -> None:
    """Models of the same framework first."""
    made: Any = Estimate({})
    made.began([*specs("a", "b"), *specs("c", "d", framework="sklearn")])
    made.ended("a", 30.0)
    made.ended("c", 1.0)
    assert made.left({}) == pytest.approx(31)
    made.ended("b", 1.0)
    made.ended("d", 1.0)
    assert made.left({}) == 0.0
