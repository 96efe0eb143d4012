"""The command line: what it says, and the exit code that it ends with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_gate import __version__
from onnx_gate.cli.main import main, main_action
from onnx_gate.gate.coverage import state_coverage
from onnx_gate.gate.selection import make_scope
from onnx_gate.records.asked import Manifest, RunOptions, Tolerance
from onnx_gate.records.found import Confusion, ConvertInfo, Worst
from onnx_gate.records.ran import Elsewhere, Placement
from onnx_gate.records.result import Check, Environment, GateResult, ModelResult, ProviderState
from onnx_gate.records.result_scope import AskedModel, Scope
from onnx_gate.reports import RENDER
from onnx_gate.vocabulary import REPORTS, BreachKind, Cause, Status
from tests.golden.records import breaches_of

MANIFEST = """\
version: 1
models:
  - id: iris
    source: iris.py:build
    framework: sklearn
    inputs: {X: {dtype: float32, shape: [batch, 4]}}
  - {id: wine, source: 'iris.py:build', framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 4]}}}
"""
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest whose model leaves a trace when it is loaded; we are in it, outside of Actions."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "onnx-gate.yml").write_text(MANIFEST)
    (tmp_path / "iris.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w').close()\n\ndef build():\n    raise\n")
    return tmp_path


def nothing_was_run(project: Path) -> bool:
    """No model was loaded, and nobody says that one was judged."""
    reports = [project / "onnx-gate-report" / name for name in REPORTS]
    return not (project / "loaded").exists() and not any(report.exists() for report in reports)


# ── check ───────────────────────────────────────────────────────────────────────────────────────────────


def test_check_of_a_good_manifest_exits_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`onnx-gate.yml` is the default; nothing is loaded and nothing is written."""
    before = sorted(project.iterdir())
    assert main(["check"]) == 0
    assert capsys.readouterr() == ("onnx-gate.yml: 2 models, no problems\n", "")
    assert sorted(project.iterdir()) == before


def test_check_of_a_bad_manifest_exits_2(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem on a line of its own, on stderr."""
    Path("bad.yml").write_text("version: 1\nmodels:\n  - {id: a b, sorce: x}\n")
    assert main(["check", "bad.yml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(": ")[0] for line in err.splitlines()] == ["bad.yml:3:10", "bad.yml:3:15"]


@pytest.mark.parametrize("name", ["absent.yml", ".", "iris.py/onnx-gate.yml"])
def test_check_of_no_manifest_exits_2(project: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that isn't there, a folder, a file that is no folder."""
    assert main(["check", name]) == 2
    assert capsys.readouterr().err.startswith(f"{Path(name)}:1:1: ")


@pytest.mark.parametrize("argv", [[], ["frobnicate"], ["run", "--jbos", "2"], ["run", "a.yml", "b.yml"], ["report"]])
def test_a_wrong_call_exits_2(project: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With the usage, on stderr."""
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: onnx-gate")


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """All five, for those who write the workflow."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert [f"\n  {code}  " in text for code in range(5)] == [True] * 5


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The package's own."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"onnx-gate {__version__}\n")


# ── run: what stops it before anything is run ───────────────────────────────────────────────────────────


def test_run_of_a_bad_manifest_exits_2_and_runs_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also not the models that are right."""
    Path("onnx-gate.yml").write_text(f"{MANIFEST}  - {{id: third}}\n")
    assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith("onnx-gate.yml:8:5: models[2]: the key 'source' is missing.")
    assert nothing_was_run(project)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("irsi", "did you mean 'iris'?"),
        ("IRIS", ""),
        ("tagger", "the manifest has: iris, wine"),
        ("", "the manifest has"),
    ],
)
def test_an_unknown_id_exits_2_and_runs_nothing(
    project: Path, wanted: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also not the ids that are known; with the one that was probably meant."""
    assert main(["run", "--only", "wine", "--only", wanted]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"onnx-gate: --only {wanted}: onnx-gate.yml has no model of this id. Fix: ")
    assert hint in err
    assert nothing_was_run(project)


@pytest.mark.parametrize(("wanted", "hint"), [("irs*", "did you mean 'iris'?"), ("x?", "the manifest has: iris, wine")])
def test_a_pattern_that_no_id_matches_exits_2(
    project: Path, wanted: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would leave out what was to be judged."""
    assert main(["run", "--only", wanted]) == 2
    err = capsys.readouterr().err
    assert f"--only {wanted}: onnx-gate.yml has no model whose id matches this pattern. Fix: {hint}" in err
    assert nothing_was_run(project)


@pytest.mark.parametrize("argv", [["--provider", "gpu"], ["--shard", "3/2"], ["--shard", ""]])
def test_a_wrong_argument_exits_2_and_runs_nothing(
    project: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the argument."""
    assert main(["run", *argv]) == 2
    assert capsys.readouterr().err.startswith(f"onnx-gate: {argv[0]}: got ")
    assert nothing_was_run(project)


@pytest.mark.parametrize("output", ["taken", "taken/below", "/proc/onnx-gate", "x" * 300])
def test_an_output_folder_that_cannot_be_made_exits_2(
    project: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in its place, or no place at all: known before an hour of conversions, not after it."""
    Path("taken").write_text("a file")
    assert main(["run", "--output", output]) == 2
    assert capsys.readouterr().err.startswith(f"onnx-gate: --output {output}: the folder can't be written (")
    assert Path("taken").read_text() == "a file"
    assert nothing_was_run(project)


@pytest.mark.parametrize("output", [".", "..", "/", "ci", "./ci/../ci"])
def test_an_output_folder_that_holds_the_manifest_exits_2(
    project: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports would overwrite what is beside it."""
    Path("ci").mkdir()
    shutil.copy("onnx-gate.yml", "ci")
    shutil.copy("iris.py", "ci")
    assert main(["run", "ci/onnx-gate.yml", "--output", output]) == 2
    assert "the manifest is in this folder" in capsys.readouterr().err
    assert nothing_was_run(project)


def test_a_call_that_is_wrong_costs_nothing(project: Path) -> None:
    """Not even yesterday's reports, and no work folder is left behind."""
    report = project / "onnx-gate-report"
    report.mkdir()
    for name in REPORTS:
        (report / name).write_text("yesterday")
    (report / "mine.txt").write_text("keep me")
    assert main(["run", "--only", "nobody"]) == 2
    assert sorted(path.name for path in report.iterdir()) == sorted(["mine.txt", *REPORTS])


def test_the_action_tells_the_workflow_what_is_wrong(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An annotation at the place, the job summary and the outputs, with exit code 2."""
    Path("onnx-gate.yml").write_text("version: 1\nmodels: []\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(project / "outputs"))
    assert main_action() == 2
    assert "::error file=onnx-gate.yml,line=2,col=9," in capsys.readouterr().out
    assert "1 problem in the manifest, nothing was run" in Path("summary").read_text(encoding="utf-8")
    assert "\nerror\n" in Path("outputs").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("INPUT_JOBS", "none", "input 'jobs': got 'none'"),
        ("INPUT_REQUIRE-CUDA", "yes", "input 'require-cuda': got 'yes'"),
        ("INPUT_PROVIDERS", "gpu", "--provider: got 'gpu', expected one of cpu, cuda, "),
        ("INPUT_REQUIREMENTS", "absent.txt", "input 'requirements': absent.txt does not exist"),
        ("INPUT_ONLY", "wine, irsi", "--only irsi: onnx-gate.yml has no model of this id. Fix: did you mean 'iris'?"),
    ],
)
def test_a_wrong_input_exits_2_and_runs_nothing(
    project: Path,
    name: str,
    value: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error names the input."""
    monkeypatch.setenv(name, value)
    assert main_action() == 2
    assert message in capsys.readouterr().err
    assert nothing_was_run(project)


# ── A bug of our own ────────────────────────────────────────────────────────────────────────────────────


def test_a_bug_exits_4_with_a_report_to_paste(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions and the traceback; a bug is never taken for a verdict on the models."""

    def broken(manifest: Manifest, options: RunOptions, *rest: Any, **earlier: Any) -> GateResult:
        raise ZeroDivisionError("a slip of ours")

    monkeypatch.setattr("onnx_gate.gate.run.run_gate", broken)
    assert main(["run"]) == 4
    err = capsys.readouterr().err
    assert f"this is a bug in onnx-gate {__version__}. Please report it" in err
    assert "Traceback (most recent call last)" in err
    assert "ZeroDivisionError: a slip of ours" in err
    assert "Python 3." in err
    assert nothing_was_run(project)
    assert list((project / "onnx-gate-report").iterdir()) == []


# ── report ──────────────────────────────────────────────────────────────────────────────────────────────


def whole_result() -> GateResult:
    """A run that has everything: all verdicts, numbers that aren't finite, labels of all kinds, odd characters."""
    compared: dict[str, Any] = {"provider": "cpu", "dtype": "float32", "shape": (7, 5), "total": 35, "calls": 1}
    tolerance = Tolerance(rtol=1e-3, atol=1e-5)
    passed = Check(
        **compared,
        case="batch=7",
        output="logits",
        status=Status.PASSED,
        seconds=0.25,
        lowest=-1.0,
        highest=2.5,
        max_abs=1.25e-7,
        mean_abs=1e-8,
        max_rel=INF,
        rmse=2.5e-8,
        cosine=0.9999999999999999,
        snr_db=150.0,
        worst=Worst(index=(3, 1), reference=0.1, actual=0.100000125),
        tolerance=tolerance,
    )
    diverged = replace(
        passed,
        case="batch=1",
        status=Status.DIVERGED,
        message="12 of 35 elements differ",
        breaches=breaches_of(BreachKind.ELEMENTS, "12 of 35 elements differ", "NaN met 1.0"),
        mismatched=12,
        max_abs=NAN,
        cosine=None,
        snr_db=-INF,
        nonfinite_mismatched=3,
        worst=Worst(index=(0, 0), reference="NaN", actual=-0.0),
    )
    labels = Check(
        **compared | {"dtype": "string"},
        case="batch=1",
        output="label",
        status=Status.DIVERGED,
        message=diverged.message,
        breaches=diverged.breaches,
        mismatched=12,
        worst=Worst(index=(6,), reference="a|b`c", actual="NaN"),
        confusion=(
            Confusion(reference="a|b`c", actual="NaN", count=2),
            Confusion(reference=True, actual=1, count=1),
        ),
    )
    error = Check(
        provider="cuda",
        case="session",
        output="",
        status=Status.ERROR,
        cause=Cause.PROVIDER_UNAVAILABLE,
        message="libcublas.so.12: <not> found & \x1b[31mred\x1b[0m ]]> é 🟥",
    )
    skipped = replace(error, status=Status.SKIPPED, message="this machine has no such device")
    result = GateResult(
        verdict=Status.DIVERGED,
        exit_code=1,
        complete=True,
        started_at="2026-01-02T03:04:05+00:00",
        seconds=12.345,
        manifest="ci/onnx-gate.yml",
        shard="1/2",
        environment=Environment(
            onnx_gate=__version__,
            python="3.11.9",
            platform="Linux x86_64",
            cpu="A CPU",
            ort_threads=1,
            onnxruntime="1.20.0",
            providers={"cpu": ProviderState(available=True), "cuda": ProviderState(available=False, reason="no GPU")},
        ),
        models=(
            ModelResult(id="fine", line=3, framework="onnx", verdict=Status.PASSED, checks=(passed, skipped)),
            ModelResult(
                id="differs",
                line=9,
                framework="torch",
                verdict=Status.DIVERGED,
                cause=Cause.NAN,
                advice="look at *this*",
                seconds=1.5,
                convert=ConvertInfo(opset=18, ir_version=8, nodes=42, size_bytes=123, seconds=1.1, shipped=False),
                checks=(passed, diverged, labels),
                placement={
                    "cuda": Placement(
                        nodes=2, on_provider=1, elsewhere=(Elsewhere(node="n", op="Shape", provider="cpu"),)
                    )
                },
                notes=("a note",),
                log="logs/differs.log",
            ),
            ModelResult(
                id="broken",
                line=15,
                framework="sklearn",
                verdict=Status.ERROR,
                cause=Cause.PROVIDER_UNAVAILABLE,
                error=error.message,
                checks=(error,),
            ),
            ModelResult(id="idle", line=20, framework="onnx", verdict=Status.SKIPPED, checks=(skipped,)),
        ),
    )
    # Of each model, what a run makes of its checks.
    models = tuple(replace(model, coverage=state_coverage(model.checks)) for model in result.models)
    return replace(result, models=models)


@pytest.fixture
def written(project: Path) -> Path:
    """The reports of a run, as the run itself wrote them."""
    folder = project / "first"
    folder.mkdir()
    for name, render in RENDER.items():
        (folder / name).write_text(render(whole_result()), encoding="utf-8", errors="backslashreplace")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("source", ["first", "first/results.json"])
def test_report_renders_the_same_reports_again(
    project: Path, written: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte, from the folder or from the file, with the run's exit code."""
    assert main(["report", source, "--output", "second"]) == whole_result().exit_code
    assert contents(project / "second") == contents(written)
    assert "1 of 4 models diverged" in capsys.readouterr().out


def test_report_in_place_changes_nothing(project: Path, written: Path) -> None:
    """Source and output may be one folder."""
    before = contents(written)
    assert main(["report", "first", "--output", "first"]) == 1
    assert contents(written) == before


@pytest.mark.parametrize("forged", [0, 1, 3, 130])
def test_report_ends_with_the_exit_code_that_the_checks_make(project: Path, written: Path, forged: int) -> None:
    """So that rendering again in another job fails it, too, whatever the file says of itself."""
    result = replace(whole_result(), exit_code=forged, verdict=Status.PASSED)
    models = tuple(replace(model, verdict=Status.PASSED, cause=None) for model in result.models)
    (written / "results.json").write_text(RENDER["results.json"](replace(result, models=models)), encoding="utf-8")
    assert main(["report", "first", "--output", "second"]) == 1
    shown = json.loads((project / "second/results.json").read_text())
    assert (shown["verdict"], shown["exit_code"]) == ("diverged", 1)
    assert [model["verdict"] for model in shown["models"]] == [model.verdict for model in result.models]


@pytest.mark.parametrize(("said", "shown"), [(130, 130), (143, 143), (0, 1), (2, 1)])
def test_report_of_a_cancelled_run_stays_cancelled(project: Path, written: Path, said: int, shown: int) -> None:
    """Its exit code is that of the signal, or else what the checks make it; never a pass."""
    result = replace(whole_result(), complete=False, exit_code=said)
    (written / "results.json").write_text(RENDER["results.json"](result), encoding="utf-8")
    assert main(["report", "first", "--output", "second"]) == shown
    unjudged = replace(result, models=tuple(model for model in result.models if model.verdict is Status.PASSED))
    (written / "results.json").write_text(RENDER["results.json"](unjudged), encoding="utf-8")
    assert main(["report", "first", "--output", "second"]) == (shown if shown > 128 else 3)


def test_report_refuses_numbers_that_contradict_each_other(
    project: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pass whose worst element is out of tolerance was never one."""
    result = whole_result()
    model = next(model for model in result.models if model.verdict is Status.PASSED)
    check = replace(model.checks[0], worst=Worst(index=(0,), reference=1.0, actual=2.0), max_abs=1.0)
    models = tuple(replace(model, checks=(check,)) if one is model else one for one in result.models)
    (written / "results.json").write_text(RENDER["results.json"](replace(result, models=models)), encoding="utf-8")
    assert main(["report", "first", "--output", "second"]) == 2
    told = capsys.readouterr().err
    assert "first: it contradicts itself" in told
    assert "no wrong element, and the worst differs by 1, where 0.00101 is allowed" in told
    assert not (project / "second").exists()


def tampered(**values: Any) -> GateResult:
    """The same with another first check of the first model, which passed; nothing says what the manifest asked for."""
    first, *others = whole_result().models
    checks = (replace(first.checks[0], **values), *first.checks[1:])
    return replace(whole_result(), models=(replace(first, checks=checks), *others))


def with_models(*models: ModelResult) -> GateResult:
    """The same with other models."""
    return replace(whole_result(), models=models)


FINE, DIFFERS, *_ = whole_result().models


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (tampered(breaches=breaches_of(BreachKind.ELEMENTS, "too far")), "it is called passed, and has 1 breaches"),
        (tampered(status=Status.DIVERGED), "it is called diverged, and has 0 breaches"),
        (
            tampered(status=Status.SKIPPED, breaches=breaches_of(BreachKind.ELEMENTS, "x")),
            "it is called skipped, and has 1 breaches",
        ),
        (tampered(provider="graph"), "a pass of nothing that was asked for"),
        (tampered(provider=""), "a pass of nothing that was asked for"),
        (tampered(output=""), "a pass of nothing that was asked for"),
        (tampered(tolerance=Tolerance(rtol=1e-3, atol=NAN)), "its atol is nan, expected a finite number"),
        (tampered(limits={"max_mismatch": INF}), "its max_mismatch is inf, expected a finite number"),
        (with_models(FINE, FINE), "it has fine twice"),
        (with_models(FINE, replace(FINE, id="FINE")), "it has fine twice"),
        (with_models(replace(FINE, id="../fine")), "'../fine' is not a valid id"),
        (with_models(replace(FINE, checks=FINE.checks * 2)), "cpu batch=7 logits is compared twice"),
        (with_models(replace(FINE, log="../../secret")), "its log is '../../secret'"),
        (replace(whole_result(), shard="x"), "its shard is 'x', expected I/N"),
        (replace(whole_result(), shard="3/2"), "its shard is '3/2', expected I/N"),
    ],
)
def test_report_refuses_what_contradicts_itself_also_where_nothing_says_what_was_asked(
    project: Path, written: Path, result: GateResult, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """To leave the scope out is no way around the checks."""
    assert result.scope is None
    (written / "results.json").write_text(RENDER["results.json"](result), encoding="utf-8")
    assert main(["report", "first", "--output", "second"]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert "--shard" not in told
    assert not (project / "second").exists()


def split(*shards: int) -> Scope:
    """Two shards, and which of them holds each model."""
    models = [
        AskedModel(id=f"m{at}", line=at + 1, framework="onnx", providers={"cpu": False}, shard=shard)
        for at, shard in enumerate(shards)
    ]
    return make_scope("0" * 64, 2, models, ())


@pytest.mark.parametrize(
    ("shard", "scope", "code"),
    [
        (None, None, 3),
        ("2/2", None, 3),
        ("2/2", split(1, 1), 0),
        ("2/2", split(1, 2), 2),
        ("2/2", split(), 3),
        ("2/2", split(0), 3),
        (None, split(2), 2),
        (None, make_scope("0" * 64, 1, (), ()), 3),
        ("1/1", make_scope("0" * 64, 1, (), ()), 3),
    ],
)
def test_report_of_no_models_passes_for_an_empty_shard_only(
    project: Path, written: Path, shard: str | None, scope: Scope | None, code: int
) -> None:
    """Nothing was judged, unless another shard of the plan holds every model."""
    result = replace(whole_result(), models=(), shard=shard, scope=scope, verdict=Status.SKIPPED, exit_code=0)
    (written / "results.json").write_text(RENDER["results.json"](result), encoding="utf-8")
    assert main(["report", "first", "--output", "second"]) == code


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"not JSON",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"schema": 2}',
        b'{"schema": 1, "models": 5}',
        None,
    ],
    ids=["empty", "text", "object", "list", "null", "binary", "brackets", "schema 2", "models", "absent"],
)
def test_report_of_garbage_exits_2(
    project: Path, written: Path, garbage: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file's name, and without touching the output folder."""
    results = written / "results.json"
    results.unlink()
    if garbage is not None:
        results.write_bytes(garbage)
    assert main(["report", "first", "--output", "second"]) == 2
    assert capsys.readouterr().err.startswith("onnx-gate: first/results.json: ")
    assert not (project / "second").exists()


def test_report_ignores_what_it_does_not_know(project: Path, written: Path) -> None:
    """A newer version may have added fields to the same schema."""
    results = written / "results.json"
    results.write_text(results.read_text().replace('"schema": 2,', '"schema": 2, "new": true,', 1))
    assert main(["report", "first", "--output", "second"]) == 1
    assert (project / "second/summary.md").read_text() == (project / "first/summary.md").read_text()


def test_report_refuses_another_schema(project: Path, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a word on what to do."""
    results = written / "results.json"
    results.write_text(results.read_text().replace('"schema": 2,', '"schema": 1,', 1))
    assert main(["report", "first", "--output", "second"]) == 2
    assert "it has schema 1, and onnx-gate" in capsys.readouterr().err


def test_report_into_a_file_exits_2(project: Path, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for `run`."""
    Path("taken").write_text("a file")
    assert main(["report", "first", "--output", "taken"]) == 2
    assert "the folder can't be written" in capsys.readouterr().err
