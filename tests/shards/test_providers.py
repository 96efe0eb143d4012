"""CPU on one machine, CUDA on another: one row a model, with the checks of both.

No machine that tests this project has a GPU: what the second one says is made of what the first one found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.cli.main import main
from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.verdict import judge_run, worst
from onnx_gate.records.ran import Placement
from onnx_gate.records.result import Check, GateResult, ModelResult, ProviderState
from onnx_gate.reports import json
from onnx_gate.vocabulary import BreachKind, Cause, Status
from tests.golden.records import breaches_of, floats
from tests.shards.project import change, merge, write_project

MANIFEST = """
version: 1
defaults:
  inputs: {x: {dtype: float32, shape: [batch, 3]}}
  batches: [1, 7]
models:
  - {id: both, source: doubler.onnx, providers: [cpu, cuda]}
  - {id: also-both, source: doubler.onnx, providers: [cuda, cpu]}
  - {id: cpu-only, source: doubler.onnx}
  - {id: cuda-only, source: doubler.onnx, providers: {cuda: {required: true}}}
"""


def on_a_gpu(result: GateResult) -> GateResult:
    """The run of a CPU-only part as a machine with a GPU would have written it."""
    models = tuple(_on_a_gpu(model) for model in result.models)
    verdict, code = judge_run(models)
    environment = replace(result.environment, cpu="another CPU", providers={"cuda": ProviderState(available=True)})
    return replace(result, models=models, verdict=verdict, exit_code=code, environment=environment)


def _on_a_gpu(model: ModelResult) -> ModelResult:
    if model.checks[0].case == "select":
        return model
    compared = floats("batch=7", "y", 1e-6, provider="cuda", total=21, shape=(7, 3))
    return replace(
        model,
        verdict=worst([compared.status]),
        checks=(compared,),
        headroom=headroom_of((compared,)),
        cause=None,
        error="",
        seconds=2.0,
        placement={"cuda": Placement(nodes=1, on_provider=1)},
        notes=("a note of the GPU's machine",),
    )


def without_a_gpu(result: GateResult) -> GateResult:
    """The same as a machine that has none would have written it, whatever this one has."""
    models = []
    for model in result.models:
        checks = [check for check in model.checks if check.provider != "cuda"]
        if any(check.provider == "cuda" for check in model.checks):
            absent: dict[str, Any] = {
                "status": Status.SKIPPED,
                "cause": Cause.PROVIDER_UNAVAILABLE,
                "message": "no GPU",
            }
            checks += [Check(provider="cuda", case="run on cuda", output="", **absent)]
        verdict = worst(check.status for check in checks)
        told: dict[str, Any] = {"checks": tuple(checks), "headroom": headroom_of(checks), "verdict": verdict}
        models.append(replace(model, **told, cause=None, error="", placement={}))
    verdict, code = judge_run(models)
    return replace(result, models=tuple(models), verdict=verdict, exit_code=code)


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`cpu`, `cuda`: a run each; `cpu-1`, `cpu-2`: the first in two shards."""
    folder = tmp_path_factory.mktemp("machines")
    manifest = str(write_project(folder, MANIFEST))
    for provider in ("cpu", "cuda"):
        main(["run", manifest, "--provider", provider, "--output", str(folder / provider)])
    change(folder / "cuda", on_a_gpu)
    for number in (1, 2):
        argv = ["--provider", "cpu", "--shard", f"{number}/2", "--output", str(folder / f"cpu-{number}")]
        main(["run", manifest, *argv])
    return folder


def merged_of(machines: Path, tmp_path: Path, *names: str) -> tuple[int, GateResult]:
    code, merged = merge(tmp_path / "merged", *(machines / name for name in names))
    assert merged is not None
    return code, merged


def seen(result: GateResult) -> dict[str, list[tuple[str, str]]]:
    """By id, provider and status of its checks."""
    return {model.id: [(check.provider, str(check.status)) for check in model.checks] for model in result.models}


ROWS = {
    "both": [("cpu", "passed"), ("cpu", "passed"), ("cuda", "passed")],
    "also-both": [("cuda", "passed"), ("cpu", "passed"), ("cpu", "passed")],
    "cpu-only": [("cpu", "passed"), ("cpu", "passed")],
    "cuda-only": [("cuda", "passed")],
}


@pytest.mark.parametrize("names", [("cpu", "cuda"), ("cuda", "cpu"), ("cpu-1", "cuda", "cpu-2")])
def test_both_machines_make_one_row_a_model(machines: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    """In the manifest's order of providers; what was not asked of one machine is no skip. Also a grid of shards."""
    code, merged = merged_of(machines, tmp_path, *names)
    assert seen(merged) == ROWS
    assert (code, merged.verdict, merged.complete) == (0, Status.PASSED, True)
    both = merged.models[0]
    assert both.coverage is not None
    assert both.coverage.providers == ("cpu", "cuda")
    assert both.placement["cuda"].nodes == 1
    assert "a note of the GPU's machine" in both.notes
    assert not [note for model in merged.models for note in model.notes if "asked for" in note]


def test_the_environments_of_both_machines_are_kept_and_shown(machines: Path, tmp_path: Path) -> None:
    """In results.json and under Environment."""
    _, merged = merged_of(machines, tmp_path, "cuda", "cpu")
    assert [(part.providers, part.environment.cpu == "another CPU") for part in merged.parts] == [
        (("cpu",), False),
        (("cuda",), True),
    ]
    assert {name: state.available for name, state in merged.environment.providers.items()} == {
        "cpu": True,
        "cuda": True,
    }
    summary = (tmp_path / "merged/summary.md").read_text()
    assert "\n**cpu**\n" in summary
    assert "\n**cuda**\n" in summary
    assert "another CPU" in summary


def test_the_logs_of_both_machines_are_kept(machines: Path, tmp_path: Path) -> None:
    """One after the other, in one file."""
    merged_of(machines, tmp_path, "cpu", "cuda")
    log = (tmp_path / "merged/logs/both.log").read_text()
    assert log.index("── the run on cpu ──") < log.index("── the run on cuda ──")


def test_a_provider_that_no_part_ran_is_an_error(machines: Path, tmp_path: Path) -> None:
    """The GPU's job is lost as a whole: nothing but the manifest tells that it should have been."""
    code, merged = merged_of(machines, tmp_path, "cpu")
    assert (code, merged.verdict, merged.complete) == (3, Status.ERROR, False)
    assert merged.problems[0].startswith(
        "no part was to run on cuda, which the manifest asks for: both, also-both, cuda-only. Fix: "
    )
    errors = {model.id: model.error for model in merged.models}
    assert errors["both"].startswith("the manifest asks for cuda, and no part was to run on it. Fix: ")
    assert errors["cpu-only"] == ""
    assert {model.id: model.cause for model in merged.models}["cuda-only"] is Cause.UNKNOWN


def test_merge_may_be_told_which_providers_are_to_have_run(machines: Path, tmp_path: Path) -> None:
    """As `run --provider cpu` may: the rest is skipped, visibly."""
    code, merged = merge(tmp_path / "merged", machines / "cpu", "--provider", "cpu")
    assert merged is not None
    assert (code, merged.complete) == (0, True)
    assert seen(merged)["cuda-only"] == [("", "skipped")]


@pytest.mark.parametrize("expected", [[], ["--provider", "cpu"]])
def test_a_merged_result_can_be_reported_again(machines: Path, tmp_path: Path, expected: list[str]) -> None:
    """It is held against the providers that ran, also those that `merge` didn't insist on."""
    code, merged = merge(tmp_path / "merged", machines / "cpu", machines / "cuda", *expected)
    assert merged is not None
    assert merged.scope is not None
    assert main(["report", str(tmp_path / "merged"), "--output", str(tmp_path / "again")]) == code
    assert json.read(tmp_path / "again") == merged
    forged = replace(merged, models=merged.models[1:])
    (tmp_path / "merged/results.json").write_text(json.render(forged))
    assert main(["report", str(tmp_path / "merged"), "--output", str(tmp_path / "again")]) == 2


def test_to_expect_a_provider_that_no_model_has_is_a_wrong_call(machines: Path, tmp_path: Path) -> None:
    """It would expect nothing of anybody."""
    assert merge(tmp_path / "merged", machines / "cpu", "--provider", "webgpu") == (2, None)


def test_a_run_that_compared_nothing_is_made_up_for_by_no_other(
    tmp_path: Path,
) -> None:
    """The GPU's job ran where there is no GPU: its own exit code is 3, and so is that of the whole."""
    manifest = MANIFEST.replace("{cuda: {required: true}}", "[cuda]")
    path = str(write_project(tmp_path, manifest))
    for provider in ("cpu", "cuda"):
        main(["run", path, "--provider", provider, "--output", str(tmp_path / provider)])
    change(tmp_path / "cuda", without_a_gpu)
    code, merged = merge(tmp_path / "merged", tmp_path / "cpu", tmp_path / "cuda")
    assert merged is not None
    assert (code, merged.verdict, merged.complete) == (3, Status.ERROR, False)
    assert merged.problems[0].startswith("the run on cuda compared nothing: each of its checks was skipped. Fix: ")


def test_a_provider_that_must_have_run_and_was_skipped_is_an_error(tmp_path: Path) -> None:
    """Also where the same run compared on the CPU; by its full name too."""
    manifest = MANIFEST.replace("{cuda: {required: true}}", "[cuda]")
    main(["run", str(write_project(tmp_path, manifest)), "--output", str(tmp_path / "all")])
    change(tmp_path / "all", without_a_gpu)
    assert merge(tmp_path / "merged", tmp_path / "all")[0] == 0
    code, merged = merge(tmp_path / "must", tmp_path / "all", "--provider", "cpu,CUDAExecutionProvider")
    assert merged is not None
    assert (code, merged.verdict) == (3, Status.ERROR)
    assert merged.problems[0].startswith("nothing was compared on cuda, which --provider says must have run")


@pytest.mark.parametrize("lost", [("cpu-1", "cuda"), ("cpu-2", "cuda")])
def test_a_shard_that_is_missing_of_one_provider_is_an_error(
    machines: Path, tmp_path: Path, lost: tuple[str, ...]
) -> None:
    """Its models keep what the other provider found, and did not pass."""
    code, merged = merged_of(machines, tmp_path, *lost)
    number = 2 if "cpu-1" in lost else 1
    assert (code, merged.verdict) == (3, Status.ERROR)
    assert f"shard {number}/2 on cpu is missing" in merged.problems[0]
    row = seen(merged)["also-both" if number == 2 else "both"]
    assert sorted(row) == [("cpu", "error"), ("cuda", "passed")]


def test_a_provider_that_two_machines_ran_is_refused(
    machines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knows which of the two counts."""
    everything = tmp_path / "everything"
    main(["run", str(machines / "onnx-gate.yml"), "--output", str(everything), "--jobs", "2"])
    assert merge(tmp_path / "merged", machines / "cpu", everything) == (3, None)
    assert "both on cpu is also in the runs of " in capsys.readouterr().err


def diverged_on_cuda(result: GateResult) -> GateResult:
    first = result.models[0]
    told = {"breaches": breaches_of(BreachKind.ELEMENTS, "far off"), "message": "far off"}
    wrong = floats("batch=7", "y", 1.0, provider="cuda", total=21, shape=(7, 3), mismatched=3, **told)
    judged: dict[str, Any] = {"checks": (wrong,), "headroom": None, "verdict": Status.DIVERGED}
    model = replace(first, **judged, cause=Cause.PROVIDER, advice="Turn TF32 off.")
    models = (model, *result.models[1:])
    verdict, code = judge_run(models)
    return replace(result, models=models, verdict=verdict, exit_code=code)


def with_graph_breach(result: GateResult) -> GateResult:
    first = result.models[0]
    breach = Check(
        provider="graph",
        case="structure",
        output="y",
        status=Status.DIVERGED,
        breaches=breaches_of(BreachKind.NAMES, "no such output"),
        message="no such output",
    )
    judged: dict[str, Any] = {"checks": (breach, *first.checks), "headroom": None, "verdict": Status.DIVERGED}
    model = replace(first, **judged, cause=Cause.CONTRACT)
    models = (model, *result.models[1:])
    verdict, code = judge_run(models)
    return replace(result, models=models, verdict=verdict, exit_code=code)


@pytest.fixture
def copies(machines: Path, tmp_path: Path) -> Callable[..., Path]:
    """A machine's results, changed."""

    def copy(name: str, how: Callable[[GateResult], GateResult]) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.render(how(json.read(machines / name))))
        return tmp_path / name

    return copy


def test_a_divergence_on_one_machine_is_that_of_the_model(
    machines: Path, tmp_path: Path, copies: Callable[..., Path]
) -> None:
    """With its cause and its advice."""
    code, merged = merge(tmp_path / "merged", machines / "cpu", copies("cuda", diverged_on_cuda))
    assert merged is not None
    both = merged.models[0]
    assert (code, both.verdict, both.cause, both.advice) == (1, Status.DIVERGED, Cause.PROVIDER, "Turn TF32 off.")


def test_what_both_machines_say_of_the_file_is_said_once(tmp_path: Path, copies: Callable[..., Path]) -> None:
    """The structure is checked wherever the model is run."""
    parts = [copies(name, with_graph_breach) for name in ("cpu", "cuda")]
    code, merged = merge(tmp_path / "merged", *parts)
    assert merged is not None
    assert code == 1
    assert [check.provider for check in merged.models[0].checks] == ["graph", "cpu", "cpu", "cuda"]


def test_different_files_on_two_machines_are_told(machines: Path, tmp_path: Path, copies: Callable[..., Path]) -> None:
    """Each converts for itself, and its converter may be another version."""

    def other_file(result: GateResult) -> GateResult:
        first = result.models[0]
        assert first.convert
        return replace(result, models=(replace(first, convert=replace(first.convert, nodes=99)), *result.models[1:]))

    _, merged = merge(tmp_path / "merged", machines / "cpu", copies("cuda", other_file))
    assert merged is not None
    assert merged.models[0].notes[-1].startswith("the machines judged different ONNX files (cpu: opset 18, 1 node, ")


def test_a_model_whose_reference_could_not_be_made_for_another_machine_is_an_error(tmp_path: Path) -> None:
    """It ran on none of the providers asked for, and failed all the same: its part is taken, and not passed over."""
    manifest = """
    version: 1
    defaults: {inputs: {x: {dtype: float32, shape: [batch, 3]}}, batches: [1]}
    models:
      - {id: fine, source: doubler.onnx}
      - {id: broken, source: "source.py:unfitted", framework: sklearn, providers: [cuda]}
    """
    path = str(write_project(tmp_path, manifest))
    saved = str(tmp_path / "references")
    assert main(["run", path, "--provider", "cpu", "--save-reference", saved, "--output", str(tmp_path / "cpu")]) == 3
    main(["run", path, "--provider", "cuda", "--reference", saved, "--output", str(tmp_path / "cuda")])
    code, merged = merge(tmp_path / "merged", tmp_path / "cpu", tmp_path / "cuda")
    assert merged is not None
    assert (code, [str(model.verdict) for model in merged.models]) == (3, ["passed", "error"])
