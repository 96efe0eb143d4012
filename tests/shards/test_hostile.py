"""Artifacts may be anybody's: a part that contradicts itself, or is not what onnx-gate writes, is refused."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.gate.selection import make_scope
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.diagnosis.plots import Plot
from onnx_gate.records.found import Confusion, Worst
from onnx_gate.records.ran import Latency, Noise, Timing
from onnx_gate.records.result import GateResult
from onnx_gate.reports import json
from onnx_gate.vocabulary import BreachKind, Cause, Status
from tests.golden.records import breaches_of
from tests.shards.conftest import Runs
from tests.shards.project import change, change_model, change_text, held, merge, refused

WRONG = breaches_of(BreachKind.ELEMENTS, "too far")


def passing(shards: Path) -> tuple[Path, str]:
    """The part that holds a certain model that passed: which of several reasons comes first depends on its numbers."""
    for folder in sorted(shards.iterdir()):
        if any(model.id == "doubler" and model.verdict is Status.PASSED for model in json.read(folder).models):
            return folder, "doubler"
    raise AssertionError("the model did not pass")


# ── Tampered ────────────────────────────────────────────────────────────────────────────────────────────


def first_check(result: GateResult, model_id: str, **values: Any) -> GateResult:
    model = next(model for model in result.models if model.id == model_id)
    checks = (replace(model.checks[0], **values), *model.checks[1:])
    return change_model(result, model_id, checks=checks)


def warning(name: str) -> ManifestWarning:
    return ManifestWarning(file="onnx-gate.yml", line=1, column=1, path="", message="odd", models=(name,))


METRICS = ("max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "cosine", "snr_db", "used")
NOT_FINITE: dict[str, Any] = {**dict.fromkeys((*METRICS, "lowest", "highest", "worst")), "saturated": 0}
"""What a check says of which no element is a number."""


def as_labels(result: GateResult, model_id: str, **values: Any) -> GateResult:
    """The same with the first check as one of labels, of which all agree."""
    return first_check(result, model_id, **{**NOT_FINITE, "tolerance": None, "dtype": "int64", **values})


def every_pass(result: GateResult, model_id: str, **values: Any) -> GateResult:
    model = next(model for model in result.models if model.id == model_id)
    checks = tuple(replace(check, **values) if check.status is Status.PASSED else check for check in model.checks)
    return change_model(result, model_id, checks=checks)


def difference(size: float) -> dict[str, Any]:
    """Each element differs by so much, and is within its tolerance."""
    worst = Worst(index=(0,), reference=1.0, actual=1.0 + size)
    return {"max_abs": size, "mean_abs": size, "rmse": size, "snr_db": -20 * math.log10(size), "worst": worst}


TIMING = Timing(median=1.0, p95=1.0)
FORGED_TIME = Latency(provider="cpu", case="c", batch=1, source=TIMING, actual=TIMING, speedup=9.0, repeats=5)
FORGED_PLOT = Plot(provider="cpu", case="batch=1", output="elsewhere", looked=1)
FORGED_NOISE = Noise(provider="cpu", output="elsewhere", rtol=1.0, atol=1.0, times=0.0, ways=(), calls=1)
TAMPERED: dict[str, tuple[Callable[[GateResult, str], GateResult], str]] = {
    "run's verdict": (lambda result, _: replace(result, verdict=Status.SKIPPED), "the verdict is skipped, its models"),
    "warning": (
        lambda result, _: replace(result, warnings=(warning("elsewhere"),)),
        "it warns of models that its manifest doesn't have",
    ),
    "run's exit code": (lambda result, _: replace(result, exit_code=7), "the exit code is 7, its models make it"),
    "model's verdict": (
        lambda result, one: change_model(result, one, verdict=Status.DIVERGED),
        "the verdict is diverged, its checks make it passed",
    ),
    "no checks": (lambda result, one: change_model(result, one, checks=()), "its checks make it error"),
    "check's status": (
        lambda result, one: first_check(result, one, breaches=WRONG),
        "it is called passed, and has 1 breaches",
    ),
    "mismatches": (lambda result, one: first_check(result, one, mismatched=1), "its own numbers are beyond its limits"),
    "more than all": (
        lambda result, one: first_check(result, one, mismatched=99, total=1, limits={"max_mismatch": 1.0}),
        "it counts more elements than the 1 that it compared",
    ),
    "cosine": (
        lambda result, one: first_check(result, one, cosine=0.1, limits={"min_cosine": 0.9}),
        "its own numbers are beyond its limits",
    ),
    "smaller difference": (
        lambda result, one: first_check(
            result, one, max_abs=1e-9, mean_abs=0.0, rmse=0.0, worst=Worst(index=(0,), reference=1.0, actual=1.0001)
        ),
        "the worst element differs by 0.0001, and its largest difference is 1e-09",
    ),
    "tolerance denies it": (
        lambda result, one: first_check(
            result, one, max_abs=0.5, mean_abs=0.0, rmse=0.0, worst=Worst(index=(0,), reference=1.0, actual=1.5)
        ),
        "it counts no wrong element, and the worst differs by 0.5, where 0.00101 is allowed",
    ),
    "NaN": (
        lambda result, one: first_check(result, one, worst=Worst(index=(0,), reference=1.0, actual="NaN")),
        "it counts no wrong element, and the worst is nan instead of 1",
    ),
    "mean": (lambda result, one: first_check(result, one, max_abs=1e-9, rmse=0.5), "its rmse is 0.5"),
    "cosine of two": (lambda result, one: first_check(result, one, cosine=2.0), "its cosine is 2"),
    "nothing counted": (
        lambda result, one: first_check(result, one, total=0, mismatched=3),
        "it counts elements, and compared none",
    ),
    "larger difference": (
        lambda result, one: first_check(result, one, max_abs=1e9),
        "its largest difference is 1e+09",
    ),
    "larger difference without a worst": (
        lambda result, one: first_check(result, one, max_abs=1e9, worst=None),
        "its worst is missing",
    ),
    "infinite difference": (
        lambda result, one: first_check(result, one, max_abs=math.inf),
        "its largest difference is inf",
    ),
    "difference that is NaN": (
        lambda result, one: first_check(result, one, max_abs=math.nan),
        "its largest difference is nan",
    ),
    "reference beyond its range": (
        lambda result, one: first_check(
            result, one, max_abs=1e9, worst=Worst(index=(0,), reference=1e13, actual=1e13 + 1e9)
        ),
        "the worst should be 1e+13, and its reference goes from",
    ),
    "endless range": (
        lambda result, one: first_check(result, one, lowest=-math.inf),
        "expected finite numbers in order",
    ),
    "numbers of nothing": (
        lambda result, one: first_check(result, one, total=0, shape=(0, 3)),
        "it compared no element, and its max_abs is",
    ),
    "nothing of a shape": (
        lambda result, one: as_labels(result, one, total=0, shape=(1, 3)),
        "it compared 0 elements, and its shape has 3",
    ),
    "nothing in every case": (
        lambda result, one: every_pass(result, one, **NOT_FINITE, spread=None, total=0, shape=(0, 3)),
        "is empty in every case on cpu, and passes",
    ),
    "more than its shape": (
        lambda result, one: first_check(result, one, total=10**6, shape=(1, 1), calls=1),
        "it compared 1,000,000 elements, and its shape has 1",
    ),
    "less than its shape": (
        lambda result, one: first_check(result, one, shape=(1000, 1000), calls=5),
        "and its shape has 1,000,000",
    ),
    "never asked": (lambda result, one: first_check(result, one, calls=0), "the model was never asked"),
    "wrong for a NaN": (
        lambda result, one: first_check(result, one, nonfinite_mismatched=1),
        "1 elements are wrong for a NaN or Inf, and 0 in all",
    ),
    "NaN elsewhere": (
        lambda result, one: first_check(
            result, one, nan_matched=1, worst=Worst(index=(0,), reference=1.0, actual="Infinity")
        ),
        "it counts no wrong element, and the worst is inf instead of 1",
    ),
    "numbers of NaN": (
        lambda result, one: first_check(result, one, total=1, shape=(1, 1), nan_matched=1),
        "every element is NaN or infinite, and it has the numbers of finite ones",
    ),
    "NaN in every case": (
        lambda result, one: every_pass(result, one, **NOT_FINITE, total=1, nan_matched=1, shape=(1, 1)),
        "is NaN in every case on cpu, and passes",
    ),
    "confused labels": (
        lambda result, one: as_labels(result, one, confusion=(Confusion(reference="a", actual="b", count=1),)),
        "its pairs of labels count 1 that differ, and 0 do",
    ),
    "another label": (
        lambda result, one: as_labels(result, one, worst=Worst(index=(0,), reference=1, actual=2)),
        "no label differs, and the first that does is 2 instead of 1",
    ),
    "labels with a difference": (
        lambda result, one: as_labels(result, one, max_abs=1e9),
        "it has no tolerance, as labels have none, and its max_abs is 1e+09",
    ),
    "floats without tolerance": (
        lambda result, one: as_labels(result, one, dtype="float32"),
        "its elements are float32, and it has no tolerance",
    ),
    "floats with labels": (lambda result, one: first_check(result, one, labels=("a",)), "lists labels"),
    "text": (
        lambda result, one: first_check(result, one, worst=Worst(index=(0,), reference="1.0", actual="99.0")),
        "the worst element differs by 98",
    ),
    "no number": (
        lambda result, one: first_check(result, one, worst=Worst(index=(0,), reference="a", actual="b")),
        "the worst is 'b' instead of 'a', expected numbers",
    ),
    "truth": (
        lambda result, one: first_check(result, one, worst=Worst(index=(0,), reference=True, actual=False)),
        "the worst element differs by 1",
    ),
    "loose limit": (
        lambda result, one: first_check(result, one, limits={"max_mismatch": 5.0}),
        "its max_mismatch is 5, expected 0 to 1",
    ),
    "loose limit of labels": (
        lambda result, one: as_labels(result, one, limits={"min_agreement": -3.0}),
        "its min_agreement is -3, expected 0 to 1",
    ),
    "unknown limit": (
        lambda result, one: first_check(result, one, limits={"max_rel": 1e-9}),
        "its limit max_rel is not for such an output",
    ),
    "limit on speed": (
        lambda result, one: first_check(result, one, limits={"min_speedup": 9.0}),
        "its limit min_speedup is not for such an output",
    ),
    "speed without times": (
        lambda result, one: as_labels(
            result, one, output="speedup", total=0, shape=(), calls=0, limits={"min_speedup": 9.0}
        ),
        "cpu keeps its min_speedup, and no speed-up was measured",
    ),
    "top1 of five": (
        lambda result, one: first_check(result, one, top1=5.0, limits={"min_top1": 0.9}),
        "its top1 is 5, expected 0 to 1",
    ),
    "top1 that nobody asked for": (
        lambda result, one: first_check(result, one, top1=1.0),
        "its top1 is 1, and no min_top1 asks for it",
    ),
    "speed-up that its times deny": (
        lambda result, one: change_model(result, one, latency=(FORGED_TIME,)),
        "its speed-up is 9, and its medians make it 1",
    ),
    "fix": (lambda result, one: first_check(result, one, fix="mend it"), "passed, and its fix is set"),
    "message": (lambda result, one: first_check(result, one, message="wrong"), "passed, and its message is set"),
    "cause": (lambda result, one: first_check(result, one, cause=Cause.NAN), "passed, and its cause is set"),
    "squares": (
        lambda result, one: first_check(result, one, **{**difference(1e-4), "mean_abs": 1e-5, "rmse": 1e-6}),
        "its rmse is 1e-06, and its mean_abs 1e-05",
    ),
    "noise": (
        lambda result, one: first_check(result, one, **{**difference(1e-4), "snr_db": 200.0}),
        "its snr_db is 200, and its rmse 0.0001",
    ),
    "used": (
        lambda result, one: first_check(result, one, used=0.5),
        "it uses 0.5 of its tolerance, of which the largest difference 0 makes less",
    ),
    "headroom": (
        lambda result, one: change_model(result, one, headroom=0.5),
        "it uses 0.5 of its tolerance, and its checks 0",
    ),
    "noise of nothing": (
        lambda result, one: change_model(result, one, noise=(FORGED_NOISE,)),
        "it has noise of elsewhere on cpu alone",
    ),
    "plot of nothing": (
        lambda result, one: change_model(result, one, plots=(FORGED_PLOT,)),
        "it has a plot of elsewhere on cpu alone",
    ),
    "no divergence": (
        lambda result, one: change_model(
            first_check(result, one, status=Status.DIVERGED, breaches=WRONG, message="x"),
            one,
            verdict=Status.DIVERGED,
        ),
        "it is called diverged, and its own numbers keep its limits",
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
    "negative": (
        lambda result, one: first_check(result, one, rows=-1),
        "rows: Input should be greater than or equal to 0",
    ),
    "huge": (lambda result, one: first_check(result, one, rows=10**30), "rows: Input should be less than or equal to"),
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
    refused(shards, tmp_path / "merged", " is not a valid id", capsys)


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
    "schema": ('"schema": 2', '"schema": 3', "not a results.json of this version of onnx-gate (schema"),
    "unknown key": ('"schema": 2', '"schema": 2, "new": 1', "(new: "),
    "key twice": ('"schema": 2', '"schema": 2, "schema": 2', "a key is there twice"),
    "text for a number": ('"ort_threads": 1', '"ort_threads": "1"', "not of the kinds"),
    "text for a truth": ('"complete": true', '"complete": "yes"', "not of the kinds"),
    "number for a truth": ('"complete": true', '"complete": 1.0', "results.json"),
    "NaN for a count": ('"ort_threads": 1', '"ort_threads": "NaN"', "not a results.json"),
    "bare NaN": ('"ort_threads": 1', '"ort_threads": NaN', "results.json"),
    "too many digits": ('"ort_threads": 1', f'"ort_threads": {"9" * 5000}', "results.json"),
    "infinite": ('"seconds": ', '"seconds": 1e400, "x": ', "results.json"),
    "nested": ('"schema": 2', f'"schema": {"[" * 10_000}', "results.json"),
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


def test_weights_in_several_files_come_along(shards: Path, tmp_path: Path) -> None:
    """Those of a model that was shipped are numbered."""
    own = held(shards / "2-of-3")[0]
    for name in (f"{own}.onnx", f"{own}.onnx.0.data", f"{own}.onnx.1.data"):
        (shards / "2-of-3/models" / name).write_text(name)
    merge(tmp_path / "merged", shards)
    kept = {file.name: file.read_text() for file in (tmp_path / "merged/models").glob(f"{own}.*")}
    assert kept == {name: name for name in (f"{own}.onnx", f"{own}.onnx.0.data", f"{own}.onnx.1.data")}


def test_reports_without_logs_and_models_merge_too(shards: Path, tmp_path: Path) -> None:
    """Who uploads results.json alone gets a report that points at no file that isn't there."""
    for folder in shards.iterdir():
        for part in ("logs", "models"):
            shutil.rmtree(folder / part, ignore_errors=True)
    code, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert (code, {model.log for model in merged.models}) == (1, {""})
