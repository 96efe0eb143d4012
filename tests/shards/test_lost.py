"""Each way of losing a part, of having one too many, or one that isn't what it says, is an error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_gate.cli import main
from onnx_gate.records import Cause, GateResult, Part, ProviderState, Status
from onnx_gate.reports import json
from onnx_gate.split import make_scope
from onnx_gate.verdict import judge_run
from tests.shards.conftest import Runs
from tests.shards.project import IDS, change, change_model, change_text, merge


def held(folder: Path) -> list[str]:
    """The ids of a part's models."""
    return [model.id for model in json.read(folder).models]


def passing(shards: Path) -> tuple[Path, str]:
    """A part, and a model of it that passed."""
    for folder in sorted(shards.iterdir()):
        for model in json.read(folder).models:
            if model.verdict is Status.PASSED:
                return folder, model.id
    raise AssertionError("no model passed")


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
    "garbage for a shard": (lambda result: replace(result, shard="2/3; rm"), "got '2/3; rm', expected I/N"),
    "digest": (
        lambda result: replace(result, scope=replace(result.scope, plan_sha256="0" * 64)),
        "the digest of its plan is not that of its models",
    ),
}


def json_part(result: GateResult) -> Part:
    return Part(shard=None, providers=(), started_at="", seconds=0, environment=result.environment)


def refused(shards: Path, output: Path, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3 with the reason, and no report, not even yesterday's."""
    output.mkdir()
    (output / "results.json").write_text("yesterday")
    code, merged = merge(output, shards)
    err = capsys.readouterr().err
    assert (code, merged) == (3, None)
    assert reason in err
    assert "Fix: " in err
    assert len(err.splitlines()) == 1


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
        [str(shards), "--manifest", str(tmp_path / "absent.yml")],
    ):
        assert main(["merge", *argv, "--output", str(tmp_path / "merged")]) == 2
        assert not (tmp_path / "merged").exists()
    assert main(["merge", str(shards), "--output", str(shards / "1-of-3")]) == 2
    assert "this is the folder of a part" in capsys.readouterr().err
    assert results.read_bytes() == before


# ── Tampered ────────────────────────────────────────────────────────────────────────────────────────────


def first_check(result: GateResult, model_id: str, **values: object) -> GateResult:
    model = next(model for model in result.models if model.id == model_id)
    checks = (replace(model.checks[0], **values), *model.checks[1:])  # type: ignore[arg-type]
    return change_model(result, model_id, checks=checks)


TAMPERED: dict[str, tuple[Callable[[GateResult, str], GateResult], str]] = {
    "run's verdict": (lambda result, _: replace(result, verdict=Status.SKIPPED), "the verdict is skipped, its models"),
    "run's exit code": (lambda result, _: replace(result, exit_code=7), "the exit code is 7, its models make it"),
    "model's verdict": (
        lambda result, one: change_model(result, one, verdict=Status.DIVERGED),
        "the verdict is diverged, its checks make it passed",
    ),
    "no checks": (lambda result, one: change_model(result, one, checks=()), "its checks make it error"),
    "check's status": (
        lambda result, one: first_check(result, one, breaches=("too far",)),
        "it is called passed, and has 1 breaches",
    ),
    "mismatches": (lambda result, one: first_check(result, one, mismatched=1), "its own numbers are beyond its limits"),
    "more than all": (
        lambda result, one: first_check(result, one, mismatched=99, total=1, limits={"max_mismatch": 100.0}),
        "its own numbers are beyond its limits",
    ),
    "cosine": (
        lambda result, one: first_check(result, one, cosine=0.1, limits={"min_cosine": 0.9}),
        "its own numbers are beyond its limits",
    ),
    "another provider": (lambda result, one: first_check(result, one, provider="webgpu"), "ran on 'webgpu'"),
    "a pass of the file": (lambda result, one: first_check(result, one, provider="graph"), "a pass of nothing"),
    "twice": (
        lambda result, one: change_model(result, one, checks=2 * next(m for m in result.models if m.id == one).checks),
        "is compared twice",
    ),
    "log": (lambda result, one: change_model(result, one, log="../../etc/passwd"), "its log is '../../etc/passwd'"),
    "line": (lambda result, one: change_model(result, one, line=99), "it is not as the manifest has it"),
    "allowed": (lambda result, one: change_model(result, one, allow_failure=True), "it is not as the manifest has it"),
    "a model less": (
        lambda result, one: replace(result, models=tuple(m for m in result.models if m.id != one)),
        "its models are not those of shard",
    ),
    "a model twice": (
        lambda result, one: replace(result, models=result.models + result.models[-1:]),
        "its models are not those of shard",
    ),
    "no time": (lambda result, _: replace(result, started_at="yesterday"), "it started at 'yesterday'"),
    "problems": (lambda result, _: replace(result, problems=("x",)), "it has problems"),
    "negative": (lambda result, one: first_check(result, one, rows=-1), "rows is out of range"),
    "huge": (lambda result, one: first_check(result, one, rows=10**30), "rows is out of range"),
    "endless": (lambda result, _: replace(result, seconds=float("inf")), "seconds is Infinity"),
    "timeless": (lambda result, one: change_model(result, one, seconds=float("nan")), "seconds is NaN"),
    "before the start": (lambda result, _: replace(result, seconds=-1.0), "seconds is -1.0"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_part_that_contradicts_itself_is_refused(
    shards: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts are made anew from the checks; nothing is taken on trust."""
    how, reason = TAMPERED[kind]
    folder, model_id = passing(shards)
    change(folder, lambda result: how(result, model_id))
    refused(shards, tmp_path / "merged", reason, capsys)


def hostile_ids(result: GateResult, name: str) -> GateResult:
    """The same name in both places, so that nothing but its form is wrong."""
    assert result.scope
    own = result.models[0].id
    asked = [replace(model, id=name) if model.id == own else model for model in result.scope.models]
    changed = change_model(result, own, id=name, log="")
    return replace(changed, scope=make_scope(result.scope.manifest_sha256, 3, asked, ()))


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "..", "x" * 101, "a\nb", "::error::", "a@b@c", "é"])
def test_an_id_that_is_none_is_refused(
    shards: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are named after ids."""
    change(shards / "1-of-3", lambda result: hostile_ids(result, name))
    refused(shards, tmp_path / "merged", " is none", capsys)


def test_a_skip_of_what_the_manifest_requires_is_refused(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would have been an error."""

    def require(result: GateResult) -> GateResult:
        assert result.scope
        asked = [replace(each, providers=dict.fromkeys(each.providers, True)) for each in result.scope.models]
        return replace(result, scope=make_scope(result.scope.manifest_sha256, 3, asked, ()))

    for folder in shards.iterdir():
        change(folder, require)
    refused(shards, tmp_path / "merged", "it is skipped, and the manifest requires it", capsys)


TEXTS = {
    "schema": ('"schema": 1', '"schema": 2', "not a results.json of this version of onnx-gate (schema"),
    "unknown key": ('"schema": 1', '"schema": 1, "new": 1', "(new: "),
    "key twice": ('"schema": 1', '"schema": 1, "schema": 1', "a key is there twice"),
    "text for a number": ('"ort_threads": 1', '"ort_threads": "1"', "not of the kinds"),
    "text for a truth": ('"complete": true', '"complete": "yes"', "not of the kinds"),
    "number for a truth": ('"complete": true', '"complete": 1.0', "results.json"),
    "NaN for a count": ('"ort_threads": 1', '"ort_threads": "NaN"', "not a results.json"),
    "bare NaN": ('"ort_threads": 1', '"ort_threads": NaN', "results.json"),
    "too many digits": ('"ort_threads": 1', f'"ort_threads": {"9" * 5000}', "results.json"),
    "infinite": ('"seconds": ', '"seconds": 1e400, "x": ', "results.json"),
    "nested": ('"schema": 1', f'"schema": {"[" * 10_000}', "results.json"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_what_onnx_gate_would_not_have_written_is_refused(
    shards: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Strictly: no other schema, no key twice, no text for a number."""
    old, new, reason = TEXTS[kind]
    change_text(shards / "2-of-3", old, new)
    refused(shards, tmp_path / "merged", reason, capsys)


@pytest.mark.parametrize("data", [b"", b"null", b"{", b"\xff\xfe", b"[" * 100_000])
def test_garbage_is_refused(shards: Path, tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """With the name of the file."""
    (shards / "2-of-3/results.json").write_bytes(data)
    refused(shards, tmp_path / "merged", "2-of-3/results.json: not ", capsys)


# ── Files that are not what they seem ───────────────────────────────────────────────────────────────────


def link(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("what", ["results.json", "logs/{}.log", "models/{}.onnx", "logs", "models", ""])
def test_a_link_is_refused(
    runs: Runs, shards: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It could lead anywhere, such as to a file with a token in it."""
    secret = tmp_path / "secret"
    shutil.copytree(runs.shards[1], secret)
    own = held(shards / "2-of-3")[0]
    target = secret / what.format(own)
    if what.startswith("models"):
        target = secret / "results.json" if "/" in what else secret
    link(shards / "2-of-3" / what.format(own) if what else shards / "2-of-3", target)
    refused(shards, tmp_path / "merged", "a link", capsys)
    assert not [file for file in (tmp_path / "merged").rglob("*") if file.is_symlink()]


def test_a_pipe_in_the_place_of_a_file_is_refused(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without waiting for somebody to write to it."""
    own = held(shards / "2-of-3")[0]
    (shards / f"2-of-3/logs/{own}.log").unlink(missing_ok=True)
    os.mkfifo(shards / f"2-of-3/logs/{own}.log")
    refused(shards, tmp_path / "merged", "expected a plain file", capsys)


def test_a_file_that_is_too_large_is_refused(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A results.json of half a gibibyte (a hole, here) is not read into memory."""
    with (shards / "2-of-3/results.json").open("r+b") as file:
        file.truncate(512 * 1024 * 1024)
    refused(shards, tmp_path / "merged", "it has 512 MiB, at most 256 MiB are taken", capsys)


def test_files_of_others_are_not_taken(shards: Path, tmp_path: Path) -> None:
    """A part brings the models that it judged, whatever else is in its folder."""
    (shards / "2-of-3/models").mkdir(exist_ok=True)
    other = held(shards / "1-of-3")[0]
    for name in (f"{other}.onnx.data", "stray.onnx", ".hidden"):
        (shards / "2-of-3/models" / name).write_text("stray")
    merge(tmp_path / "merged", shards)
    assert not [file for file in (tmp_path / "merged/models").iterdir() if file.read_bytes() == b"stray"]


def test_reports_without_logs_and_models_merge_too(shards: Path, tmp_path: Path) -> None:
    """Who uploads results.json alone gets a report that points at no file that isn't there."""
    for folder in shards.iterdir():
        for part in ("logs", "models"):
            shutil.rmtree(folder / part, ignore_errors=True)
    code, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert (code, {model.log for model in merged.models}) == (1, {""})


def test_providers_are_available_where_any_machine_has_them(shards: Path, tmp_path: Path) -> None:
    """One GPU among three machines is a GPU."""

    def with_cuda(result: GateResult) -> GateResult:
        states = {**result.environment.providers, "cuda": ProviderState(available=True)}
        return replace(result, environment=replace(result.environment, providers=states))

    change(shards / "3-of-3", with_cuda)
    _, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert merged.environment.providers["cuda"].available
