"""Who judges what: balanced, the same on every machine, and never more than a matrix takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_gate.cli.main import main
from onnx_gate.errors import UsageError
from onnx_gate.gate.selection import select_models
from onnx_gate.records.asked import Location, Manifest, ModelSpec, ProviderSpec, RunOptions
from onnx_gate.shards.plan import Plan, expected_seconds, make_plan
from tests.shards.conftest import Runs, printed
from tests.shards.project import IDS

OPTIONS = RunOptions(jobs=1)
DIGEST = "ab" * 32


def manifest(count: int, *providers: str, frameworks: Mapping[int, str] | None = None) -> Manifest:
    """Models m0, m1, …"""
    models = tuple(
        ModelSpec(
            id=f"m{number}",
            line=number + 1,
            framework=(frameworks or {}).get(number, "onnx"),
            folder="/",
            source=Location(),
            providers=tuple(ProviderSpec(name=each) for each in providers or ("cpu",)),
        )
        for number in range(count)
    )
    return Manifest(path="onnx-gate.yml", models=models, sha256=DIGEST)


def loads(plan: Plan, seconds: Mapping[str, float]) -> list[float]:
    return [sum(seconds[one] for one in ids) for ids in plan.shards]


def test_the_longest_go_first_each_to_who_has_least() -> None:
    """5+3, 4+4 for two, where turns would make 5+4 and 4+3."""
    seconds = {"m0": 5.0, "m1": 4.0, "m2": 4.0, "m3": 3.0}
    plan = make_plan(manifest(4), OPTIONS, 2, seconds)
    assert plan.shards == (("m0", "m3"), ("m1", "m2"))
    assert plan.seconds == (8.0, 8.0)


@settings(deadline=None)
@given(
    st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=40),
    st.integers(min_value=1, max_value=256),
)
def test_every_model_is_in_one_shard_and_no_shard_is_empty(times: list[float], count: int) -> None:
    """Whatever the times and the number; and no shard has more than its share and one model."""
    given_models = manifest(len(times))
    seconds = {f"m{number}": time for number, time in enumerate(times)}
    plan = make_plan(given_models, OPTIONS, count, seconds)
    assert len(plan.shards) == min(count, len(times))
    assert all(plan.shards)
    assert sorted(one for ids in plan.shards for one in ids) == sorted(seconds)
    assert max(loads(plan, seconds)) <= (sum(times) / len(plan.shards) + max(times)) * (1 + 1e-9)
    for number, ids in enumerate(plan.shards, start=1):
        options = RunOptions(jobs=1, shard=(number, len(plan.shards)), plan=plan.text)
        assert tuple(spec.id for spec in select_models(given_models, options)) == ids


def test_an_unknown_model_counts_as_the_median_of_its_framework() -> None:
    """Else of all, else all count the same."""
    models = manifest(6, frameworks={0: "torch", 1: "torch", 2: "torch", 3: "torch", 4: "sklearn"}).models
    known = {"m0": 1.0, "m1": 9.0, "m2": 2.0}
    assert expected_seconds(models, known) == {**known, "m3": 2.0, "m4": 2.0, "m5": 2.0}
    assert expected_seconds(models, {**known, "m4": 30.0})["m5"] == 5.5
    assert set(expected_seconds(models, {}).values()) == {1.0}


def test_without_results_no_seconds_are_promised() -> None:
    """Null in the matrix, no time for a person."""
    plan = make_plan(manifest(3), OPTIONS, 2, {"other": 3.0})
    assert [entry["seconds"] for entry in json.loads(plan.matrix)["include"]] == [None, None]
    assert plan.told == ["shard 1/2: 2 models: m0, m2", "shard 2/2: 1 model: m1"]


def test_the_matrix_has_what_a_job_needs() -> None:
    """The shard to run, and a name that an artifact may have."""
    plan = make_plan(manifest(3), OPTIONS, 2, {"m0": 3.0, "m1": 1.0, "m2": 1.5})
    assert json.loads(plan.matrix) == {
        "include": [
            {"shard": "1/2", "name": "1-of-2", "models": 1, "seconds": 3.0},
            {"shard": "2/2", "name": "2-of-2", "models": 2, "seconds": 2.5},
        ]
    }
    assert plan.text == f"plan1:{DIGEST}:2:1,2,2"
    assert plan.outputs == {"matrix": plan.matrix, "plan": plan.text, "shards": "2", "empty": "false"}


def test_two_thousand_models_on_256_machines_fit_into_the_outputs_of_a_job() -> None:
    """1 MB for all outputs, 128 KiB for an argument."""
    plan = make_plan(manifest(2000), OPTIONS, 256, {f"m{n}": 1.0 + n % 17 for n in range(2000)})
    assert len(plan.shards) == 256
    assert sum(map(len, plan.outputs.values())) < 100_000
    assert len(plan.text) < 16_000


def test_a_plan_that_no_argument_can_hold_is_refused() -> None:
    """With the way out."""
    with pytest.raises(UsageError, match=r"use `run --shard I/N` without a plan"):
        make_plan(manifest(30_000), OPTIONS, 256, {})


def test_providers_that_no_model_has_make_an_empty_plan() -> None:
    """A matrix without jobs is an error of the workflow, so it has to be told."""
    plan = make_plan(manifest(3), RunOptions(jobs=1, providers=("cuda",)), 2, {})
    assert plan.outputs == {"matrix": '{"include": []}', "plan": "", "shards": "0", "empty": "true"}
    assert plan.told[0].startswith("onnx-gate: onnx-gate.yml: no model runs on the providers asked for")


def test_models_that_run_on_none_of_the_providers_ask_for_no_machine() -> None:
    """They are still in a shard, which reports them."""
    both = manifest(4, "cpu", "cuda").models[:1] + manifest(4).models[1:]
    given_models = Manifest(path="onnx-gate.yml", models=both, sha256=DIGEST)
    plan = make_plan(given_models, RunOptions(jobs=1, providers=("cuda",)), 4, {})
    assert plan.shards == (("m0", "m1", "m2", "m3"),)


@pytest.mark.parametrize(
    ("text", "shard", "reason"),
    [
        ("garbage", (1, 2), "--plan: got 'garbage', expected the text"),
        (f"plan1:{DIGEST}:2:1,2,1,2", (1, 2), "is of another manifest"),
        (f"plan1:{'0' * 64}:2:1,2,1", (1, 2), "is of another manifest"),
        (f"plan1:{DIGEST}:2:1,3,1", (1, 2), "is of another manifest"),
        (f"plan1:{DIGEST}:2:0,0,0", (1, 2), "is of another manifest"),
        (f"plan1:{DIGEST}:2:1,2,1", (1, 3), "--shard: got one of 3, and the plan has 2"),
        (f"plan2:{DIGEST}:2:1,2,1", (1, 2), "expected the text"),
        (f"plan1:{DIGEST}:2:1,2,", (1, 2), "expected the text"),
    ],
)
def test_a_plan_of_something_else_is_refused(text: str, shard: tuple[int, int], reason: str) -> None:
    """It would leave models between the shards."""
    with pytest.raises(UsageError, match=reason):
        select_models(manifest(3), RunOptions(jobs=1, shard=shard, plan=text))


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--shards", "257"], "--shards: got 257, expected 1 to 256"),
        (["--shards", "2", "--only", "nobody"], "--only nobody: "),
        (["--shards", "2", "--provider", "gpu"], "--provider: got 'gpu'"),
    ],
)
def test_a_wrong_call_exits_2(runs: Runs, argv: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason, and nothing on standard output that a script could take for a matrix."""
    assert main(["plan", str(runs.manifest), *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"onnx-gate: {reason}")) == ("", True)


@pytest.mark.parametrize("argv", [["--plan", "plan1:x"], ["--shard", "1/2", "--plan", ""]])
def test_a_plan_without_a_shard_or_without_a_plan_exits_2(
    runs: Runs, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--plan "$PLAN"` with a variable that isn't set is a mistake; so is choosing models twice."""
    assert main(["run", str(runs.manifest), *argv]) == 2
    assert main(["run", str(runs.manifest), "--shard", "1/3", "--plan", runs.plan, "--only", "linear"]) == 2
    assert capsys.readouterr().err.count("onnx-gate: --plan: ") == 2


def test_more_shards_than_models_are_as_many_as_models(runs: Runs) -> None:
    """A machine without work is a waste."""
    include = json.loads(printed("plan", str(runs.manifest), "--shards", "256"))["include"]
    assert [entry["shard"] for entry in include] == [f"{n}/{len(IDS)}" for n in range(1, len(IDS) + 1)]


def test_the_workflow_gets_the_plan_as_outputs(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And standard output has the matrix alone."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    matrix = printed("plan", str(runs.manifest), "--shards", "3", "--results", str(runs.whole))
    lines = (tmp_path / "outputs").read_text().splitlines()
    values = {line.partition("<<")[0]: lines[at + 1] for at, line in enumerate(lines) if "<<" in line}
    assert values == {"matrix": matrix, "plan": runs.plan, "shards": "3", "empty": "false"}


@pytest.mark.parametrize("results", ["absent", "broken.json"])
def test_results_that_cannot_be_read_are_planned_without(
    runs: Runs, tmp_path: Path, results: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run has none; the plan is as right, only less balanced, and says so."""
    (tmp_path / "broken.json").write_text("{}")
    assert main(["plan", str(runs.manifest), "--shards", "2", "--results", str(tmp_path / results)]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["include"]) == 2
    assert err.startswith("onnx-gate: planning without earlier results, each model counts the same: ")
