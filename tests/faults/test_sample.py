"""A sample of the plan through the command itself, and checks that would see what it must not say."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from faults.honesty import Ending, broken_promises, ending_of, wrong_verdicts
from faults.mounts import can_mount
from faults.plan import REAL_DISK, SHARES, Fault, plan
from faults.trial import Trial, run_trial
from faults.workload import RIGHT, write_workload
from onnx_gate.records.result import GateResult
from onnx_gate.reports import RENDER
from onnx_gate.reports.json import parse
from onnx_gate.vocabulary import Status

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes and mounts as Linux has them")
SLOW = ("SIGSTOP", "stuck", "stalled", "slow")


def sample() -> list[Fault]:
    """Of each kind the first one that takes little time."""
    cheap = [fault for fault in plan() if fault.models in ("light", "one") and fault.what not in SLOW]
    first = [next(fault for fault in cheap if fault.kind == kind) for kind in SHARES]
    return [fault for fault in first if fault.kind != REAL_DISK or can_mount()]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """All of the sample, two side by side."""
    folder = tmp_path_factory.mktemp("faults")
    workload = write_workload(folder / "workload")
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda each: run_trial(each, workload=workload, home=folder / str(each.number)), sample()))


def test_whatever_breaks_no_verdict_is_wrong(trials: list[Trial]) -> None:
    """Nor is any other promise broken; and every fault has happened."""
    found = {str(trial.fault): [*wrong_verdicts(trial), *broken_promises(trial)] for trial in trials}
    assert not any(found.values()), found
    assert [str(trial.fault) for trial in trials if not trial.fired] == []


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """A run of two models to which nothing happened, taken for one with a fault."""
    folder = tmp_path_factory.mktemp("right")
    trial = run_trial(None, workload=write_workload(folder / "w"), home=folder / "h", models="light")
    fault = Fault(kind="signal to a worker", what="SIGKILL", at="load", model="wrong", models="light")
    return replace(trial, fault=fault, fired=True)


def told(trial: Trial, result: GateResult) -> Trial:
    """The same run with other reports."""
    reports = {name: render(result).encode() for name, render in RENDER.items()}
    return replace(trial, reports=reports, code=result.exit_code)


def with_verdict(trial: Trial, model_id: str, verdict: Status) -> Trial:
    result = parse(trial.reports["results.json"].decode())
    models = [
        replace(model, verdict=verdict, cause=None, error="") if model.id == model_id else model
        for model in result.models
    ]
    return told(trial, replace(result, models=tuple(models)))


def test_a_run_without_a_fault_is_right(right: Trial) -> None:
    """What it says is what is known of the workload."""
    said = json.loads(right.reports["results.json"])["models"]
    assert {model["id"]: model["verdict"] for model in said} == {name: RIGHT[name] for name in ("recorded", "wrong")}
    assert (wrong_verdicts(right), broken_promises(right), ending_of(right)) == ([], [], Ending.SAME)


def test_wrong_verdicts_are_seen(right: Trial) -> None:
    """In the reports, in what is printed, and in the exit code."""
    assert wrong_verdicts(with_verdict(right, "wrong", Status.PASSED))
    assert wrong_verdicts(with_verdict(right, "recorded", Status.DIVERGED))
    assert wrong_verdicts(with_verdict(right, "recorded", Status.SKIPPED))
    assert wrong_verdicts(replace(right, said="[1/2] ✔ wrong: passed, 1 comparison\n"))
    assert wrong_verdicts(replace(right, code=0))
    assert wrong_verdicts(replace(right, code=0, reports={}))


def test_broken_promises_are_seen(right: Trial) -> None:
    """Each of them."""
    result = parse(right.reports["results.json"].decode())
    without = {name: text for name, text in right.reports.items() if name != "junit.xml"}
    cut = {**right.reports, "summary.md": right.reports["summary.md"][:100]}
    for broken in (
        replace(right, code=None),
        replace(right, code=4, reports={}),
        replace(right, code=-11),
        replace(right, code=3),
        replace(right, code=2, reports={}, complained="no"),
        replace(right, reports=without),
        replace(right, reports=cut),
        replace(right, reports={"junit.xml": right.reports["junit.xml"]}),
        replace(right, survivors=("1",)),
        replace(right, left=(".work-abcdefgh",)),
        replace(right, comments=("a", "b")),
        replace(right, comments=()),
        told(right, replace(result, models=result.models[:1])),
        told(right, replace(result, complete=False)),
        with_verdict(right, "recorded", Status.ERROR),
    ):
        assert broken_promises(broken), broken


def test_a_trial_leaves_nothing(tmp_path: Path) -> None:
    """No folder, no mount."""
    fault = next(fault for fault in sample() if fault.kind == "disk that fails")
    run_trial(fault, workload=write_workload(tmp_path / "w"), home=tmp_path / "home")
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
