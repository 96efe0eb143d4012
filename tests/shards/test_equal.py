"""plan → 3 shards → merge is one run over the whole manifest, check by check."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from onnx_gate.cli.main import main
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.result import GateResult, ProviderState
from onnx_gate.reports import json
from onnx_gate.vocabulary import REPORTS, Status
from tests.shards.conftest import Runs
from tests.shards.project import IDS, change, merge, timeless


def test_the_run_has_every_kind_of_ending(runs: Runs) -> None:
    """Else its parts would prove little."""
    verdicts = {model.id: model.verdict for model in json.read(runs.whole).models}
    assert tuple(verdicts) == IDS
    assert set(verdicts.values()) == set(Status)
    assert runs.whole_code == 1


def test_every_shard_holds_something_and_none_holds_all(runs: Runs) -> None:
    """Three parts of one manifest."""
    held = [[model.id for model in json.read(shard).models] for shard in runs.shards]
    assert all(held)
    assert sorted(one for ids in held for one in ids) == sorted(IDS)


def test_merged_shards_are_the_whole_run(runs: Runs, shards: Path, tmp_path: Path) -> None:
    """Every check and every number, but for times; verdict and exit code as well."""
    code, merged = merge(tmp_path / "merged", shards)
    whole = json.read(runs.whole)
    assert merged is not None
    assert timeless(merged.models) == timeless(whole.models)
    assert (code, merged.exit_code, merged.verdict) == (1, whole.exit_code, whole.verdict)
    assert (merged.complete, merged.problems, merged.shard) == (True, (), None)
    assert merged.scope == whole.scope
    assert replace(merged.environment, providers={}) == replace(whole.environment, providers={})
    assert merged.environment.providers.keys() == whole.environment.providers.keys()


def test_a_warning_of_the_manifest_that_all_shards_have_is_one(shards: Path, tmp_path: Path) -> None:
    """In the order of the manifest, whichever shard says it."""
    first, last = (
        ManifestWarning(file="onnx-gate.yml", line=line, column=1, path="", message="odd", models=IDS[:1])
        for line in (3, 9)
    )
    for number, folder in enumerate(sorted(shards.iterdir())):
        warnings = (last, first) if number else (last,)
        change(folder, partial(replace, warnings=warnings))
    _, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert merged.warnings == (first, last)


def test_the_files_of_all_shards_are_brought_together(runs: Runs, shards: Path, tmp_path: Path) -> None:
    """Models and logs, as the whole run left them."""
    merge(tmp_path / "merged", shards)
    for part in ("models", "logs"):
        names = {file.name for file in (runs.whole / part).iterdir()}
        assert names
        assert {file.name for file in (tmp_path / "merged" / part).iterdir()} == names
    assert "fitting" in (tmp_path / "merged/logs/linear.log").read_text()
    same = "models/linear.onnx"
    assert (tmp_path / "merged" / same).read_bytes() == (runs.whole / same).read_bytes()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_the_folders_may_be_named_one_by_one_in_any_order(runs: Runs, tmp_path: Path, order: tuple[int, ...]) -> None:
    """The result is the same to the byte."""
    code, _ = merge(tmp_path / "merged", *(runs.shards[number] for number in order))
    merge(tmp_path / "other", *runs.shards)
    assert code == 1
    for name in REPORTS:
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_report_renders_merged_results_again(shards: Path, tmp_path: Path) -> None:
    """Byte for byte."""
    merge(tmp_path / "merged", shards)
    assert main(["report", str(tmp_path / "merged"), "--output", str(tmp_path / "again")]) == 1
    for name in REPORTS:
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_shards_without_a_plan_take_turns_and_merge_too(runs: Runs, tmp_path: Path) -> None:
    """Also where there are more shards than models: the empty one is a part like any other."""
    argv = ["run", str(runs.manifest), "--only", "doubler", "--only", "rotten"]
    codes = [main([*argv, "--shard", f"{n}/3", "--output", str(tmp_path / f"shards/{n}")]) for n in (1, 2, 3)]
    code, merged = merge(tmp_path / "merged", tmp_path / "shards")
    assert codes == [0, 1, 0]
    assert merged is not None
    whole = json.read(runs.whole)
    assert timeless(merged.models) == timeless([model for model in whole.models if model.id in ("doubler", "rotten")])
    assert (code, merged.complete) == (1, True)
    shutil.rmtree(tmp_path / "shards/3")
    code, merged = merge(tmp_path / "merged", tmp_path / "shards")
    assert merged is not None
    assert merged.problems[0].startswith("shard 3/3 is missing: it holds no model.")


def test_a_merge_tells_the_workflow_what_a_run_would(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs, annotations and the job summary."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.setenv(name, str(tmp_path / name))
    merge(tmp_path / "merged", shards)
    assert "\ndiverged\n" in (tmp_path / "GITHUB_OUTPUT").read_text()
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text().startswith("## ❌ onnx-gate: ")
    assert "::error file=" in capsys.readouterr().out


def test_providers_are_available_where_any_machine_has_them(shards: Path, tmp_path: Path) -> None:
    """One GPU among three machines is a GPU."""

    def with_cuda(result: GateResult) -> GateResult:
        states = {**result.environment.providers, "cuda": ProviderState(available=True)}
        return replace(result, environment=replace(result.environment, providers=states))

    change(shards / "3-of-3", with_cuda)
    _, merged = merge(tmp_path / "merged", shards)
    assert merged is not None
    assert merged.environment.providers["cuda"].available
