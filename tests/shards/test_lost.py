"""Each way of losing a part, of having one too many, or one that isn't what it says, is an error."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_gate.cli.main import main
from onnx_gate.gate.selection import make_scope
from onnx_gate.gate.verdict import judge_run
from onnx_gate.records.result import GateResult, Part
from onnx_gate.vocabulary import Cause, Status
from tests.shards.conftest import Runs
from tests.shards.project import IDS, change, held, merge, refused


def only_passes(shards: Path) -> None:
    """Parts in which nothing fails, so that it takes the loss to fail the job: a call without the bad ones."""
    bad = {"rotten", "broken", "tolerated", "half@int8-dynamic"}
    for folder in shards.iterdir():
        change(folder, lambda result: without(result, bad))


def without(result: GateResult, ids: set[str]) -> GateResult:
    """As if the call had left these out."""
    assert result.scope
    asked = [replace(model, shard=0) if model.id in ids else model for model in result.scope.models]
    models = tuple(model for model in result.models if model.id not in ids)
    verdict, code = judge_run(models, empty_shard=not models)
    scope = make_scope(result.scope.manifest_sha256, result.scope.shards, asked, result.scope.providers)
    return replace(result, models=models, scope=scope, verdict=verdict, exit_code=code)


# ── Missing: everything is reported, by name ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_missing_shard_is_an_error_with_the_names_of_its_models(
    runs: Runs, shards: Path, tmp_path: Path, number: int
) -> None:
    """Every model of the manifest is in the report; those of the shard could not be judged."""
    only_passes(shards)
    lost = held(shards / f"{number}-of-3")
    shutil.rmtree(shards / f"{number}-of-3")
    code, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert (code, merged.verdict, merged.complete) == (3, Status.ERROR, False)
    assert merged.problems[0].startswith(
        f"shard {number}/3 is missing: it holds {', '.join(lost) or 'no model'}. Fix: "
    )
    for model in merged.models:
        if model.id in lost:
            assert (model.verdict, model.cause, model.seconds) == (Status.ERROR, Cause.UNKNOWN, 0.0)
            assert model.error.startswith(f"shard {number}/3 is missing, and this model is in it. Fix: ")
    assert f"shard {number}/3 is missing" in (tmp_path / "merged/summary.md").read_text()
    assert f"shard {number}/3 is missing" in (tmp_path / "merged/junit.xml").read_text()


def test_without_a_loss_the_same_parts_pass(shards: Path, tmp_path: Path) -> None:
    """So it is the loss that fails them."""
    only_passes(shards)
    code, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert (code, merged.verdict, merged.problems) == (0, Status.PASSED, ())


def test_a_divergence_is_still_a_divergence_where_a_shard_is_missing(shards: Path, tmp_path: Path) -> None:
    """Exit code 1, as for one run, and all ids are there."""
    lost = next(folder for folder in sorted(shards.iterdir()) if "rotten" not in held(folder))
    shutil.rmtree(lost)
    code, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert (code, tuple(model.id for model in merged.models)) == (1, IDS)
    assert not merged.complete


def test_a_cancelled_shard_is_an_error(shards: Path, tmp_path: Path) -> None:
    """Also where all that it holds had been judged by then."""
    only_passes(shards)
    change(shards / "2-of-3", lambda result: replace(result, complete=False, exit_code=143))
    code, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert (code, merged.verdict, merged.complete) == (3, Status.ERROR, False)
    assert "shard 2/3 was stopped before its end" in merged.problems[0]


def test_a_named_folder_without_results_is_an_error(shards: Path, tmp_path: Path) -> None:
    """It was named for a reason."""
    only_passes(shards)
    (tmp_path / "hollow/logs").mkdir(parents=True)
    code, merged = merge(tmp_path / "merged", shards, tmp_path / "hollow")
    assert merged is not None
    assert (code, merged.verdict) == (3, Status.ERROR)
    assert "hollow: no results.json in it" in merged.problems[0]


# ── Refused: nothing is merged, and nothing of an earlier merge is left ─────────────────────────────────


def other_version(result: GateResult) -> GateResult:
    return replace(result, environment=replace(result.environment, onnx_gate="0.0.9"))


def other_manifest(result: GateResult) -> GateResult:
    assert result.scope
    return replace(result, scope=make_scope("0" * 64, result.scope.shards, result.scope.models, ()))


def other_count(result: GateResult) -> GateResult:
    assert result.scope
    scope = make_scope(result.scope.manifest_sha256, 4, result.scope.models, ())
    return replace(result, scope=scope, shard="2/4")


def swap_two(result: GateResult) -> GateResult:
    """A plan in which two models that are others' have changed places."""
    assert result.scope
    numbers = {1: 3, 3: 1}
    asked = [replace(model, shard=numbers.get(model.shard, model.shard)) for model in result.scope.models]
    return replace(result, scope=make_scope(result.scope.manifest_sha256, 3, asked, ()))


def other_selection(result: GateResult) -> GateResult:
    return without(result, {next(model.id for model in result.models)})


def other_digest(result: GateResult) -> GateResult:
    assert result.scope
    return replace(result, scope=replace(result.scope, plan_sha256="0" * 64))


FOREIGN: dict[str, tuple[Callable[[GateResult], GateResult], str]] = {
    "version": (other_version, "it was written by onnx-gate 0.0.9, and this is "),
    "manifest": (other_manifest, "it is of another manifest than "),
    "count": (other_count, "shard 2/4 is of another plan than shard 1/3"),
    "plan": (swap_two, "shard 2/3 is of another plan than shard 1/3"),
    "selection": (other_selection, "its run was asked for other models than that of "),
    "merged": (lambda result: replace(result, parts=(json_part(result),)), "it is merged already"),
    "no scope": (lambda result: replace(result, scope=None), "it doesn't say which part of the manifest it is"),
    "other shard's name": (lambda result: replace(result, shard="3/3"), "its models are not those of shard 3/3"),
    "no shard": (lambda result: replace(result, shard=None), "shard None of a plan of 3"),
    "shard in other words": (lambda result: replace(result, shard="02/3"), "shard 02/3 of a plan of 3"),
    "garbage for a shard": (lambda result: replace(result, shard="2/3; rm"), "its shard is '2/3; rm', expected I/N"),
    "digest": (other_digest, "the digest of its plan is not that of its models"),
}


def json_part(result: GateResult) -> Part:
    return Part(shard=None, providers=(), started_at="", seconds=0, environment=result.environment)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_shard_is_refused(
    shards: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of another version, manifest, plan, count or call."""
    how, reason = FOREIGN[kind]
    change(shards / "2-of-3", how)
    refused(shards, tmp_path / "merged", reason, capsys)


def test_a_doubled_shard_is_refused(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody knows which of the two is right."""
    shutil.copytree(shards / "2-of-3", shards / "again")
    refused(shards, tmp_path / "merged", "shard 2/3 is there twice, also in ", capsys)


def test_a_doubled_shard_is_refused_also_where_another_is_missing(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three folders are not three shards."""
    shutil.rmtree(shards / "3-of-3")
    shutil.copytree(shards / "2-of-3", shards / "3-of-3")
    refused(shards, tmp_path / "merged", "shard 2/3 is there twice, also in ", capsys)


def test_an_empty_folder_is_nothing_to_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A download that brought nothing is no pass."""
    (tmp_path / "artifacts").mkdir()
    refused(tmp_path / "artifacts", tmp_path / "merged", "there is no results.json to merge", capsys)


def test_the_manifest_may_be_held_against_the_shards(
    runs: Runs, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--manifest` takes the shards of this manifest and of no other."""
    assert merge(tmp_path / "merged", shards, "--manifest", runs.manifest)[0] == 1
    other = tmp_path / "onnx-gate.yml"
    other.write_text(runs.manifest.read_text() + "\n# changed\n")
    assert merge(tmp_path / "merged", shards, "--manifest", other) == (3, None)
    assert "it is of another manifest than --manifest names" in capsys.readouterr().err


# ── Wrong calls ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_call_exits_2_and_costs_nothing(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that isn't there, a file, a part's own folder as output, a provider that there is not."""
    results = shards / "1-of-3/results.json"
    before = results.read_bytes()
    for argv in (
        [str(tmp_path / "absent")],
        [str(results)],
        [str(shards), "--provider", "gpu"],
        [str(shards), "--provider", "tensorrt"],
        [str(shards), "--manifest", str(tmp_path / "absent.yml")],
    ):
        assert main(["merge", *argv, "--output", str(tmp_path / "merged")]) == 2
        assert not (tmp_path / "merged").exists()
    assert main(["merge", str(shards), "--output", str(shards / "1-of-3")]) == 2
    assert "this is the folder of a part" in capsys.readouterr().err
    assert results.read_bytes() == before
