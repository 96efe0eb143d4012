"""Strength of merged parts: that of the machine with the CPU, held against the limit anew, and not believed blindly."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.cli.main import main
from onnx_gate.gate.coverage import state_coverage
from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.output import LARGEST_WEAK_INPUTS
from onnx_gate.gate.strength.limit import is_of_strength, judge_strength, other_checks, warn_of_strength
from onnx_gate.gate.verdict import judge_checks, judge_run
from onnx_gate.records.result import GateResult, ModelResult, ProviderState
from onnx_gate.records.strength import Strength
from onnx_gate.reports import json
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.verdicts import with_fix
from tests.golden.records import floats, strength_of
from tests.shards.project import change, change_model, merge, refused, write_project

MANIFEST = """
version: 1
defaults:
  framework: sklearn
  inputs: {x: {dtype: float32, shape: [batch, 3]}}
  batches: [1, 7]
  providers: [cpu, cuda]
models:
  - {id: free, source: "source.py:good"}
  - {id: held, source: "source.py:good", min_strength: 0.5}
"""
STRONG = strength_of((("negated", 40, 40, 39, 39),))
WEAK = strength_of((("negated", 40, 40, 4, 4),))
LOST = "the process crashed on a wrong model"


def least_of(result: GateResult, model_id: str) -> float | None:
    """What the manifest asks for."""
    assert result.scope
    return next(model.min_strength for model in result.scope.models if model.id == model_id)


def judged_with(
    result: GateResult, strength: Strength | None, provider: str, why: str = "", **given: Any
) -> GateResult:
    """A part as a run on one machine would have written it, with this strength for all of its models."""
    models = tuple(
        _judged_with(model, strength, provider, least_of(result, model.id), why, **given) for model in result.models
    )
    verdict, code = judge_run(models)
    environment = replace(result.environment, providers={provider: ProviderState(available=True)})
    return replace(result, models=models, verdict=verdict, exit_code=code, environment=environment)


def _judged_with(
    model: ModelResult, strength: Strength | None, provider: str, least: float | None, why: str, **given: Any
) -> ModelResult:
    difference = 0.3 if given else 1e-6
    checks = (floats("batch=7", "variable", difference, provider=provider, total=7, shape=(7, 1), **given),)
    limit = judge_strength(strength, least, checks, why=why)
    verdict, error = judge_checks((*limit, *checks))
    return replace(
        model,
        verdict=verdict,
        checks=(*limit, *checks),
        cause=error.cause if error else Cause.CONVERSION if verdict is Status.DIVERGED else None,
        error=with_fix(error) if error else "",
        coverage=state_coverage(checks, also=warn_of_strength(strength, least)),
        strength=None if given else strength,
        headroom=headroom_of((*limit, *checks)),
        placement={},
        numerics={},
        latency=(),
        plots=None,
    )


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on each provider, as this machine has it."""
    folder = tmp_path_factory.mktemp("machines")
    manifest = str(write_project(folder, MANIFEST))
    for provider in ("cpu", "cuda"):
        main(["run", manifest, "--provider", provider, "--output", str(folder / "parts" / provider)])
    return folder / "parts"


@pytest.fixture
def parts(runs: Path, tmp_path: Path) -> Path:
    """Copies that a test may change, with a strength of their own each."""
    shutil.copytree(runs, tmp_path / "parts")
    change(tmp_path / "parts/cpu", partial(judged_with, strength=STRONG, provider="cpu"))
    change(tmp_path / "parts/cuda", partial(judged_with, strength=WEAK, provider="cuda"))
    return tmp_path / "parts"


def merged_of(parts: Path, tmp_path: Path) -> tuple[int, dict[str, ModelResult]]:
    code, merged = merge(tmp_path / "merged", parts)
    assert merged is not None
    # What merge writes, `report` takes.
    assert main(["report", str(tmp_path / "merged"), "--output", str(tmp_path / "again")]) == code
    return code, {model.id: model for model in merged.models}


def limits_of(model: ModelResult) -> list[str]:
    return [check.message for check in model.checks if is_of_strength(check)]


def test_the_machine_with_the_cpu_says_it(parts: Path, tmp_path: Path) -> None:
    """Its strength is the model's, and its inputs are enough, whatever another machine says."""
    code, models = merged_of(parts, tmp_path)
    assert code == 0
    assert [model.strength for model in models.values()] == [STRONG, STRONG]
    assert not limits_of(models["held"])
    warnings = [told for model in models.values() if model.coverage for told in model.coverage.warnings]
    assert not [told for told in warnings if "strength" in told]


def test_what_is_too_weak_there_is_an_error_once(parts: Path, tmp_path: Path) -> None:
    """And a warning where nobody set a limit."""
    change(parts / "cpu", partial(judged_with, strength=WEAK, provider="cpu"))
    change(parts / "cuda", partial(judged_with, strength=STRONG, provider="cuda"))
    code, models = merged_of(parts, tmp_path)
    assert code == 3
    assert (models["held"].verdict, models["held"].cause) == (Status.ERROR, Cause.WEAK_INPUTS)
    assert len(limits_of(models["held"])) == 1
    assert models["held"].checks[0].case == "strength"
    coverage = models["free"].coverage
    assert coverage
    assert sum("strength is low" in warning for warning in coverage.warnings) == 1


def test_a_machine_that_came_to_none_says_why(parts: Path, tmp_path: Path) -> None:
    """The strength of a machine without the CPU does not stand in for it."""
    change(parts / "cpu", partial(judged_with, strength=None, provider="cpu", why=LOST))
    code, models = merged_of(parts, tmp_path)
    assert code == 3
    assert [model.strength for model in models.values()] == [None, None]
    assert limits_of(models["held"]) == [f"`min_strength` is set, and strength was not computed: {LOST}."]


def test_without_a_cpu_the_one_that_has_it(parts: Path, tmp_path: Path) -> None:
    """A part of its own is merged too."""
    change(parts / "cuda", partial(judged_with, strength=STRONG, provider="cuda"))
    shutil.rmtree(parts / "cpu")
    code, merged = merge(tmp_path / "merged", parts, "--provider", "cuda")
    assert merged is not None
    assert (code, [model.strength for model in merged.models]) == (0, [STRONG, STRONG])


def test_a_model_that_diverged_elsewhere_has_none(parts: Path, tmp_path: Path) -> None:
    """As in one run; the divergence wins."""
    change(parts / "cuda", partial(judged_with, strength=None, provider="cuda", mismatched=3))
    code, models = merged_of(parts, tmp_path)
    assert code == 1
    assert [model.strength for model in models.values()] == [None, None]
    assert not limits_of(models["held"])


# ── Inputs that are offered ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def offering(parts: Path) -> Path:
    """Both machines offer inputs; only one of them has the strength of the whole."""
    for name, strength in (("cpu", STRONG), ("cuda", WEAK)):
        change(parts / name, partial(judged_with, strength=replace(strength, offered=3), provider=name))
        (parts / name / "weak-inputs").mkdir()
        (parts / name / "weak-inputs/free.npz").write_bytes(name.encode())
    return parts


def test_inputs_come_from_the_same_machine(offering: Path, tmp_path: Path) -> None:
    """What isn't there is not offered."""
    _, models = merged_of(offering, tmp_path)
    assert (tmp_path / "merged/weak-inputs/free.npz").read_bytes() == b"cpu"
    assert [model.strength and model.strength.offered for model in models.values()] == [3, 0]
    assert [file.name for file in (tmp_path / "merged/weak-inputs").iterdir()] == ["free.npz"]


@pytest.mark.parametrize("kind", ["link", "folder", "large"])
def test_inputs_that_are_no_plain_file_are_refused(
    offering: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As any other file of a part."""
    file = offering / "cpu/weak-inputs/free.npz"
    file.unlink()
    if kind == "link":
        file.symlink_to("/etc/passwd")
    elif kind == "folder":
        file.mkdir()
    else:
        file.touch()
        os.truncate(file, LARGEST_WEAK_INPUTS + 1)
    reason = {"link": "a link", "folder": "expected a plain file", "large": "at most 16 MiB are taken"}[kind]
    code, merged = merge(tmp_path / "merged", offering)
    assert (code, merged) == (3, None)
    assert reason in capsys.readouterr().err


# ── What is forged ──────────────────────────────────────────────────────────────────────────────────────


def forge(result: GateResult, model_id: str, **values: Any) -> GateResult:
    """One model with other values, and a run that fits."""
    result = change_model(result, model_id, **values)
    models = tuple(
        replace(model, verdict=judge_checks(model.checks)[0], cause=None if model.id == model_id else model.cause)
        for model in result.models
    )
    verdict, code = judge_run(models)
    return replace(result, models=models, verdict=verdict, exit_code=code)


def test_a_limit_that_was_left_out(parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers make an error, and the part has none."""
    change(parts / "cpu", partial(judged_with, strength=WEAK, provider="cpu"))
    model = json.read(parts / "cpu").models[1]
    checks = other_checks(model.checks)
    forged: dict[str, Any] = {"checks": checks, "headroom": headroom_of(checks), "error": ""}
    change(parts / "cpu", partial(forge, model_id="held", **forged))
    refused(parts, tmp_path / "out", "held: it has 0 checks of its strength, and its numbers make 1", capsys)


def test_a_strength_that_was_left_out(parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No news is a failure, in a part as in a run."""
    change(parts / "cpu", partial(forge, model_id="held", strength=None))
    refused(parts, tmp_path / "out", "held: it has 0 checks of its strength, and its numbers make 1", capsys)


def test_a_limit_that_nobody_set(parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does one hide that a provider is missing."""
    (limit,) = judge_strength(None, 0.9, json.read(parts / "cpu").models[0].checks)
    change(parts / "cpu", partial(forge, model_id="free", checks=(limit,), strength=None, headroom=None))
    refused(parts, tmp_path / "out", "free: it has 1 checks of its strength, and its numbers make 0", capsys)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"strength": replace(STRONG, caught=40)}, "40 mutants are caught, and 39 aimed"),
        ({"strength": STRONG, "weak_reference": True}, "it has a strength, which there is only of a model that passed"),
    ],
)
def test_a_strength_that_can_not_be(
    parts: Path, tmp_path: Path, values: dict[str, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the rest says."""
    change(parts / "cpu", partial(forge, model_id="free", **values))
    refused(parts, tmp_path / "out", reason, capsys)
    # `report` shows no such thing either.
    assert main(["report", str(parts / "cpu"), "--output", str(tmp_path / "shown")]) == 2


@pytest.mark.parametrize("least", [0.0, 1.5, -0.5])
def test_a_limit_that_no_manifest_has(
    parts: Path, tmp_path: Path, least: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Above 0, and at most 1."""

    def with_limit(result: GateResult) -> GateResult:
        assert result.scope
        models = tuple(replace(model, min_strength=least) for model in result.scope.models)
        return replace(result, scope=replace(result.scope, models=models))

    change(parts / "cpu", with_limit)
    refused(parts, tmp_path / "out", "which no manifest can have", capsys)
